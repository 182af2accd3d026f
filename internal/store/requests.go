package store

import (
	"time"

	"github.com/google/uuid"

	"sendcode/internal/recipient"
	"sendcode/quota"
)

// SetRefusedAt sets the instants of a refusal that is logged at now.
func (s *Send) SetRefusedAt(now time.Time) {
	s.LoggedAt, s.FinishedAt = now, now
	if s.Clock == DatabaseClock {
		s.TakenAt = now
	}
}

// Intent is the argument of Begin: the send to decide and write.
type Intent struct {
	// ID, App, Channel, Purpose, Recipient, To, Locale, Reference, IP, TakenAt, Clock, Observed are
	// read
	Send    Send
	Address recipient.Hash // of the address as spelled; Begin looks for suppressions by it
	Rules   []quota.Rule   // the rules on the recipient that Begin decides
	// sliding-window rule on the recipient's sends with BadAddress, of all purposes; Limit 0: none
	Rejections quota.Rule
	// all purposes with the policy, including Send.Purpose; Rules count their sends together
	Purposes     []string
	Verification Verification  // opened if none can be joined; fields that Send has too are copied from Send
	TTL          time.Duration // life of a new verification
	Join         string        // ID of the verification to resend; empty: see HolderToJoin
	MinLife      time.Duration // a verification with less life left is not joined
	Lease        time.Duration // how long the first attempt holds the row
	// Code is a caller's code, encrypted for this send, with Verification.CallerChecks; else nil.
	// It is only in the row in flight: Finish deletes it.
	Code []byte
}

// HolderToJoin returns the holder of whose verifications with the same app, channel, recipient and
// purpose the newest is resent. It is empty if the intent names one in Join, or if no holder knows
// the person: a browser holds none, and a back end's stranger has a new holder each time. Nor does
// a caller's code join any.
func (in Intent) HolderToJoin() string {
	if in.Join != "" || in.Verification.Class != SecretKey || in.Verification.CallerChecks {
		return ""
	}
	return in.Verification.Holder
}

// BeginAnswer is what Begin decided.
//
// History, Rejected and At are the input of the decision: quota.Evaluate computes the states of the
// rules from them. Each event's instant is At minus the event's age. If the row has the same clock
// as the intent, the age is the one on that clock, but at most 1 s more than on the database's
// clock, so a limiter whose clock was set ahead does not make rows older. For other rows (of
// another limiter, or of none) it is the age on the database's clock. So At and the events are on
// the intent's clock, also if Now is on the database's. A repeated Begin has no History, Rejected
// and At; a refusal by a lockout has no History and Rejected.
type BeginAnswer struct {
	Admitted     bool
	Repeated     bool         // the row existed already; another process may be delivering it
	Verification Verification // joined or opened; zero when refused
	Send         Send         // as written, Status Sending and Attempt 1; zero when refused
	Code         []byte       // Intent.Code, as written; nil when refused or repeated
	// the counted sends of the longest window, oldest first, without this send; ID is the 16 bytes
	// of Send.ID
	History  []quota.Event
	Rejected []quota.Event // the sends that Rejections counts, oldest first, by their age on the database's clock
	Lockout  Lockout       // Wait > 0: the rules admitted the send, but its recipient is locked out
	At       time.Time     // Intent.Send.TakenAt, on Intent.Send.Clock, but at most 1 s after the database's time
	Now      time.Time     // admitted: Send.LoggedAt, on the database's clock; refused: At
	// the clock of Now. Admitted: DatabaseClock; refused: Intent.Send.Clock, which is DatabaseClock
	// if no limiter took the send
	NowClock string
}

// Opened reports whether Begin opened a new verification: it joined none, and is not a repetition.
func (b BeginAnswer) Opened() bool { return !b.Repeated && b.Send.Number == 1 }

// HolderQuery selects the verifications of a holder for one recipient and purpose, as Begin does
// for an Intent without Join.
type HolderQuery struct {
	App       string
	Channel   recipient.Channel
	Recipient recipient.Hash
	Purpose   string
	Holder    string // must not be empty: knowing an address gives no right to its verifications
}

// Work is a row in flight with all that an attempt needs.
type Work struct {
	Send         Send
	Verification Verification
	// The full recipient and the hash of its address as spelled, if the process has them in memory.
	// Zero if it took the row over; then it must decrypt Verification.Sealed. They are never
	// stored.
	To      recipient.Recipient
	Address recipient.Hash
	Code    []byte // a caller's code, as Intent.Code; nil: the code is derived from Verification
}

// AttemptID names a row and an attempt of it. A write changes nothing unless Attempt is the row's
// current attempt.
type AttemptID struct {
	ID      uuid.UUID
	Attempt int
}

// SendOrRefusal returns h, also of a type that embeds it.
func (h AttemptID) GetAttemptID() AttemptID { return h }

// Outcome is how a send ended. Finish writes it; nothing changes it later but a receipt.
type Outcome struct {
	AttemptID
	Status       Status // Sent, Failed or Unknown
	Reason       string
	Provider     string
	ProviderCode string
	Took         time.Duration
	// Refund, only with Failed: the row counts no longer, and RefundDue is set in the same
	// statement. It has no effect on a row that is InDoubt, since its message may have gone out.
	Refund bool
	// BadAddress, only with Failed: the address takes no messages, so the rule on rejected sends
	// counts the send.
	BadAddress bool
	Suppress   NewSuppression
	Event      NewEvent // written in the same transaction; zero: none
}

// Postponement ends an attempt, not the send.
type Postponement struct {
	AttemptID
	After        time.Duration // until the next attempt may start
	Reason       string
	Provider     string
	ProviderCode string
}

// Refund is a refund that the limiter has not confirmed yet.
type Refund struct {
	AttemptID
	App       string
	Channel   recipient.Channel
	Purpose   string
	Recipient recipient.Hash
}

// CountedSend is one send that counts, or that was rejected, for rebuilding a limiter from the
// database.
type CountedSend struct {
	App       string
	Channel   recipient.Channel
	Purpose   string
	Recipient recipient.Hash
	Event     quota.Event // ID is the 16 bytes of Send.ID; At on Clock
	// of Event.At: the clock that the caller named if the row has an instant on it, else
	// DatabaseClock
	Clock string
}

// Filter selects rows of the database. Zero fields select all.
type Filter struct {
	Recipient *recipient.Hash
	Status    Status
	Channel   recipient.Channel
	Purpose   string
	App       string
	BlockedBy string
	Reference string
	Provider  string    // mail server or carrier
	Country   string    // of a phone number
	Domain    string    // of a mail address, as To shows it
	Support   string    // a support reference
	Outcome   CodeState // present state of the send's code
	Network   string    // the client's, as Send.IP
	Request   string    // as Send.RequestID; refusals have none
	From, To  time.Time // LoggedAt in [From, To)
	Before    *Cursor   // rows older than this mark (keyset paging)
	After     *Cursor   // rows newer than this mark: those nearest to it, but returned newest first
	Limit     int       // 1 to 200; of the console's stream 500
}

// MaxBacklogCounted bounds how many sends a Backlog counts, over all channels.
const MaxBacklogCounted = 100_000

// Backlog are the sends of a channel without an outcome: those that wait, and those at a mail
// server or carrier.
type Backlog struct {
	Sends int
	Age   time.Duration // of the oldest, on the database's clock
}

// PoolStats is the state of a pool of connections.
type PoolStats struct {
	Name        string
	InUse, Idle int
	Waits       int64 // how often one had to be waited for, or opened, since the start
}

// CodeState is the state of a code, as lists show it.
type CodeState string

// The states of a code. A code has exactly one at a time.
const (
	CodeEntered  CodeState = "entered"
	CodeWaiting  CodeState = "waiting" // can still be entered
	CodeExpired  CodeState = "expired"
	CodeLocked   CodeState = "locked" // no tries left
	CodeCanceled CodeState = "canceled"
	CodeOfCaller CodeState = "caller" // the caller checks it
)

// Cursor is the place of a row in a list that is sorted by time and then ID.
type Cursor struct {
	At time.Time
	ID uuid.UUID
}

// asRow returns a row at the mark, for CompareLogged.
func (m Cursor) asRow() SendOrRefusal { return SendOrRefusal{Send: Send{ID: m.ID, LoggedAt: m.At}} }

// SendDetails is one row of the database and everything that belongs to it.
type SendDetails struct {
	Send         SendOrRefusal
	Verification *Verification // nil for a refusal without a verification, and if it was deleted
	// Related has the sends of the verification, including this row, and the refusals of its
	// recipient (same app and channel) between its creation and its expiry; the oldest MaxRelatedRows
	// of them, oldest first. Empty without a verification.
	Related []SendOrRefusal
	// Suppressions are those that stopped this send and those that it caused, oldest first.
	Suppressions []Suppression
	Events       []ProviderEvent // reports of a provider on this send, sorted by At
	Pause        *PrefixPause    // the pause that stopped this send; nil: none
	Now          time.Time       // on the database's clock
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
	Network string // the client's, as Send.IP
	// Judge says whether the typed code is right. The store calls it while it holds locks, maybe
	// more than once, and writes nothing if it fails. counts: the check will count; if not, only
	// the error matters. tell is written if the code is right.
	Judge func(v Verification, counts bool) (right bool, tell NewEvent, err error)
}

// CheckAnswer is the result of a check.
type CheckAnswer struct {
	Verification Verification // as the check left it
	Now          time.Time    // of the check, on the database's clock
	Counted      bool         // false: the verification was not pending, or its recipient is locked out
	Approved     bool         // by this check: the code was right
	Event        NewEvent     // written with it, of an approval or of the last wrong code; zero: none
	Lockout      Lockout      // Wait > 0: the verification is pending, but its recipient is locked out
}
