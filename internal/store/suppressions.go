package store

import (
	"strconv"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/base/recipient"
)

// ReasonSuppressed is the reason of a failed send to a suppressed recipient.
const ReasonSuppressed = "suppressed"

// SuppressionCause is why a recipient is suppressed.
type SuppressionCause string

// The causes.
const (
	CauseHardBounce SuppressionCause = "hard_bounce" // a mail server or a provider reported that the mailbox does not exist
	CauseComplaint  SuppressionCause = "complaint"   // the recipient reported a mail as spam
	CauseOptOut     SuppressionCause = "opt_out"     // the recipient wants no messages, as a provider or a carrier reported
	CauseManual     SuppressionCause = "manual"      // an administrator's decision
)

// Suppression stops all messages to one address, for all purposes. It does not stop messages to
// another spelling of the address. It applies from Since to Until, or until it is lifted.
type Suppression struct {
	ID        uuid.UUID
	App       string // empty: of every app
	Channel   recipient.Channel
	Address   recipient.Hash // of the address as spelled; Begin compares this hash
	Recipient recipient.Hash // as in Send.Recipient: one hash for all spellings of a mailbox
	To        string         // masked
	Cause     SuppressionCause
	Detail    string    // SMTP reply code and enhanced status code, or an administrator's words
	Send      uuid.UUID // the send that caused the suppression; Nil: an administrator added it
	By        string    // account of the administrator who added it; empty: the service
	Since     time.Time // all instants are on the database's clock
	Until     time.Time
	LiftedAt  time.Time // zero: not lifted
	LiftedBy  string
	LiftedWhy string

	Server string // mail server that refused the mail, or that accepted the mail before a provider reported the bounce
	Words  string // text of the refusal or bounce, normalised; Server and Words identify a burst; empty: the suppression is in no burst
}

// Columns returns the columns of the row.
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

// Active reports whether the suppression applies at the instant now. Then the suppression has not
// been lifted, and Until has not passed.
func (s Suppression) Active(now time.Time) bool { return s.LiftedAt.IsZero() && now.Before(s.Until) }

// A burst means that one mail server refused more than BurstLimit recipients with the same words
// within BurstWindow. A burst counts only recipients to whom callers of one class sent. The server
// may be at fault, so all suppressions of a burst are lifted. The metrics show only bursts whose
// suppressions began within the last BurstTold.
const (
	BurstLimit  = 5
	BurstWindow = 10 * time.Minute
	BurstTold   = time.Hour
)

// LiftedWhy of suppressions that no administrator lifted.
const (
	LiftedAccepted = "accepted" // the code was entered, or another server took a mail with it
	LiftedBurst    = "burst"
)

// Burst is a burst of the last BurstTold.
type Burst struct {
	Server, Words string
	Recipients    int
}

// SuppressionID computes the ID of the suppression that a send causes. The ID depends on the send
// and the cause. So a repeated report adds no second row, even if the first suppression was lifted.
func SuppressionID(send uuid.UUID, why SuppressionCause) uuid.UUID {
	return uuid.NewSHA1(send, []byte(why))
}

// NewSuppression makes Finish or IngestProviderEvent suppress the send's recipient in the same
// transaction. If For is 0, nothing is suppressed.
type NewSuppression struct {
	Cause   SuppressionCause
	Address recipient.Hash // of the address as spelled
	For     time.Duration  // length of the suppression
	Words   string         // as Suppression.Words
}

// SuppressionFilter selects suppressions. Zero fields select all.
type SuppressionFilter struct {
	Active    bool // only suppressions in force now, on the database's clock
	Recipient *recipient.Hash
	Before    *Cursor // only suppressions older than this mark, by Since and then ID
	Limit     int     // 1 to 200
}

// LiftSuppressionsRequest ends the suppressions of one address that are in force now.
type LiftSuppressionsRequest struct {
	Channel recipient.Channel
	Address recipient.Hash
	App     string // only suppressions with this App; empty: all
	By, Why string // the administrator's account and reason
}

// SuppressionIDs returns the IDs of all suppressions that may have stopped the send, or that the
// send may have caused.
func SuppressionIDs(s Send) []uuid.UUID {
	ids := []uuid.UUID{SuppressionID(s.ID, CauseHardBounce), SuppressionID(s.ID, CauseComplaint), SuppressionID(s.ID, CauseOptOut)}
	if s.Suppression != uuid.Nil {
		ids = append(ids, s.Suppression)
	}
	return ids
}

// Validated validates the suppression and the audit entry in act, which may be nil. It returns both
// in the form in which the store writes them. Errors wrap ErrBadRequest.
func (s Suppression) Validated(act *AuditEntry) (Suppression, *AuditEntry, error) {
	s.Detail, s.By = sanitized(s.Detail), sanitized(s.By)
	s.LiftedAt, s.LiftedBy, s.LiftedWhy = time.Time{}, "", ""
	if !AreValidTexts(s.App, string(s.Channel), s.To) {
		return s, nil, BadRequestf("a text is not plain UTF-8 of at most %d bytes", MaxTextBytes)
	}
	act, err := validatedAuditEntry(act)
	return s, act, err
}

// Validated validates the request and the audit entry in act, which may be nil. It returns both in
// the form in which the store uses them. Errors wrap ErrBadRequest.
func (l LiftSuppressionsRequest) Validated(act *AuditEntry) (LiftSuppressionsRequest, *AuditEntry, error) {
	l.By, l.Why = sanitized(l.By), sanitized(l.Why)
	if !AreValidTexts(l.App, string(l.Channel)) {
		return l, nil, BadRequestf("a text is not plain UTF-8 of at most %d bytes", MaxTextBytes)
	}
	act, err := validatedAuditEntry(act)
	return l, act, err
}

// validatedAuditEntry validates an audit entry and returns a copy; nil stays nil.
func validatedAuditEntry(act *AuditEntry) (*AuditEntry, error) {
	if act == nil {
		return nil, nil
	}
	a, err := act.Validated()
	return &a, err
}

// WithLiftedSuppressions returns the entry with the number of lifted suppressions as its detail. If
// the entry names no recipient, it gets the recipient of the first suppression.
func (a AuditEntry) WithLiftedSuppressions(list []Suppression) AuditEntry {
	a.Detail = strconv.Itoa(len(list))
	if len(list) > 0 && !a.HasRecipient() {
		a.Recipient, a.To = list[0].Recipient, list[0].To
	}
	return a
}
