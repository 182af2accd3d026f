package store

import (
	"time"

	"github.com/google/uuid"

	"sendcode/internal/recipient"
)

// NewEvent is the event that is written with a change. The zero value writes none.
type NewEvent struct {
	ID   uuid.UUID // version 7; the same in repeated deliveries, so that the receiver recognizes them
	Type string    // such as "send.sent"; empty: write no event
	Test bool      // the recipient is a test recipient
}

// EventState is the state of an event's delivery.
type EventState string

// The states of an event.
const (
	EventPending   EventState = "pending"
	EventDelivered EventState = "delivered"
	EventGivenUp   EventState = "given_up"
)

// AppEvent is an event that is delivered to an app.
type AppEvent struct {
	ID             uuid.UUID
	App            string
	Type           string
	SendID         uuid.UUID // uuid.Nil: the event is about the verification
	VerificationID string
	Status         string // status of the send or the verification at that time
	Reason         string
	Test           bool
	At             time.Time // when it happened, on the database's clock
	State          EventState
	Attempt        int
	DueAt          time.Time // while pending
	EndedAt        time.Time // zero while pending
	Answer         string    // result of the last attempt: a word or an HTTP status

	// The present values of the send, or of the verification if there is no send; empty if both were deleted.
	Channel   recipient.Channel
	Purpose   string
	To        string // masked
	Reference string
}

// Columns returns the columns of the row.
func (a *AppEvent) Columns() []Column {
	return []Column{
		{"id", &a.ID, 0},
		{"app", &a.App, 0},
		{"type", &a.Type, 0},
		{"send_id", &a.SendID, Null},
		{"verification_id", &a.VerificationID, 0},
		{"status", &a.Status, 0},
		{"reason", &a.Reason, 0},
		{"test", &a.Test, 0},
		{"at", &a.At, 0},
		{"state", (*string)(&a.State), 0},
		{"attempt", &a.Attempt, 0},
		{"due_at", &a.DueAt, 0},
		{"ended_at", &a.EndedAt, 0},
		{"answer", &a.Answer, 0},
		{"channel", (*string)(&a.Channel), 0},
		{"purpose", &a.Purpose, 0},
		{"masked", &a.To, 0},
		{"reference", &a.Reference, 0},
	}
}

// Share is how many events of an app AppEventsDue may take.
type Share struct {
	App   string
	Limit int
}

// AppEventEnd is the result of an attempt.
type AppEventEnd struct {
	Held
	State  EventState    // EventPending: the delivery is tried again
	After  time.Duration // with EventPending: until the next attempt may start
	Answer string
}

// Sanitized returns the end of an attempt as it is stored.
func (e AppEventEnd) Sanitized() AppEventEnd {
	e.Answer = sanitized(e.Answer)
	return e
}

// AppEventFilter selects events. Zero fields select all.
type AppEventFilter struct {
	App    string
	State  EventState
	Before uuid.UUID // only events with smaller IDs
	Limit  int       // 1 to 200
}
