package store

import (
	"time"

	"github.com/google/uuid"

	"sendcode/internal/base/recipient"
	"sendcode/quota"
)

// SetRefusedAt sets the instants of a refusal that is logged at now.
func (s *Send) SetRefusedAt(now time.Time) {
	s.LoggedAt, s.FinishedAt = now, now
}

// Intent is the argument of Begin: the send to decide and write.
type Intent struct {
	// Begin sets VerificationID, Number, Suppression, LoggedAt and later changes; the caller the
	// rest
	Send    Send           // Begin adds the names of observing rules that would have refused to Observed
	Address recipient.Hash // of the address as spelled; Begin looks for suppressions by it
	Rules   []quota.Rule   // the recipient's rules, which Begin decides
	// the rules on the recipient's rejected sends (BadAddress), of all purposes
	RejectionRules []quota.Rule
	// the purposes whose sends Rules count together, including Send.Purpose
	Purposes     []string
	Verification Verification  // opened if none can be joined; fields that Send has too are copied from Send
	TTL          time.Duration // life of a new verification
	Join         string        // ID of the verification to resend; empty: see HolderToJoin
	MinLife      time.Duration // a verification with less life left is not joined
	Lease        time.Duration // how long the first attempt holds the row
	// Code is the encrypted caller's code if Verification.CallerChecks is set, else nil. Finish
	// deletes it from the database.
	Code []byte
}

// HolderToJoin returns the holder, see Verification.Holder, if the send may resend the holder's
// newest verification with the same app, channel, recipient and purpose. It is empty if Join names
// a verification, for browsers and other strangers, and if the caller brings its own code.
func (in Intent) HolderToJoin() string {
	if in.Join != "" || in.Verification.Class != SecretKeyClass || in.Verification.CallerChecks {
		return ""
	}
	return in.Verification.Holder
}

// BeginAnswer is what Begin decided.
//
// History, Rejected and Now are the input of the decision: quota.Evaluate computes the states of
// the rules from them. A repeated Begin and a refusal by a lockout have no History and Rejected.
type BeginAnswer struct {
	Admitted     bool
	Repeated     bool         // the row existed already; another process may be delivering it
	Verification Verification // joined or opened; zero when refused
	Send         Send         // as written, Status Sending and Attempt 1; zero when refused
	Code         []byte       // Intent.Code, as written; nil when refused or repeated
	// the counted sends of the longest window, oldest first, without this send; an event's ID is
	// the 16 bytes of Send.ID
	History  []quota.Event
	Rejected []quota.Event // the sends that Intent.RejectionRules count, oldest first
	Lockout  Lockout       // Wait > 0: the rules admitted the send, but its recipient is locked out
	Now      time.Time     // on the database's clock; admitted: Send.LoggedAt
}

// Opened reports whether this Begin opened a new verification.
func (b BeginAnswer) Opened() bool { return !b.Repeated && b.Send.Number == 1 }

// RecipientVerificationsQuery selects the verifications of a holder for one recipient and purpose,
// as Begin does for an Intent without Join.
type RecipientVerificationsQuery struct {
	App       string
	Channel   recipient.Channel
	Recipient recipient.Hash
	Purpose   string
	Holder    string // must not be empty: knowing an address gives no right to its verifications
	CheckKey  []byte // hash of an Idempotency-Key; prefers a verification with this start of CheckKey; nil: none
}

// Work is a send in flight with everything that an attempt needs.
type Work struct {
	Send         Send
	Verification Verification
	// The full recipient and the hash of its address as spelled. They are never stored. They are
	// zero after a takeover; then the process must decrypt Verification.Sealed.
	To      recipient.Recipient
	Address recipient.Hash
	Code    []byte    // the encrypted caller's code; nil: the code is derived from Verification
	Now     time.Time // on the database's clock, when the row was written or taken over
}

// AttemptID names a row and an attempt of it. A write changes nothing unless Attempt is the row's
// current attempt.
type AttemptID struct {
	ID      uuid.UUID
	Attempt int
}

// GetAttemptID returns h, also for a type that embeds it.
func (a AttemptID) GetAttemptID() AttemptID { return a }

// Outcome is how a send ended. Finish writes it. Later, only a receipt changes it.
type Outcome struct {
	AttemptID
	Status       Status // Sent, Failed or Unknown
	Reason       string
	Provider     string
	ProviderCode string
	Took         time.Duration
	// Refund, only with Failed: the send no longer counts, and RefundDue is set. It has no effect
	// on a send that is InDoubt, since its message may have gone out.
	Refund bool
	// BadAddress, only with Failed: the address takes no messages, so the rule on rejected sends
	// counts the send.
	BadAddress bool
	Suppress   NewSuppression
	Event      NewEvent // written in the same transaction; zero: none
}

// Postponement ends an attempt; its send is tried again later.
type Postponement struct {
	AttemptID
	After        time.Duration // until the next attempt may start
	Reason       string
	Provider     string
	ProviderCode string
}

// Refund is a refund that the limiter has not confirmed yet, of a send of the verification.
// LeaseDueRefunds sets only ID, App, Channel, Purpose, Recipient, Class and Sealed of Verification.
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
	From, To time.Time // LoggedAt in [From, To)
	Before   *Cursor   // only older rows
	After    *Cursor   // rows newer than this mark: those nearest to it, but returned newest first
	Limit    int       // 1 to 200; of the console's stream 500
}

// MaxBacklogCounted is the largest number of sends that Backlog counts, over all channels.
const MaxBacklogCounted = 100_000

// Backlog has the number of a channel's sends without an outcome, waiting or being sent.
type Backlog struct {
	Sends int
	Age   time.Duration // age of the oldest, on the database's clock
}

// OutboxCount counts the sends of a queue, of all replicas, of the oldest MaxBacklogCounted of all
// queues.
type OutboxCount struct {
	Due  int // that no replica holds and that are due for their next attempt
	Held int // that a replica holds
}

// PoolStats is the state of a pool of connections.
type PoolStats struct {
	Name        string
	InUse, Idle int
	Waits       int64 // number of times since the start that no connection was idle
}

// CodeState is the state of a code, as lists show it.
type CodeState string

// The states of a code. A code has exactly one at a time.
const (
	CodeEntered  CodeState = "entered"
	CodeWaiting  CodeState = "waiting" // can still be entered
	CodeExpired  CodeState = "expired"
	CodeUsedUp   CodeState = "locked" // no tries left
	CodeCanceled CodeState = "canceled"
	CodeOfCaller CodeState = "caller" // the caller checks it
)

// Cursor is the place of a row in a list that is sorted by time and then ID.
type Cursor struct {
	At time.Time
	ID uuid.UUID
}

// SendDetails is one send or refusal and everything that belongs to it.
type SendDetails struct {
	Send         SendOrRefusal
	Verification *Verification // nil for a refusal without a verification, and if it was deleted
	// Related has the sends of the verification, including this row, and the refusals of its
	// recipient (same app and channel) between its creation and its expiry; the oldest
	// MaxRelatedRows of them, oldest first. Empty without a verification.
	Related []SendOrRefusal
	// Suppressions are those that stopped this send and those that it caused, oldest first.
	Suppressions []Suppression
	Events       []ProviderEvent // reports of a provider on this send, sorted by At
	Pause        *PrefixPause    // the pause that stopped this send; nil: none
	Now          time.Time       // on the database's clock
}

// UsedProviders returns the mail servers or carriers of the verification's earlier sends, and those
// of them that took one that did not bounce. A carrier that took none because it holds the number
// back is left out: another carrier is no way around the hold.
func (d SendDetails) UsedProviders() (used, took []string) {
	for _, r := range d.Related {
		if r.VerificationID == d.Send.VerificationID && r.Number > 0 && r.Number < d.Send.Number && r.Provider != "" &&
			r.Reason != ReasonCarrierLimit {
			used = append(used, r.Provider)
			if (r.Status == Sent || r.Status == Delivered) && !r.Bounced {
				took = append(took, r.Provider)
			}
		}
	}
	return used, took
}

// Lockout is the state of the bounds on failed checks, for the codes of one recipient that callers
// of one class opened.
type Lockout struct {
	Class    Class
	Wait     time.Duration // until a code can be checked; 0: not locked out
	Failures int           // failed checks that the bound with the longer wait counts
}

// CheckRequest is one check of a typed code.
type CheckRequest struct {
	ID      string // of the verification
	Network string // the client's, as Send.Network
	Key     []byte // hash of the Idempotency-Key, the first CheckKeyHashSize bytes of CheckKey; empty: there is none
	// Judge judges the typed code; counts: the check counts. The store calls it while it holds
	// locks, maybe more than once, so it must change nothing. After an error of Judge nothing is
	// written, and the check returns it as it is.
	Judge func(v Verification, counts bool) (Judgement, error)
}

// Judgement is the result of CheckRequest.Judge for a typed code.
type Judgement struct {
	CheckKey []byte   // Verification.CheckKey of the check; empty without CheckRequest.Key
	Right    bool     // only if the check counts, as Event
	Event    NewEvent // to write; zero: none
}

// CheckAnswer is the result of a check.
type CheckAnswer struct {
	Verification Verification // as the check left it
	Now          time.Time    // of the check, on the database's clock
	Counted      bool         // false: the verification was not pending, its recipient is locked out, Repeated or KeyReused
	Repeated     bool         // the last counted check had the same Idempotency-Key and code; this is its answer again
	KeyReused    bool         // the last counted check had the same Idempotency-Key, but another code
	Approved     bool         // by this check: the code was right
	Event        NewEvent     // written with the check: its approval, or the last wrong code; zero: none
	Lockout      Lockout      // Wait > 0: the verification is pending, but its recipient is locked out
}
