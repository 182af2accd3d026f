package store

import (
	"strconv"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/base/recipient"
)

// ReasonSuppressed is the reason of a failed send to a suppressed recipient.
const ReasonSuppressed = "suppressed"

type SuppressionCause string

// These are the causes of a suppression.
const (
	CauseHardBounce SuppressionCause = "hard_bounce" // a mail server or a provider reported that there is no such mailbox
	CauseComplaint  SuppressionCause = "complaint"   // the recipient reported a mail as spam
	CauseOptOut     SuppressionCause = "opt_out"     // the recipient wants no messages, by a provider's or carrier's report
	CauseManual     SuppressionCause = "manual"      // an administrator's decision
)

// Suppression stops all messages to one address, for all purposes but not to other spellings, from
// Since to Until or until it is lifted.
type Suppression struct {
	ID        uuid.UUID
	App       string // empty: all
	Channel   recipient.Channel
	Address   recipient.Hash // of the address as spelled, which Begin compares
	Recipient recipient.Hash // as in Send.Recipient: one hash for all spellings of a mailbox
	To        string         // masked
	Cause     SuppressionCause
	Detail    string    // SMTP reply code and enhanced status code, or an administrator's words
	Send      uuid.UUID // the send that caused it; Nil: an administrator added it
	By        string    // account of an administrator; empty: the service
	Since     time.Time // instants are on the database's clock
	Until     time.Time
	LiftedAt  time.Time // zero: not lifted
	LiftedBy  string
	LiftedWhy string

	Server string // the mail server that refused the mail, or took it before a provider reported the bounce
	Words  string // the words of the refusal or bounce, normalised; with Server, they identify a burst; empty: it is in no burst
}

func (s *Suppression) Columns() []Column {
	return []Column{
		{"id", &s.ID, InsertedColumn | ExportedColumn},
		{"app", &s.App, InsertedColumn | ExportedColumn},
		{"channel", (*string)(&s.Channel), InsertedColumn | ExportedColumn},
		{"address", &s.Address, InsertedColumn},
		{"recipient", &s.Recipient, InsertedColumn},
		{"masked", &s.To, InsertedColumn | ExportedColumn},
		{"reason", (*string)(&s.Cause), InsertedColumn | ExportedColumn},
		{"detail", &s.Detail, InsertedColumn | ExportedColumn},
		{"send_id", &s.Send, NullableColumn | InsertedColumn | ExportedColumn},
		{"created_by", &s.By, InsertedColumn},
		{"since", &s.Since, InsertedColumn | ExportedColumn},
		{"until", &s.Until, InsertedColumn | ExportedColumn},
		{"lifted_at", &s.LiftedAt, ExportedColumn},
		{"lifted_by", &s.LiftedBy, 0},
		{"lifted_why", &s.LiftedWhy, 0},
		{"server", &s.Server, InsertedColumn | ExportedColumn},
		{"words", &s.Words, InsertedColumn | ExportedColumn},
	}
}

// Active reports whether the suppression stops messages at now.
func (s Suppression) Active(now time.Time) bool { return s.LiftedAt.IsZero() && now.Before(s.Until) }

// A burst is more than BurstLimit recipients whom one mail server refused with the same words
// within BurstWindow, after sends by one class of callers. The server may be at fault, so all
// suppressions of the burst are lifted. sqldb.DB.LiftedBursts returns only bursts whose
// suppressions began less than BurstReportedFor ago.
const (
	BurstLimit       = 5
	BurstWindow      = 10 * time.Minute
	BurstReportedFor = time.Hour
)

// These are the values of LiftedWhy if no administrator lifted the suppression.
const (
	LiftedAccepted = "accepted" // the code was entered, or another server took a mail with it
	LiftedBurst    = "burst"
)

// Burst is a burst that sqldb.DB.LiftedBursts returned.
type Burst struct {
	Server, Words string
	Recipients    int
}

// SuppressionID returns the ID of the suppression that a send causes. It depends only on the
// arguments, so that a repeated report adds no second row, even if the first was lifted.
func SuppressionID(send uuid.UUID, why SuppressionCause) uuid.UUID {
	return uuid.NewSHA1(send, []byte(why))
}

// NewSuppression makes Finish or IngestProviderEvent suppress the send's recipient, in the same
// transaction, unless For is 0.
type NewSuppression struct {
	Cause   SuppressionCause
	Address recipient.Hash // as spelled
	For     time.Duration  // how long the suppression lasts
	Words   string         // as Suppression.Words
}

// SuppressionFilter selects suppressions. Zero fields select all.
type SuppressionFilter struct {
	Active    bool // in force now, on the database's clock
	Recipient *recipient.Hash
	Before    *Cursor // older ones only, by Since and then ID
	Limit     int     // 1 to 200
}

// LiftSuppressionsRequest ends the suppressions of an address that are in force now.
type LiftSuppressionsRequest struct {
	Channel recipient.Channel
	Address recipient.Hash
	App     string // only those with this App; empty: all
	By, Why string // an administrator's account and reason
}

// SuppressionIDs returns the IDs of the suppressions that may have stopped the send, or that the
// send may have caused.
func SuppressionIDs(s Send) []uuid.UUID {
	ids := []uuid.UUID{SuppressionID(s.ID, CauseHardBounce), SuppressionID(s.ID, CauseComplaint), SuppressionID(s.ID, CauseOptOut)}
	if s.Suppression != uuid.Nil {
		ids = append(ids, s.Suppression)
	}
	return ids
}

// Validated returns the suppression and act as the store writes them. act can be nil. Errors wrap
// ErrBadRequest.
func (s Suppression) Validated(act *AuditEntry) (Suppression, *AuditEntry, error) {
	s.Detail, s.By = sanitized(s.Detail), sanitized(s.By)
	s.LiftedAt, s.LiftedBy, s.LiftedWhy = time.Time{}, "", ""
	if !AreValidTexts(s.App, string(s.Channel), s.To) {
		return s, nil, BadRequestf("a text is not plain UTF-8 of at most %d bytes", MaxTextBytes)
	}
	act, err := validatedAuditEntry(act)
	return s, act, err
}

// Validated returns the request and act as the store uses them. act can be nil. Errors wrap
// ErrBadRequest.
func (l LiftSuppressionsRequest) Validated(act *AuditEntry) (LiftSuppressionsRequest, *AuditEntry, error) {
	l.By, l.Why = sanitized(l.By), sanitized(l.Why)
	if !AreValidTexts(l.App, string(l.Channel)) {
		return l, nil, BadRequestf("a text is not plain UTF-8 of at most %d bytes", MaxTextBytes)
	}
	act, err := validatedAuditEntry(act)
	return l, act, err
}

// validatedAuditEntry returns a copy; nil stays nil.
func validatedAuditEntry(act *AuditEntry) (*AuditEntry, error) {
	if act == nil {
		return nil, nil
	}
	a, err := act.Validated()
	return &a, err
}

// WithLiftedSuppressions makes the number of lifted suppressions the entry's detail. An entry
// without a recipient gets that of the first.
func (a AuditEntry) WithLiftedSuppressions(list []Suppression) AuditEntry {
	a.Detail = strconv.Itoa(len(list))
	if len(list) > 0 && !a.HasRecipient() {
		a.Recipient, a.To = list[0].Recipient, list[0].To
	}
	return a
}
