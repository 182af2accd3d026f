package rig

import (
	"fmt"
	"strings"

	"sendcode/internal/verification"
)

// pumped is a German prefix whose numbers are asked for, one after the other.
func Pumped(n int) string { return fmt.Sprintf("+49151%08d", 30_000_000+n) }

// pump asks for codes that are never entered.
func (r *Rig) Pump(from, n int) {
	r.Helper()
	for i := range n {
		r.Send(TextTo(Pumped(from + i)))
	}
}

func (r *Rig) Status(a verification.Answer) string {
	r.Helper()
	s := r.Get(a.View.ID).Send
	return strings.TrimSuffix(string(s.Status)+" "+s.Reason, " ")
}

// PrefixPaused makes watcher an observer of pauses.
func (w *Watcher) PrefixPaused(app, country string) { w.Told = append(w.Told, app+" "+country) }
