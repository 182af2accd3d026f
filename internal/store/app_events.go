package store

import (
	"context"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/recipient"
)

// EventQueue is the outbox of events for apps. The statement that makes a change (Finish, Approve) also writes its event: so there is no
// outcome without its event, and no event without its outcome. Package webhook delivers events; leases, attempts and takeover are as
// those of sends.
type EventQueue interface {
	// AppEventsDue starts the next attempt of events that are due or whose lease ran out: of each app as many as its
	// share, the longest overdue first. now is the log's clock.
	AppEventsDue(ctx context.Context, lease time.Duration, shares []Share) (events []AppEvent, now time.Time, err error)
	// AppEventEnded ends an attempt; false: another attempt holds the event, or it had ended.
	AppEventEnded(ctx context.Context, end AppEventEnd) (bool, error)
	// ForgetAppEvents deletes up to limit events that ended longer than keep ago, and gives up as many that happened
	// longer ago than that and that were not delivered, since their app has no receiver any more.
	ForgetAppEvents(ctx context.Context, keep time.Duration, limit int) (forgotten, givenUp int, err error)
	// AppEvents lists events, the newest first by their IDs.
	AppEvents(ctx context.Context, filter AppEventFilter) ([]AppEvent, error)
}

// NewEvent is the event that is written with a change. The zero value writes none.
type NewEvent struct {
	ID   uuid.UUID // version 7; the receiver knows a repeated delivery by it
	Type string    // "send.sent"
	Test bool      // of a test recipient
}

// EventState is where an event's delivery stands.
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
	SendID         uuid.UUID  `column:"send_id,null"` // nil UUID: it is about the verification
	VerificationID string     `column:"verification_id"`
	Status         string     `column:"status"` // of the send or the verification, as it became then
	Reason         string     `column:"reason"`
	Test           bool       `column:"test"`
	At             time.Time  `column:"at"` // when it happened, on the log's clock
	State          EventState `column:"state"`
	Attempt        int        `column:"attempt"`
	DueAt          time.Time  `column:"due_at"`   // while pending
	EndedAt        time.Time  `column:"ended_at"` // zero while pending
	Answer         string     `column:"answer"`   // what the last attempt came to, in a word or a status

	// Of the send or the verification, as it is now; empty when that is gone.
	Channel   recipient.Channel `column:"channel"`
	Purpose   string            `column:"purpose"`
	To        string            `column:"masked"` // masked
	Reference string            `column:"reference"`
}

// Share is how many events of an app a process has room for.
type Share struct {
	App   string
	Limit int
}

// AppEventEnd is what an attempt came to.
type AppEventEnd struct {
	Held
	State  EventState    // EventPending: it is tried again
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
	Before uuid.UUID // older than this one, by its ID
	Limit  int       // 1 to 200
}
