package store

import (
	"encoding/binary"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/base/recipient"
)

// NewEvent is an event for the app. If the event reports a change, the store writes the event and
// the change in one transaction. For the zero value, the store writes no event.
type NewEvent struct {
	ID   uuid.UUID // version 7; repeated deliveries of an event have the same ID, so that the receiver recognizes them
	Type string    // of EventTypes; empty: write no event
	// Status of the send or verification at the time of the event. Finish ignores this field and
	// writes the status of the send's outcome.
	Status string
	Test   bool // the recipient is a test recipient
}

// EventType is a type of event. Status is the status of the send or verification that the event
// reports.
type EventType struct{ Name, Status string }

// The types of events. Events about the end of a send have other types, which consist of "send."
// and the send's status.
const (
	SendBounced          = "send.bounced" // by a mail provider's report
	SendDelivered        = "send.delivered"
	SendUndelivered      = "send.undelivered" // by a carrier's report
	VerificationApproved = "verification.approved"
	VerificationExpired  = "verification.expired"
	VerificationCanceled = "verification.canceled"
	VerificationLocked   = "verification.locked"   // by its last wrong code
	VerificationReported = "verification.reported" // by its recipient, who did not ask for it
)

// EventTypes are all types of events, in the order of the documentation.
var EventTypes = []EventType{
	{"send.sent", string(Sent)},
	{"send.failed", string(Failed)},
	{"send.unknown", string(Unknown)},
	{SendBounced, "bounced"},
	{SendDelivered, string(Delivered)},
	{SendUndelivered, string(Undelivered)},
	{VerificationApproved, "approved"},
	{VerificationExpired, "expired"},
	{VerificationCanceled, "canceled"},
	{VerificationLocked, "max_attempts_reached"},
	{VerificationReported, "canceled"},
}

// CheckEventTypes are the types of the events about a check that ends a verification. The key is
// true if the code was right. The key is false if the code was wrong and the verification allows no
// more attempts.
var CheckEventTypes = map[bool]string{true: VerificationApproved, false: VerificationLocked}

// ExpiryEventID returns the ID of the event that reports the expiry of v. The ID depends only on v,
// so the database can store the event only once.
func ExpiryEventID(v Verification) uuid.UUID {
	id := uuid.UUID(uuid.NewSHA1(uuid.NameSpaceURL, []byte("expired:"+v.ID)))
	binary.BigEndian.PutUint64(id[:],
		uint64(v.ExpiresAt.UnixMilli())<<16|0x7000|uint64(binary.BigEndian.Uint16(id[6:])&0x0fff))
	return id
}

// ExpiryCursor is a place in the order in which verifications expire.
type ExpiryCursor struct {
	At time.Time
	ID string // ID of the last verification that was read with that expiry; empty: none
}

// EventState is the state of an event's delivery.
type EventState string

// The states of an event's delivery. An event is given up after the webhook's last retry, or if the
// app no longer has a webhook. Delivered and given up are final.
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
	At             time.Time // time of the change, on the database's clock
	State          EventState
	Attempt        int
	DueAt          time.Time // time of the next attempt, or end of the lease; zero: the delivery has ended
	EndedAt        time.Time // zero while pending
	Answer         string    // result of the last attempt: a word or an HTTP status

	// These fields have the present values of the send. If the event has no send, they have the
	// present values of the verification. If both were deleted, the fields are empty.
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
		{"send_id", &a.SendID, NullableColumn},
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

// AppEventLimit is the largest number of events that LeaseDueAppEvents may lease for an app.
type AppEventLimit struct {
	App   string
	Limit int
}

// AppEventOutcome is the result of an attempt to deliver an event.
type AppEventOutcome struct {
	AttemptID
	State  EventState    // EventPending: the delivery is tried again
	After  time.Duration // with EventPending: how long until the next attempt may start
	Answer string
}

// Sanitized returns the result as it is stored.
func (e AppEventOutcome) Sanitized() AppEventOutcome {
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
