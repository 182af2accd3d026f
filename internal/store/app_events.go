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
	ID             uuid.UUID  `column:"id"`
	App            string     `column:"app"`
	Type           string     `column:"type"`
	SendID         uuid.UUID  `column:"send_id,null"` // uuid.Nil: the event is about the verification
	VerificationID string     `column:"verification_id"`
	Status         string     `column:"status"` // status of the send or the verification at that time
	Reason         string     `column:"reason"`
	Test           bool       `column:"test"`
	At             time.Time  `column:"at"` // when it happened, on the log's clock
	State          EventState `column:"state"`
	Attempt        int        `column:"attempt"`
	DueAt          time.Time  `column:"due_at"`   // while pending
	EndedAt        time.Time  `column:"ended_at"` // zero while pending
	Answer         string     `column:"answer"`   // result of the last attempt: a word or an HTTP status

	// The present values of the send, or of the verification if there is no send; empty if both were deleted.
	Channel   recipient.Channel `column:"channel"`
	Purpose   string            `column:"purpose"`
	To        string            `column:"masked"` // masked
	Reference string            `column:"reference"`
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
