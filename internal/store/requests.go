package store

import (
	"strings"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/base/recipient"
	"sendcode/quota"
)

// SetRefusedAt is for a refusal, which is finished as soon as it is logged.
func (s *Send) SetRefusedAt(now time.Time) {
	s.LoggedAt, s.FinishedAt = now, now
}

// Intent is a send for which Begin decides the recipient's rules and writes the rows.
type Intent struct {
	// Begin sets VerificationID, Number, Suppression, LoggedAt and what changes later; the caller
	// sets the rest.
	Send    Send           // Begin adds to Observed the observing rules that would have refused it
	Address recipient.Hash // hash of the address as spelled, for its suppressions
	Rules   []quota.Rule   // the recipient's, which Begin decides
	// on the recipient's rejected sends (Outcome.BadAddress), over all purposes
	RejectionRules []quota.Rule
	// whose sends Rules count together, including Send.Purpose
	Purposes     []string
	Verification Verification  // to open if the send joins none; Begin copies what it shares with Send
	TTL          time.Duration // of a new verification
	Join         string        // ID of a verification to resend; empty: see HolderToJoin
	MinLife      time.Duration // the send joins no verification with less time left
	Lease        time.Duration // of the first attempt
	// The encrypted code, if the caller made it (Verification.CallerChecks). Finish deletes it from
	// the database.
	Code []byte
}

// HolderToJoin returns the holder whose newest verification with the same app, channel, recipient
// and purpose the send may join, though the request names none. It returns "" with Join, for a
// holder that isn't a session, and with CallerChecks.
func (in Intent) HolderToJoin() string {
	if in.Join != "" || !strings.HasPrefix(in.Verification.Holder, SessionHolder) || in.Verification.CallerChecks {
		return ""
	}
	return in.Verification.Holder
}

// BeginAnswer is the decision of Begin. quota.Evaluate computes the states of the rules from
// History, Rejected and Now; the first two are empty if Begin was repeated or a lockout refused the
// send.
type BeginAnswer struct {
	Admitted     bool
	Repeated     bool         // the row existed; another process may be delivering it
	Verification Verification // joined or opened; zero if refused
	Send         Send         // as written, with Sending and Attempt 1; zero if refused
	Code         []byte       // Intent.Code; nil if refused or Repeated
	// The counted sends within the longest window of the rules, without this one, oldest first.
	// Event IDs are the 16 bytes of Send.ID.
	History  []quota.Event
	Rejected []quota.Event // what Intent.RejectionRules count, oldest first
	Lockout  Lockout       // with Wait > 0, the rules admitted the send, but a lockout of the recipient refused it
	Now      time.Time     // on the database's clock; if admitted, Send.LoggedAt
}

// Opened reports whether Begin opened a verification.
func (b BeginAnswer) Opened() bool { return !b.Repeated && b.Send.Number == 1 }

// RecipientVerificationsQuery selects a holder's verifications for a recipient and purpose, as
// Begin does without Intent.Join.
type RecipientVerificationsQuery struct {
	App       string
	Channel   recipient.Channel
	Recipient recipient.Hash
	Purpose   string
	Holder    string // not empty, see Validate
	CheckKey  []byte // hash of an Idempotency-Key; the verification whose CheckKey begins with it comes first; nil: none
}

// Work has the rows that an attempt needs.
type Work struct {
	Send         Send
	Verification Verification
	// The recipient, and the hash of the address as spelled. They're never stored, so they are zero
	// if the send was taken over: decrypt Verification.Sealed.
	To      recipient.Recipient
	Address recipient.Hash
	Code    []byte    // the caller's, encrypted; nil: derived from Verification
	Now     time.Time // when the row was written or taken over, on the database's clock
}

// AttemptID names a row and its attempt. A write of any attempt but the current one changes
// nothing.
type AttemptID struct {
	ID      uuid.UUID
	Attempt int
}

// GetAttemptID is for generic functions over the types that embed AttemptID.
func (a AttemptID) GetAttemptID() AttemptID { return a }

// Outcome is how a send ended, as Finish writes it. Afterwards only a receipt changes the status.
type Outcome struct {
	AttemptID
	Status       Status // Sent, Failed or Unknown
	Reason       string
	Provider     string
	ProviderCode string
	Took         time.Duration
	// With Failed: the send no longer counts, and RefundDue is set, unless the send is InDoubt,
	// since its message may have arrived.
	Refund bool
	// With Failed: the address accepts no messages, so Intent.RejectionRules count the send.
	BadAddress bool
	Suppress   NewSuppression
	Event      NewEvent // in the same transaction; zero: none
}

type Postponement struct {
	AttemptID
	After        time.Duration // until the next attempt may start
	Reason       string
	Provider     string
	ProviderCode string
}

// Refund is a refund that the limiter has not confirmed yet. LeaseDueRefunds sets only ID, App,
// Channel, Purpose, Recipient, Class and Sealed of Verification.
type Refund struct {
	AttemptID
	Verification Verification
}

// Filter selects sends and refusals. Zero fields select all.
type Filter struct {
	Recipient *recipient.Hash
	Status    Status
	Channel   recipient.Channel
	Purpose   string
	App       string
	BlockedBy string
	Labels
	Provider string    // mail server or carrier
	Country  string    // of a phone number
	Domain   string    // of a mail address, as in Send.To
	Support  string    // a support reference
	Outcome  CodeState // of the send's code, now
	Network  string    // the client's, as Send.Network
	Request  string    // as Send.RequestID; refusals have none
	// SendsOnly leaves out refusals.
	SendsOnly bool
	From, To  time.Time // LoggedAt in [From, To)
	Before    *Cursor   // only older rows
	After     *Cursor   // the rows that follow this place in time; still sorted newest first
	Limit     int       // 1 to 200
}

// MaxBacklogCounted bounds what Backlog counts, over all channels.
const MaxBacklogCounted = 100_000

// Backlog describes those sends of a channel that have no outcome yet.
type Backlog struct {
	Sends int
	Age   time.Duration // the age of the oldest one, on the database's clock
}

// OutboxCount counts a queue's sends on all replicas, among the MaxBacklogCounted oldest of all
// queues.
type OutboxCount struct {
	Due  int // due for their next attempt, and held by no replica
	Held int // held by a replica
}

// PoolStats is the state of a pool of connections.
type PoolStats struct {
	Name        string
	InUse, Idle int
	Waits       int64 // how often a call has waited because no connection was idle, since the start
}

// CodeState is the state of a code in lists.
type CodeState string

// A code has exactly one state at a time.
const (
	CodeEntered  CodeState = "entered"
	CodeWaiting  CodeState = "waiting" // can still be entered
	CodeExpired  CodeState = "expired"
	CodeUsedUp   CodeState = "locked" // no tries left
	CodeCanceled CodeState = "canceled"
	CodeOfCaller CodeState = "caller" // the caller checks it
)

// Cursor is a place in a list sorted by time and then ID.
type Cursor struct {
	At time.Time
	ID uuid.UUID
}

// SendDetails is a send or refusal with all that belongs to it.
type SendDetails struct {
	Send         SendOrRefusal
	Verification *Verification // nil if a refusal has none, or if it was deleted
	// The sends of the verification, including this row, and the refusals of the same recipient,
	// app and channel between its creation and its expiry: the MaxRelatedRows oldest, oldest first.
	// Empty without a verification.
	Related []SendOrRefusal
	// Those that stopped this send, and those that it caused, oldest first.
	Suppressions []Suppression
	Events       []ProviderEvent // on this send, sorted by At
	Pause        *PrefixPause    // the pause that stopped this send; nil: none
	Now          time.Time       // on the database's clock
}

// UsedProviders returns the mail servers or carriers of the verification's earlier sends, which a
// resend tries last, and those of them that took a message which didn't bounce. It leaves out a
// carrier that refused for its own limit on the number (ReasonCarrierLimit): a resend must not
// evade that limit through another carrier.
func (d SendDetails) UsedProviders() (used, acceptedBy []string) {
	for _, r := range d.Related {
		if r.VerificationID == d.Send.VerificationID && r.Number > 0 && r.Number < d.Send.Number && r.Provider != "" &&
			r.Reason != ReasonCarrierLimit {
			used = append(used, r.Provider)
			if (r.Status == Sent || r.Status == Delivered) && !r.Bounced {
				acceptedBy = append(acceptedBy, r.Provider)
			}
		}
	}
	return used, acceptedBy
}

// Lockout says whether too many failed checks prevent checks of a recipient's codes that one class
// of callers requested.
type Lockout struct {
	Class    Class
	Wait     time.Duration // until a code can be checked; 0: not locked out
	Failures int           // counted failures, by the limit with the longer wait; see rowrules.LockoutOf
}

// CheckRequest is one check of a typed code.
type CheckRequest struct {
	ID      string // of the verification
	Network string // as Send.Network
	Key     []byte // hash of the Idempotency-Key, which begins CheckKey; empty: none
	// Judge judges the typed code; counts says whether the check counts. It is called under locks,
	// perhaps more than once, so it must change nothing. If it fails, nothing is written, and the
	// check returns its error.
	Judge func(v Verification, counts bool) (Judgement, error)
}

type Judgement struct {
	CheckKey []byte   // the key of the check, for Verification; empty without CheckRequest.Key
	Right    bool     // set only if the check counts, like Event
	Event    NewEvent // to write; zero: none
}

type CheckAnswer struct {
	Verification Verification // as the check left it
	Now          time.Time    // of the check, on the database's clock
	Counted      bool         // false: not pending, locked out, Repeated or KeyReused
	Repeated     bool         // the last counted check had the same Idempotency-Key and code: the same answer again
	KeyReused    bool         // the last counted check had the same Idempotency-Key and another code
	Approved     bool         // by this check
	Event        NewEvent     // written with the check: an approval, or a lock by the last wrong code; zero: none
	Lockout      Lockout      // Wait > 0: the verification is pending, but its recipient is locked out
}
