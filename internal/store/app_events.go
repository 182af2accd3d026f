package store

import (
	"encoding/binary"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/base/recipient"
)

// NewEvent is an event for the app, written in the transaction of the change that it reports. The
// zero value means no event.
type NewEvent struct {
	ID   uuid.UUID // version 7; the same in repeated deliveries, so that receivers recognize them
	Type string    // of EventTypes; empty: no event
	// of the send, verification or app at that time; Finish ignores it and writes the outcome's
	Status string
	Test   bool // the event is about a test recipient
}

// EventType names a type, and the status that it reports of the send, verification or app.
type EventType struct{ Name, Status string }

// These are types of events. Events about the end of a send have other types: "send." followed by
// the send's status.
const (
	SendBounced          = "send.bounced" // by a mail provider's report
	SendDelivered        = "send.delivered"
	SendUndelivered      = "send.undelivered" // by a carrier's report
	VerificationApproved = "verification.approved"
	VerificationExpired  = "verification.expired"
	VerificationCanceled = "verification.canceled"
	VerificationLocked   = "verification.locked"   // by its last wrong code
	VerificationReported = "verification.reported" // by its recipient, who did not ask for it
	ConversionLow        = "conversion.low"        // about an app; see LowConversion
	ConversionRecovered  = "conversion.recovered"
)

// EventTypes are in the order of the documentation.
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
	{ConversionLow, "low"},
	{ConversionRecovered, "recovered"},
}

// CheckEventTypes has the type of the event about a check that ends a verification, by whether the
// code was right. A wrong code ends the verification if no attempts are left.
var CheckEventTypes = map[bool]string{true: VerificationApproved, false: VerificationLocked}

// ExpiryEventID returns the ID of the event that reports v's expiry. It depends only on v, so that
// the event can be stored only once.
func ExpiryEventID(v Verification) uuid.UUID {
	id := uuid.UUID(uuid.NewSHA1(uuid.NameSpaceURL, []byte("expired:"+v.ID)))
	binary.BigEndian.PutUint64(id[:],
		uint64(v.ExpiresAt.UnixMilli())<<16|0x7000|uint64(binary.BigEndian.Uint16(id[6:])&0x0fff))
	return id
}

// ExpiryCursor is a place in the order in which verifications expire.
type ExpiryCursor struct {
	At time.Time
	ID string // of the last verification that was read with that expiry; empty: none
}

type EventState string

// These are the states of an event's delivery. It's given up after the webhook's last retry, or if
// the app no longer has a webhook. EventDelivered and EventGivenUp are final.
const (
	EventPending   EventState = "pending"
	EventDelivered EventState = "delivered"
	EventGivenUp   EventState = "given_up"
)

type AppEvent struct {
	ID             uuid.UUID
	App            string
	Type           string
	SendID         uuid.UUID // Nil: the event is about the verification
	VerificationID string    // empty: the event is about the app
	Status         string    // of the send, verification or app at that time
	Reason         string
	Test           bool
	At             time.Time // of the change, on the database's clock
	State          EventState
	Attempt        int
	DueAt          time.Time // next attempt, or end of the lease; zero: the delivery has ended
	EndedAt        time.Time // zero while pending
	Answer         string    // to the last attempt: a word or an HTTP status

	// As they are now in the send or, if the event has none, in the verification; empty if that was
	// deleted.
	Channel   recipient.Channel
	Purpose   string
	To        string // masked
	Reference string
}

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

// AppEventLimit is the most events of an app that LeaseDueAppEvents may lease.
type AppEventLimit struct {
	App   string
	Limit int
}

type AppEventOutcome struct {
	AttemptID
	State  EventState    // EventPending: to be tried again
	After  time.Duration // with EventPending: until the next attempt may start
	Answer string
}

// Sanitized returns the outcome as it is stored.
func (e AppEventOutcome) Sanitized() AppEventOutcome {
	e.Answer = sanitized(e.Answer)
	return e
}

// AppEventFilter selects events. Zero fields select all.
type AppEventFilter struct {
	App       string
	Type      string
	State     EventState
	Recipient *recipient.Hash // of the send or verification; nil: of all
	Before    uuid.UUID       // smaller IDs only
	Limit     int             // 1 to 200
}
