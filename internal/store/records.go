package store

import (
	"cmp"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/base/recipient"
)

// Status is the state of a send.
type Status string

// The states of a send. Queued and Sending are in flight. The others are final, except that a
// receipt may change Sent, Unknown or Undelivered.
const (
	Queued  Status = "queued"  // waits for its next attempt
	Sending Status = "sending" // an attempt holds its lease
	Sent    Status = "sent"    // the mail server or the carrier took the message
	Failed  Status = "failed"  // definitely not delivered; Reason says why
	Unknown Status = "unknown" // may have been delivered; never sent again, never refunded
	// Only text messages: the carrier's receipt.
	Delivered Status = "delivered" // the message reached the phone
	// The message did not reach the phone. The send is not refunded, because the carrier accepted
	// the message. See also StatusForApp.
	Undelivered Status = "undelivered"

	Refused Status = "refused" // a refusal, not a send
)

// InFlight reports whether the send still waits for its outcome.
func (s Status) InFlight() bool { return s == Queued || s == Sending }

// Class is the class of a caller. It determines how far the caller is trusted with a recipient's
// sends and checks.
type Class string

// The classes of callers.
const (
	SecretKeyClass Class = ""        // a back end that says that it knows the person (trust: known)
	KnownBrowser   Class = "known"   // a browser in which an earlier code of this recipient was entered
	UnknownBrowser Class = "unknown" // any other browser, and any other request of a back end
)

// Name returns the name of the class: secret, known or unknown. Log lines and the admin API contain
// this name. It is also part of the keys under which the console looks up its translated texts.
func (c Class) Name() string { return cmp.Or(string(c), "secret") }

// Classes are all classes.
var Classes = []Class{SecretKeyClass, KnownBrowser, UnknownBrowser}

// IsStranger reports whether callers of the class are strangers. Strangers have their own share of
// the service's resources: concurrent requests, attempts and memory. Rules and caps that cover more
// than one recipient also treat known browsers as strangers. See policy.IsStrangerInScope.
func (c Class) IsStranger() bool { return c == UnknownBrowser }

// Queue names a queue of the outbox. Each channel has two queues: one for the sends of strangers,
// one for all other sends.
type Queue struct {
	Channel   recipient.Channel
	Strangers bool // see Class.IsStranger
}

// Queues returns all queues. Of each channel, the queue of strangers comes last.
func Queues() (all []Queue) {
	for _, ch := range recipient.Channels() {
		all = append(all, Queue{Channel: ch}, Queue{Channel: ch, Strangers: true})
	}
	return all
}

// Queue returns the queue of the work.
func (w Work) Queue() Queue {
	return Queue{Channel: w.Send.Channel, Strangers: w.Verification.Class.IsStranger()}
}

// SessionHolder begins each Verification.Holder that names a session of an end user. Other holders
// are random, so no later request has them.
const SessionHolder = "s:"

// Verification is a row of the table verifications: one code and its state.
type Verification struct {
	ID         string // from NewVerificationID; secret, since it allows to read and check the verification
	App        string
	Channel    recipient.Channel
	Purpose    string
	Recipient  recipient.Hash
	To         string // masked
	Sealed     []byte // the full recipient, encrypted; empty once erased
	Holder     string // requests with this holder may resend without the ID; empty: a browser opened the verification
	Class      Class  // class of the caller that opened the verification; each class has its own daily limit of failed checks
	Nonce      []byte // 16 random bytes from which the code is derived; the code itself is not stored
	KeyID      string // ID of the key in the ring from which the code is derived
	CodeLength int
	Alphabet   string // of the code; a code.Alphabet
	Locale     string
	Labels
	CreatedAt   time.Time
	ExpiresAt   time.Time
	Attempts    int     // checks counted so far
	Checks      []Check // the counted checks, oldest first; if the verification is approved, the last check had the right code
	MaxAttempts int
	Sends       int       // sends so far
	ApprovedAt  time.Time // zero: not approved
	CanceledAt  time.Time // zero: not canceled
	NotMeAt     time.Time // when the recipient reported that they had not asked for the code; zero: not reported
	RedeemedAt  time.Time // zero: its proof was not redeemed
	RedeemedBy  []byte    // hash of the Idempotency-Key of the request that redeemed the proof; empty: not redeemed, or without a key
	Replaces    []string  // IDs of the verifications that it replaced, newest first, at most MaxReplacedIDs
	// number of Attempts that a reset of the quota took back: the bounds on failed checks ignore
	// them
	AttemptsReset int
	// CallerChecks is true if the caller made the code, and checks it without the service. The
	// service never checks the code and never sends it again; see Intent.Code.
	CallerChecks bool
	Details      string // what the code confirms, in the caller's words; the message contains this text; empty: none
	Reported     Report // the caller's report, if the caller checks the code; if it is ReportApproved, ApprovedAt is set
	// CheckKey identifies the last counted check, so that a repetition of this check gets the same
	// answer. It has these parts:
	//
	//   - a keyed hash of the app and the check's Idempotency-Key
	//   - a keyed hash of the Idempotency-Key, the kind of caller, the verification and the code
	//   - one byte for each later check that used the same Idempotency-Key with another code
	//
	// After MaxAttempts later checks with another code, CheckKey keeps only the first hash. From
	// then on, a repetition of the counted check no longer gets its answer.
	//
	// CheckKey is empty if the check had no Idempotency-Key, or if the recipient was erased. If the
	// caller checks the code, CheckKey is one hash, made from the Idempotency-Key of the caller's
	// report.
	CheckKey []byte
}

// CheckKeyHashSize is the size in bytes of each hash in Verification.CheckKey.
const CheckKeyHashSize = 32

// Report is a caller's report on a code that the caller checks itself. If such a code has no
// Report, statistics ignore it, it gets no expiry event for the app, and it does not count when
// prefixes of phone numbers are judged (see PrefixWatch).
type Report string

// The reports. ReportDue means that the caller reports each approval. So if no further report
// follows, the code was not entered.
const (
	ReportDue      Report = "due"
	ReportFailed   Report = "failed"
	ReportApproved Report = "approved"
)

// Columns returns the columns of the row.
func (v *Verification) Columns() []Column {
	own := [...]Column{
		{"id", &v.ID, InsertedByBegin},
		{"app", &v.App, InsertedByBegin | ExportedColumn},
		{"channel", (*string)(&v.Channel), InsertedByBegin | ExportedColumn},
		{"purpose", &v.Purpose, InsertedByBegin | ExportedColumn},
		{"recipient", &v.Recipient, InsertedByBegin},
		{"masked", &v.To, InsertedByBegin | ExportedColumn},
		{"sealed", &v.Sealed, NullableColumn | InsertedByBegin | PersonalColumn},
		{"holder", &v.Holder, InsertedByBegin | PersonalColumn},
		{"class", (*string)(&v.Class), InsertedByBegin | ExportedColumn},
		{"nonce", &v.Nonce, InsertedByBegin | PersonalColumn},
		{"key_id", &v.KeyID, InsertedByBegin},
		{"code_length", &v.CodeLength, InsertedByBegin | ExportedColumn},
		{"alphabet", &v.Alphabet, InsertedByBegin | ExportedColumn},
		{"locale", &v.Locale, InsertedByBegin | PersonalColumn | ExportedColumn},
		{"created_at", &v.CreatedAt, InsertedByBegin | ExportedColumn},
		{"expires_at", &v.ExpiresAt, InsertedByBegin | ExportedColumn},
		{"attempts", &v.Attempts, ExportedColumn},
		{"checks", &v.Checks, 0},
		{"max_attempts", &v.MaxAttempts, InsertedByBegin | ExportedColumn},
		{"sends", &v.Sends, InsertedByBegin | ExportedColumn},
		{"approved_at", &v.ApprovedAt, ExportedColumn},
		{"canceled_at", &v.CanceledAt, ExportedColumn},
		{"details", &v.Details, InsertedByBegin | PersonalColumn | ExportedColumn},
		{"not_me_at", &v.NotMeAt, ExportedColumn},
		{"redeemed_at", &v.RedeemedAt, ExportedColumn},
		{"redeemed_by", &v.RedeemedBy, NullableColumn},
		{"replaces", &v.Replaces, InsertedByBegin},
		{"attempts_reset", &v.AttemptsReset, ExportedColumn},
		{"caller_checks", &v.CallerChecks, InsertedByBegin | ExportedColumn},
		{"check_key", &v.CheckKey, NullableColumn},
		{"reported", (*string)(&v.Reported), InsertedByBegin | ExportedColumn},
	}
	return v.withColumns(own[:])
}

// Check is one counted check of a code.
type Check struct {
	At      time.Time
	Network string // the client's, as Send.Network; empty: not known, or erased
}

// MaxReplacedIDs bounds Verification.Replaces, so that its text has at most MaxTextBytes bytes.
const MaxReplacedIDs = 16

// IDsWithReplaced returns the IDs of v and of the verifications that v replaced, newest first; none
// if v has no ID.
func (v Verification) IDsWithReplaced() []string {
	if v.ID == "" {
		return nil
	}
	return append([]string{v.ID}, v.Replaces...)
}

// SendOrRefusal is a row of a list. The row is a send or, if Status is Refused, a refusal from the
// table refusals.
type SendOrRefusal struct {
	Send // of a refusal: only the fields that refusals and sends have in common
	Refusal
}

// Refusal has the fields that only rows of the table refusals have. A row stands for one or more
// refusals by one rule.
type Refusal struct {
	BlockedBy  string        // the rule with the longest wait; empty: the row is a send
	RetryAfter time.Duration // the wait in the latest answer
	Count      int           // how many requests the row stands for; 1 for a send
	Recipients int           // number of recipients that the row stands for, at most ManyRecipients; 0: only Recipient
}

// Columns returns the columns of the row.
func (r *SendOrRefusal) Columns() []Column {
	return append(r.Send.Columns(), []Column{
		{"blocked_by", &r.BlockedBy, InsertedByRefusal | ExportedColumn},
		{"retry_after", &r.RetryAfter, InsertedByRefusal | ExportedColumn},
		{"requests", &r.Count, InsertedByRefusal | ExportedColumn},
		{"recipients", &r.Recipients, InsertedByRefusal},
	}...)
}

// Send is a row of the table sends.
type Send struct {
	ID             uuid.UUID // version 7, so that IDs sort by time
	VerificationID string    // empty for a refusal without a verification
	Number         int       // 1 for the first send of a verification; 0 for a refusal
	App            string
	Channel        recipient.Channel
	Purpose        string
	Recipient      recipient.Hash
	To             string // masked
	Country        string // of a phone number, ISO 3166-1 or "001"; empty: mail, or erased
	Prefix         string // the first digits of a phone number, which To shows, as "+86138"
	Locale         string
	Labels
	Network      string // client's network: /24 for IPv4, /48 for IPv6; only displayed
	Status       Status
	Reason       string    // machine word. Failed, Unknown: why; Queued: why it was postponed
	Attempt      int       // number of the current or last attempt; a write of an earlier attempt changes nothing
	InDoubt      bool      // an earlier attempt ended without an outcome, so its message may have been delivered
	Counts       bool      // the recipient's rules count this send
	RefundDue    bool      // the limiter has not yet confirmed the refund
	LoggedAt     time.Time // when the row was written
	DueAt        time.Time // while in flight: the next attempt's time, or the end of the lease
	FinishedAt   time.Time // zero while in flight
	Provider     string    // host of the mail server, or the carrier
	ProviderCode string    // "250 2.0.0"
	Took         time.Duration
	WorstEvent   ProviderEventKind // the worst event that a provider reported later; empty: none
	Bounced      bool              // a provider reported later that the address takes no mail
	Suppression  uuid.UUID         // the suppression in force at Begin, because of which no message is sent; Nil: none
	WasReset     bool              // a reset of the quota took this send back, so it no longer counts
	Site         string            // host on which the code of a text message is entered; empty: the host of the service's own page
	RequestID    string            // ID of the HTTP request, as in log lines; empty: no HTTP request made the send
	HumanCheck   string            // the passed human check, as humancheck.Offer.By; empty: none was needed
	Observed     []string          // names of observing rules that would have refused this send; empty for a refusal
}

// StatusForApp returns the status that the app sees. For a mail that bounced permanently, this is
// Undelivered. The result final is true if the status cannot change any more. The parameter reports
// is true if the provider of this send's messages sends receipts, bounces or complaints later. Then
// Sent and Unknown may still change.
func (s Send) StatusForApp(reports bool) (status Status, final bool) {
	switch {
	case s.Status == Queued || s.Status == Sending:
		return s.Status, false
	case s.Status != Sent && s.Status != Unknown:
		return s.Status, true
	case s.Bounced:
		return Undelivered, true
	}
	return s.Status, !reports
}

// Columns returns the columns of the row.
func (s *Send) Columns() []Column {
	domain := recipient.DomainOfMasked(s.To)
	own := [...]Column{
		{"id", &s.ID, InsertedByBegin | InsertedByRefusal | ExportedColumn},
		{"verification_id", &s.VerificationID, InsertedByBegin | InsertedByRefusal},
		{"number", &s.Number, InsertedByBegin | ExportedColumn},
		{"app", &s.App, InsertedByBegin | InsertedByRefusal | ExportedColumn},
		{"channel", (*string)(&s.Channel), InsertedByBegin | InsertedByRefusal | ExportedColumn},
		{"purpose", &s.Purpose, InsertedByBegin | InsertedByRefusal | ExportedColumn},
		{"recipient", &s.Recipient, InsertedByBegin | InsertedByRefusal},
		{"masked", &s.To, InsertedByBegin | InsertedByRefusal | ExportedColumn},
		{"country", &s.Country, InsertedByBegin | InsertedByRefusal | PersonalColumn | ExportedColumn},
		{"prefix", &s.Prefix, InsertedByBegin | InsertedByRefusal | PersonalColumn | ExportedColumn},
		{"locale", &s.Locale, InsertedByBegin | InsertedByRefusal | PersonalColumn | ExportedColumn},
		{"network", &s.Network, InsertedByBegin | InsertedByRefusal | PersonalColumn | ExportedColumn},
		{"status", (*string)(&s.Status), InsertedByBegin | ExportedColumn},
		{"reason", &s.Reason, ExportedColumn},
		{"attempt", &s.Attempt, InsertedByBegin | ExportedColumn},
		{"in_doubt", &s.InDoubt, ExportedColumn},
		{"counts", &s.Counts, InsertedByBegin | ExportedColumn},
		{"refund_due", &s.RefundDue, 0},
		{"logged_at", &s.LoggedAt, InsertedByBegin | InsertedByRefusal | ExportedColumn},
		{"due_at", &s.DueAt, 0},
		{"finished_at", &s.FinishedAt, ExportedColumn},
		{"provider", &s.Provider, ExportedColumn},
		{"provider_code", &s.ProviderCode, ExportedColumn},
		{"took", &s.Took, ExportedColumn},
		{"worst_event", (*string)(&s.WorstEvent), ExportedColumn},
		{"bounced", &s.Bounced, ExportedColumn},
		{"suppression_id", &s.Suppression, NullableColumn | InsertedByBegin | ExportedColumn},
		{"was_reset", &s.WasReset, ExportedColumn},
		{"site", &s.Site, InsertedByBegin | ExportedColumn},
		{"request_id", &s.RequestID, InsertedByBegin | PersonalColumn | ExportedColumn},
		{"human_check", &s.HumanCheck, InsertedByBegin | ExportedColumn},
		{"observed", &s.Observed, InsertedByBegin | ExportedColumn},
		{"domain", &domain, InsertedByBegin | InsertedByRefusal | WriteOnlyColumn | PersonalColumn | ExportedColumn},
	}
	return s.withColumns(own[:])
}

// Mask removes the personal data of a refusal, as an erasure does.
func (r *SendOrRefusal) Mask() {
	for _, c := range r.Columns() {
		if c.Flags&(PersonalColumn|InsertedByRefusal) == PersonalColumn|InsertedByRefusal {
			*c.Field.(*string) = ""
		}
	}
	r.To = ErasedMask
}

// ManyRecipients is the largest value of Refusal.Recipients. It means ManyRecipients or more.
const ManyRecipients = 100
