package store

import (
	"strings"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/base/recipient"
	"sendcode/quota"
)

// SetRefusedAt sets the instants of a refusal that is logged at now.
func (s *Send) SetRefusedAt(now time.Time) {
	s.LoggedAt, s.FinishedAt = now, now
}

// Intent is the argument of Begin: the send that Begin decides and writes.
type Intent struct {
	// Begin sets VerificationID, Number, Suppression, LoggedAt and the fields that change later;
	// the caller sets all others.
	Send    Send           // Begin adds to Observed the names of observing rules that would have refused the send
	Address recipient.Hash // hash of the address as spelled; Begin looks for its suppressions
	Rules   []quota.Rule   // the recipient's rules, which Begin decides
	// the rules on the recipient's rejected sends (Outcome.BadAddress), over all purposes
	RejectionRules []quota.Rule
	// the purposes whose sends Rules count together, including Send.Purpose
	Purposes     []string
	Verification Verification  // the new verification, if the send joins none; Begin copies the fields that it shares with Send
	TTL          time.Duration // life of a new verification
	Join         string        // ID of the verification to resend; empty: see HolderToJoin
	MinLife      time.Duration // the send joins no verification with less life left
	Lease        time.Duration // how long the first attempt holds the row
	// Code is the encrypted code if the caller made the code (Verification.CallerChecks), otherwise
	// nil. Finish deletes Code from the database.
	Code []byte
}

// HolderToJoin returns Verification.Holder, the holder whose verification the send may join
// although the request names no verification. The send may join only the holder's newest
// verification with the same app, channel, recipient and purpose. HolderToJoin returns "" in three
// cases: Join is the ID of a verification, the holder is not a session, or the caller made the code
// itself.
func (in Intent) HolderToJoin() string {
	if in.Join != "" || !strings.HasPrefix(in.Verification.Holder, SessionHolder) || in.Verification.CallerChecks {
		return ""
	}
	return in.Verification.Holder
}

// BeginAnswer is the decision of Begin.
//
// History, Rejected and Now are the input of this decision. quota.Evaluate computes the states of
// the rules from them. If Begin was repeated or a lockout refused the send, History and Rejected
// are empty.
type BeginAnswer struct {
	Admitted     bool
	Repeated     bool         // the send's row existed already; another process may be delivering the send
	Verification Verification // the verification that the send joined or opened; zero if the send was refused
	Send         Send         // the send as written, with Status Sending and Attempt 1; zero if it was refused
	Code         []byte       // Intent.Code; nil if the send was refused or Repeated
	// The counted sends within the longest window of the rules, oldest first. They do not include
	// this send. The ID of each event is the 16 bytes of Send.ID.
	History  []quota.Event
	Rejected []quota.Event // the sends that Intent.RejectionRules count, oldest first
	Lockout  Lockout       // if Lockout.Wait > 0, the rules admitted the send, but a lockout of the recipient refused it
	Now      time.Time     // on the database's clock; of an admitted send, Send.LoggedAt
}

// Opened reports whether this Begin opened a new verification.
func (b BeginAnswer) Opened() bool { return !b.Repeated && b.Send.Number == 1 }

// RecipientVerificationsQuery selects the verifications of a holder for one recipient and purpose.
// Begin selects the same verifications for an Intent without Join.
type RecipientVerificationsQuery struct {
	App       string
	Channel   recipient.Channel
	Recipient recipient.Hash
	Purpose   string
	Holder    string // must not be empty: knowing an address gives no right to see its verifications
	CheckKey  []byte // hash of an Idempotency-Key; a verification whose CheckKey begins with it comes first; nil: none
}

// Work is a send in flight with everything that an attempt needs.
type Work struct {
	Send         Send
	Verification Verification
	// The full recipient, and the hash of the address as spelled. They are never stored. So both
	// are zero if the process has taken the send over from another process. It must then decrypt
	// Verification.Sealed.
	To      recipient.Recipient
	Address recipient.Hash
	Code    []byte    // the encrypted caller's code; nil: the code is derived from Verification
	Now     time.Time // the time when the row was written or taken over, on the database's clock
}

// AttemptID names a row and one attempt of the row. A write with an AttemptID changes nothing
// unless Attempt is the row's current attempt.
type AttemptID struct {
	ID      uuid.UUID
	Attempt int
}

// GetAttemptID returns a. Types that embed AttemptID inherit this method, so that a generic
// function can get the AttemptID of each of them.
func (a AttemptID) GetAttemptID() AttemptID { return a }

// Outcome is how a send ended. Finish writes the outcome. After that, only a receipt changes the
// status.
type Outcome struct {
	AttemptID
	Status       Status // Sent, Failed or Unknown
	Reason       string
	Provider     string
	ProviderCode string
	Took         time.Duration
	// Refund is only for sends with the status Failed. If Refund is true, the send no longer
	// counts, and RefundDue is set. A send that is InDoubt is not refunded, since its message may
	// have been delivered.
	Refund bool
	// BadAddress is only for sends with the status Failed. If BadAddress is true, the address
	// accepts no messages, so the rule on rejected sends counts the send.
	BadAddress bool
	Suppress   NewSuppression
	Event      NewEvent // written in the same transaction; zero: none
}

// Postponement ends an attempt whose send will be tried again later.
type Postponement struct {
	AttemptID
	After        time.Duration // how long until the next attempt may start
	Reason       string
	Provider     string
	ProviderCode string
}

// Refund is a refund of a send that the limiter has not confirmed yet. LeaseDueRefunds sets only
// these fields of Verification: ID, App, Channel, Purpose, Recipient, Class and Sealed.
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
	After    *Cursor   // selects the rows that come next after this one in time; the result is still sorted newest first
	Limit    int       // 1 to 200; of the console's stream 500
}

// MaxBacklogCounted is the largest number of sends that Backlog counts, over all channels.
const MaxBacklogCounted = 100_000

// Backlog describes the sends of a channel that have no outcome yet, because they wait or are being
// sent. Sends is the number of these sends.
type Backlog struct {
	Sends int
	Age   time.Duration // age of the oldest, on the database's clock
}

// OutboxCount counts the sends of one queue, on all replicas. Only the MaxBacklogCounted oldest
// sends of all queues are counted.
type OutboxCount struct {
	Due  int // sends that are due for their next attempt and that no replica holds
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
	Verification *Verification // nil if a refusal has no verification, or if the verification was deleted
	// Related has the sends of the verification, including this row. It also has the refusals of
	// the same recipient, app and channel between the creation and the expiry of the verification.
	// Related has at most the MaxRelatedRows oldest rows, oldest first. Without a verification,
	// Related is empty.
	Related []SendOrRefusal
	// Suppressions are the suppressions that stopped this send, and those that it caused, oldest
	// first.
	Suppressions []Suppression
	Events       []ProviderEvent // reports of a provider on this send, sorted by At
	Pause        *PrefixPause    // the pause that stopped this send; nil: none
	Now          time.Time       // on the database's clock
}

// UsedProviders returns the mail servers or carriers of the verification's earlier sends (used), so
// that a resend tries them last. It also returns those among them that accepted a message which did
// not bounce (took). Both results omit a carrier that refused the message because of its own limit
// on messages to the number (ReasonCarrierLimit). So a resend does not evade this limit by going to
// another carrier.
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

// Lockout says whether a recipient's codes can be checked, or whether too many failed checks
// prevent this for a time. It concerns only the codes that callers of one class requested.
type Lockout struct {
	Class    Class
	Wait     time.Duration // how long until a code can be checked; 0: not locked out
	Failures int           // the failed checks that count in the bound with the longer wait
}

// CheckRequest is one check of a typed code.
type CheckRequest struct {
	ID      string // of the verification
	Network string // the client's, as Send.Network
	Key     []byte // hash of the Idempotency-Key, the first CheckKeyHashSize bytes of CheckKey; empty: no key
	// Judge judges the typed code. The parameter counts says whether the check counts. The store
	// calls Judge while it holds locks, and may call it more than once. So Judge must change
	// nothing. If Judge returns an error, the store writes nothing, and the check returns the
	// error.
	Judge func(v Verification, counts bool) (Judgement, error)
}

// Judgement is the result of CheckRequest.Judge for a typed code.
type Judgement struct {
	CheckKey []byte   // Verification.CheckKey of the check; empty without CheckRequest.Key
	Right    bool     // only if the check counts, like Event
	Event    NewEvent // to write; zero: none
}

// CheckAnswer is the result of a check.
type CheckAnswer struct {
	Verification Verification // as the check left it
	Now          time.Time    // time of the check, on the database's clock
	Counted      bool         // false: the verification was not pending, its recipient is locked out, or Repeated or KeyReused is true
	Repeated     bool         // the last counted check had the same Idempotency-Key and code, so this is the same answer again
	KeyReused    bool         // the last counted check had the same Idempotency-Key but another code
	Approved     bool         // this check approved the verification: the code was right
	Event        NewEvent     // the event written with the check: an approval, or a lock after the last wrong code; zero: none
	Lockout      Lockout      // Wait > 0: the verification is pending, but its recipient is locked out
}
