// Package rows turns sends into rows of a list: the status, the reason, the state of the code, and what the recipient's rules say now.
package rows

import (
	"cmp"
	"strconv"
	"strings"

	"sendcode/internal/console/explain"
	"sendcode/internal/store"
	"sendcode/internal/texts"
)

// Row is a send as lists show it.
type Row struct {
	Link                      string
	At                        texts.Clock
	To, Purpose, App, Channel string
	State                     explain.Label
	Why                       string
	Through, Took             string
	Now                       Now
}

// Of returns a send as a row, without the state of its code and its recipient's quota.
func Of(s store.Send, w texts.Words) Row {
	return Row{
		Link: explain.SendAddress(s.ID), At: w.Exactly(s.LoggedAt), To: toOf(s, w), Purpose: s.Purpose, App: s.App,
		Channel: w.Or("channel", string(s.Channel)), State: State(s, w), Why: why(s, w),
		Through: cmp.Or(s.Provider, "–"), Took: w.Took(s.Took),
	}
}

// toOf returns the recipient as a row shows it, or the number of recipients of a row for several.
func toOf(s store.Send, w texts.Words) string {
	if s.Recipients > 0 {
		return w.Plural("list.recipients", s.Recipients)
	}
	return s.To
}

// Signs stand beside the words, so that a list can be read at speed without its colours.
var Signs = map[store.Status]string{
	store.Sent: "✓", store.Delivered: "✓", store.Undelivered: "✕", store.Failed: "✕", store.Refused: "‖", store.Unknown: "?",
	store.Queued: "…", store.Sending: "→",
}

// State returns a send's status as a label.
func State(s store.Send, w texts.Words) explain.Label {
	return explain.Label{Sign: Signs[s.Status], Word: w.Or("status", string(s.Status)), Tone: explain.ToneOf(s.Status)}
}

// why returns the reason in a few words: "550 5.1.1 · refused by the server · did not count", "minute · 42 s left · ×3".
func why(s store.Send, w texts.Words) string {
	var parts []string
	add := func(p string) {
		if p != "" {
			parts = append(parts, p)
		}
	}
	if s.Status == store.Refused {
		add(s.BlockedBy)
		add(w.Get("why.wait", "wait", w.Wait(s.RetryAfter)))
		if s.Count > 1 {
			add("×" + strconv.Itoa(s.Count))
		}
		return strings.Join(parts, " · ")
	}
	add(s.ProviderCode)
	add(w.Or("reason", s.Reason))
	switch {
	case s.Status == store.Queued && s.Attempt > 0:
		add(w.Get("why.again"))
	case s.Status == store.Failed && !s.Counts:
		add(w.Get("why.given_back"))
	}
	if s.Forgiven {
		add(w.Get("why.forgiven"))
	}
	if s.InDoubt {
		add(w.Get("why.doubt"))
	}
	if s.Afterwards != "" {
		add(w.Or("afterwards", string(s.Afterwards)))
	}
	return cmp.Or(strings.Join(parts, " · "), "–")
}
