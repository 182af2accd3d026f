package verification

import (
	"slices"

	"sendcode/internal/store"
)

// The events that an app can be told of. Each row is written by the log with the change itself, so nothing here is lost
// and nothing is told that did not happen; package webhook delivers them.
const (
	EventSent     = "send.sent"
	EventFailed   = "send.failed"
	EventUnknown  = "send.unknown"
	EventApproved = "verification.approved"
)

// Events are all of them.
var Events = []string{EventSent, EventFailed, EventUnknown, EventApproved}

// tell is the event for an app that wants it; zero for one that does not.
func (s *Service) tell(app, kind string, test bool) (store.NewEvent, error) {
	if !slices.Contains(s.Terms().Tells[app], kind) {
		return store.NewEvent{}, nil
	}
	id, err := s.newID()
	if err != nil {
		s.Logger.Error("an event got no ID", "event", kind, "error", err)
		return store.NewEvent{}, ErrUnavailable
	}
	return store.NewEvent{ID: id, Type: kind, Test: test}, nil
}

// tellOfSend is the event of an outcome. Without randomness for an ID the outcome is recorded all the same.
func (s *Service) tellOfSend(app string, out store.Outcome) store.NewEvent {
	t, _ := s.tell(app, "send."+string(out.Status), out.Provider == testProvider)
	return t
}

// tellOfApproval is the event of an approval.
func (s *Service) tellOfApproval(v store.Verification) (store.NewEvent, error) {
	_, test := s.testRecipient(v)
	return s.tell(v.App, EventApproved, test)
}

// told has the event delivered at once, if there is one.
func (s *Service) told(t store.NewEvent) {
	if t.Type != "" {
		s.Told()
	}
}
