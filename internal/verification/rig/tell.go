package rig

import (
	"fmt"

	"sendcode/internal/store"
)

// events are all events as "type reason", the oldest first; test recipients' with a mark.
func (r *Rig) events() (list []string) {
	r.Helper()
	events, err := r.Store.DB.AppEvents(r.Context(), store.AppEventFilter{Limit: 200})
	if err != nil {
		r.Fatal(err)
	}
	for _, e := range events {
		text := e.Type
		if e.Reason != "" {
			text += " " + e.Reason
		}
		if e.Test {
			text += " (test)"
		}
		if e.App != "shop" || e.VerificationID == "" || e.Type != "verification.approved" && e.SendID == [16]byte{} {
			r.Errorf("event %+v", e)
		}
		list = append([]string{text}, list...)
	}
	return list
}

func (r *Rig) Told(want ...string) {
	r.Helper()
	if got := r.events(); fmt.Sprint(got) != fmt.Sprint(want) {
		r.Errorf("told %v, want %v", got, want)
	}
}
