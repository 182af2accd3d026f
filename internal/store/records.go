package store

import (
	"cmp"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/base/recipient"
)

type Status string

// These are the states of a send. Queued and Sending are in flight. The others are final, except
// that a receipt may change Sent, Unknown and Undelivered.
const (
	Queued  Status = "queued"  // waits for its next attempt
	Sending Status = "sending" // an attempt holds the lease
	Sent    Status = "sent"    // the mail server or the carrier took the message
	Failed  Status = "failed"  // definitely not delivered; Reason says why
	Unknown Status = "unknown" // may have been delivered; never sent again, never refunded
	// Only text messages get the next two states, by the carrier's receipt.
	Delivered Status = "delivered" // the message reached the phone
	// Not refunded, because the carrier took the message. See also StatusForApp.
	Undelivered Status = "undelivered"

	Refused Status = "refused" // a refusal, not a send
)

// InFlight reports whether the send waits for its outcome.
func (s Status) InFlight() bool { return s == Queued || s == Sending }

// Class says how far a caller is trusted with a recipient's sends and checks.
type Class string

const (
	SecretKeyClass Class = ""        // a back end that says that it knows the person (trust: known)
	KnownBrowser   Class = "known"   // a browser in which an earlier code of this recipient was entered
	StrangerClass  Class = "unknown" // any other browser, or any other request of a back end
)

// Name returns secret, known or unknown, as in log lines, the admin API and the keys of the
// console's texts.
func (c Class) Name() string { return cmp.Or(string(c), "secret") }

var Classes = []Class{SecretKeyClass, KnownBrowser, StrangerClass}

// IsStranger reports whether callers of the class get only the strangers' part of concurrent
// requests, attempts and memory. Rules and caps over more than one recipient treat known browsers
// as strangers too, see policy.IsStrangerInScope.
func (c Class) IsStranger() bool { return c == StrangerClass }

// Queue names a queue of the outbox. Each channel has one for the sends of strangers and one for
// all others.
type Queue struct {
	Channel   recipient.Channel
	Strangers bool // see Class.IsStranger
}

// Queues returns all queues, each channel's strangers last.
func Queues() (all []Queue) {
	for _, ch := range recipient.Channels() {
		all = append(all, Queue{Channel: ch}, Queue{Channel: ch, Strangers: true})
	}
	return all
}

func (w Work) Queue() Queue {
	return Queue{Channel: w.Send.Channel, Strangers: w.Verification.Class.IsStranger()}
}

// SessionHolder begins a Verification.Holder that names a session of an end user. Other holders are
// random, so no later request has them.
const SessionHolder = "s:"

// Verification is one code and its state.
type Verification struct {
	ID         string // from NewVerificationID; secret, because whoever has it can read and check the verification
	App        string
	Channel    recipient.Channel
	Purpose    string
	Recipient  recipient.Hash
	To         string // masked
	Sealed     []byte // the encrypted recipient; empty once erased
	Holder     string // its requests may resend without the ID; empty: a browser opened the verification
	Class      Class  // of the caller that opened it; each class has its own daily limit of failed checks
	Nonce      []byte // 16 random bytes from which the code, which isn't stored, is derived
	KeyID      string // of the key in the ring from which the code is derived
	CodeLength int
	Alphabet   string // a code.Alphabet
	Locale     string
	Labels
	CreatedAt   time.Time
	ExpiresAt   time.Time
	Attempts    int     // checks counted so far
	Checks      []Check // the counted ones, oldest first; if approved, the last had the right code
	MaxAttempts int
	Sends       int
	ApprovedAt  time.Time // zero: not approved
	CanceledAt  time.Time // zero: not canceled
	NotMeAt     time.Time // when the recipient said that they hadn't asked; zero: not said
	RedeemedAt  time.Time // zero: the proof was not redeemed
	RedeemedBy  []byte    // hash of the Idempotency-Key of the request that redeemed the proof; empty: none, or not redeemed
	Replaces    []string  // IDs of the verifications that it replaced, newest first, at most MaxReplacedIDs
	// Attempts that a reset of the quota took back; rowrules.LockoutOf ignores them.
	AttemptsReset int
	// CallerChecks is true if the caller made the code and checks it. The service then never checks
	// the code, and never sends it again; see Intent.Code.
	CallerChecks bool
	Details      string // what the code confirms, in the caller's words, as in the message; empty: none
	Reported     Report // with CallerChecks: the caller's report; with ReportApproved, ApprovedAt is set
	// CheckKey identifies the last counted check, so that its repetition gets the same answer:
	//
	//   - a keyed hash of the app and the check's Idempotency-Key
	//   - a keyed hash of that key, the kind of caller, the verification and the code
	//   - one byte for each later check with the same key and another code
	//
	// At the MaxAttempts-th such check all but the first hash is cut off, and a repetition no
	// longer gets its answer. With CallerChecks, it is one hash of the Idempotency-Key of the
	// caller's report. It's empty without an Idempotency-Key, and once the recipient is erased.
	CheckKey []byte
}

const CheckKeyHashSize = 32 // bytes

// Report is a caller's report on a code that it checks itself. A code with an empty Report is left
// out of statistics, expiry events for the app, and the judgement of phone prefixes (PrefixWatch).
type Report string

// ReportDue means that the caller reports each approval: if no report follows, the code wasn't
// entered.
const (
	ReportDue      Report = "due"
	ReportFailed   Report = "failed"
	ReportApproved Report = "approved"
)

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
		{"checks", &v.Checks, 0}, // a text, to which the statement that counts a check appends an entry
		{"max_attempts", &v.MaxAttempts, InsertedByBegin | ExportedColumn},
		{"sends", &v.Sends, InsertedByBegin | ExportedColumn},
		{"approved_at", &v.ApprovedAt, ExportedColumn},
		{"canceled_at", &v.CanceledAt, ExportedColumn},
		{"details", &v.Details, InsertedByBegin | PersonalColumn | ExportedColumn},
		{"not_me_at", &v.NotMeAt, ExportedColumn},
		{"redeemed_at", &v.RedeemedAt, ExportedColumn},
		{"redeemed_by", &v.RedeemedBy, NullableColumn},
		{"replaces", &v.Replaces, InsertedByBegin}, // a text: written once, and only read with its row
		{"attempts_reset", &v.AttemptsReset, ExportedColumn},
		{"caller_checks", &v.CallerChecks, InsertedByBegin | ExportedColumn},
		{"check_key", &v.CheckKey, NullableColumn},
		{"reported", (*string)(&v.Reported), InsertedByBegin | ExportedColumn},
	}
	return v.withColumns(own[:])
}

// Check is a counted check of a code.
type Check struct {
	At      time.Time
	Network string // as Send.Network; empty: not known, or erased
}

// MaxReplacedIDs keeps the text of Verification.Replaces within MaxTextBytes.
const MaxReplacedIDs = 16

// IDsWithReplaced returns v's ID and those that it replaced, newest first; none if v has no ID.
func (v Verification) IDsWithReplaced() []string {
	if v.ID == "" {
		return nil
	}
	return append([]string{v.ID}, v.Replaces...)
}

// SendOrRefusal is a row of a list: a send or, if Status is Refused, a row of refusals.
type SendOrRefusal struct {
	Send // a refusal has only the fields that it shares with sends
	Refusal
}

// Refusal has the columns that only rows of the table refusals have. A row stands for one or more
// refusals by one rule.
type Refusal struct {
	BlockedBy  string        // rule with the longest wait; empty: a send
	RetryAfter time.Duration // the wait in the latest answer
	Count      int           // requests that the row stands for; 1 for a send
	Recipients int           // how many recipients the row stands for, at most ManyRecipients; 0: only Recipient
}

func (r *SendOrRefusal) Columns() []Column {
	return append(r.Send.Columns(), []Column{
		{"blocked_by", &r.BlockedBy, InsertedByRefusal | ExportedColumn},
		{"retry_after", &r.RetryAfter, InsertedByRefusal | ExportedColumn},
		{"requests", &r.Count, InsertedByRefusal | ExportedColumn},
		{"recipients", &r.Recipients, InsertedByRefusal},
	}...)
}

type Send struct {
	ID             uuid.UUID // version 7, so that IDs sort by time
	VerificationID string    // empty: a refusal without one
	Number         int       // 1 for a verification's first send; 0 for a refusal
	App            string
	Channel        recipient.Channel
	Purpose        string
	Recipient      recipient.Hash
	To             string // masked
	Country        string // of a phone number, ISO 3166-1 or "001"; empty: mail, or erased
	Prefix         string // first digits of a phone number, as To shows them: "+86138"
	Locale         string
	Labels
	Network      string // the client's /24 (IPv4) or /48 (IPv6), for lists and Filter.Network
	Status       Status
	Reason       string    // machine word: why Failed, Unknown or still Queued
	Attempt      int       // the current or last attempt; a write of an earlier attempt changes nothing
	InDoubt      bool      // an earlier attempt has no outcome, so its message may have arrived
	Counts       bool      // the recipient's rules count the send
	RefundDue    bool      // the limiter hasn't confirmed the refund yet
	LoggedAt     time.Time // when the row was written
	DueAt        time.Time // in flight: next attempt, or end of the lease
	FinishedAt   time.Time // zero while in flight
	Provider     string    // host of the mail server, or the carrier
	ProviderCode string    // such as "250 2.0.0"
	Took         time.Duration
	WorstEvent   ProviderEventKind // the worst that a provider reported later; empty: none
	Bounced      bool              // a provider reported later that the mail bounced for good
	Suppression  uuid.UUID         // in force at Begin, so that no message is sent; Nil: none
	WasReset     bool              // a reset of the quota took it back, so it no longer counts
	Site         string            // host on which a text message's code is entered; empty: that of the service's page
	RequestID    string            // of the HTTP request, as in log lines; empty: no request made the send, or erased
	HumanCheck   string            // the human check that was passed, as humancheck.Offer.By; empty: none was needed
	Observed     []string          // observing rules that would have refused this send; empty for a refusal
}

// StatusForApp returns the status that the app sees, and whether it is final. A mail that bounced
// for good is Undelivered. With reports, the provider sends receipts, bounces or complaints later,
// which may change Sent and Unknown.
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
		{"observed", &s.Observed, InsertedByBegin | ExportedColumn}, // a text: nothing searches it; the metrics count the rules
		{"domain", &domain, InsertedByBegin | InsertedByRefusal | WriteOnlyColumn | PersonalColumn | ExportedColumn},
	}
	return s.withColumns(own[:])
}

// Mask removes a refusal's personal data, as an erasure does.
func (r *SendOrRefusal) Mask() {
	for _, c := range r.Columns() {
		if c.Flags&(PersonalColumn|InsertedByRefusal) == PersonalColumn|InsertedByRefusal {
			*c.Field.(*string) = ""
		}
	}
	r.To = ErasedMask
}

// ManyRecipients is the highest value of Refusal.Recipients, and stands for this many or more.
const ManyRecipients = 100
