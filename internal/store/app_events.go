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
	// AppEventsDue starts the next attempt of events that are due or whose lease ran out. Of each app it takes at most Share.Limit events,
	// those that are longest overdue. It returns all of them sorted by ID, and the time on the log's clock.
	AppEventsDue(ctx context.Context, lease time.Duration, shares []Share) (events []AppEvent, now time.Time, err error)
	// AppEventEnded ends an attempt. False: another attempt holds the event, or the event has ended; nothing was changed.
	AppEventEnded(ctx context.Context, end AppEventEnd) (bool, error)
	// ForgetAppEvents deletes up to limit events that ended longer than keep ago. It also gives up at most limit pending events that
	// happened longer than keep ago; nobody delivers them, since their app has no receiver any more. It returns both numbers.
	ForgetAppEvents(ctx context.Context, keep time.Duration, limit int) (forgotten, givenUp int, err error)
	// AppEvents returns events, newest first, by ID.
	AppEvents(ctx context.Context, filter AppEventFilter) ([]AppEvent, error)
}

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
