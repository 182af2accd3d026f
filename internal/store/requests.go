package store

import (
	"time"

	"github.com/google/uuid"

	"sendcode/internal/recipient"
	"sendcode/quota"
)

// SetRefusedAt sets the instants of a refusal that is logged at now, and replaces its ID if the time in it drifted.
func (s *Send) SetRefusedAt(now time.Time) {
	s.ID, s.LoggedAt, s.FinishedAt = withTimeNear(s.ID, now), now, now
	if s.Clock == LogClock {
		s.TakenAt = now
	}
}

// Intent is what Begin is asked to write.
type Intent struct {
	Send         Send           // ID, App, Channel, Purpose, Recipient, To, Locale, Reference, IP, TakenAt, Clock, Observed are read
	Address      recipient.Hash // of the very address, which suppressions go by; zero: there can be none
	Rules        []quota.Rule   // the recipient's rules that are enforced; the log decides exactly these
	Rejections   quota.Rule     // bounds the recipient's rejected sends, of every purpose; slides; without a limit there is none
	Purposes     []string       // the purposes that share the policy, Send's own too: their sends are the bucket's history
	Verification Verification   // opened when none can be joined; what it shares with Send is taken from there
	TTL          time.Duration  // of a verification opened now
	Join         string         // ID of the verification to resend; empty: one of the same holder, app, channel, recipient and purpose
	MinLife      time.Duration  // a verification with less life left is not joined
	Lease        time.Duration  // how long the first attempt holds the row
}

// Begun is what Begin decided.
//
// History, Rejected and At are what the gate saw, so that quota.Evaluate explains the decision from them: each event lies
// its age before At. A repeated Begin decides nothing and has none of them. On a row of Intent's own clock that is its age on that clock,
// but at most a second more than on the log's: a limiter whose clock was set ahead does not make a row older. A row of another clock (a
// Redis before a failover, or none at all) is placed by its age on the log's clock. On success the events lie on the intent's clock too,
// before its Take, while Now is the log's.
type Begun struct {
	Admitted     bool
	Repeated     bool          // the row was there already: another process may have it in hand
	Verification Verification  // joined or opened; zero when refused
	Send         Send          // as written, Status Sending and Attempt 1; zero when refused
	History      []quota.Event // the counting sends of the longest window but for this one, oldest first; ID is the 16 bytes of Send.ID
	Rejected     []quota.Event // the sends that Rejections counts, oldest first, by their age on the log's clock
	Lockout      Lockout       // when the rules let it in and the bounds on failed checks refuse it: Wait is positive
	At           time.Time     // Intent.Send.TakenAt, on its Clock, but at most a second after the log's
	Now          time.Time     // admitted: Send.LoggedAt, on the log's clock; refused: At
	Clock        string        // admitted: LogClock; refused: Intent.Send.Clock, which is LogClock where no limiter took it
}

// Opened reports whether Begin opened a new verification: it joined none, and is not a repetition.
func (b Begun) Opened() bool { return !b.Repeated && b.Send.Number == 1 }

// HolderQuery names the verifications that a holder may resend, as Begin finds them when no ID is named.
type HolderQuery struct {
	App       string
	Channel   recipient.Channel
	Recipient recipient.Hash
	Purpose   string
	Holder    string // not empty: without a holder, knowing an address is no hold over anything
}

// Work is a row in flight with all that an attempt needs.
type Work struct {
	Send         Send
	Verification Verification
	// To and the hash of this very address, where the process knows them without opening Verification.Sealed; zero where it took
	// the row over. No row has them.
	To      recipient.Recipient
	Address recipient.Hash
}

// Held names a row and the attempt that its holder made. Writes with an older attempt change nothing.
type Held struct {
	ID      uuid.UUID
	Attempt int
}

// Outcome ends a send for good.
type Outcome struct {
	Held
	Status       Status // Sent, Failed or Unknown
	Reason       string
	Provider     string
	ProviderCode string
	Took         time.Duration
	// Refund, with Failed only, gives the place back: the row stops counting at once and RefundDue is set in the same
	// statement. Not so for a row in doubt: its mail may have gone out, so its place stays spent.
	Refund   bool
	Suppress SuppressAs
	Event    NewEvent // the event that is written with it
}

// Postponement ends an attempt, not the send.
type Postponement struct {
	Held
	After        time.Duration // until the next attempt may start
	Reason       string
	Provider     string
	ProviderCode string
}

// Refund is a refund that the limiter has not confirmed yet.
type Refund struct {
	Held
	App       string
	Channel   recipient.Channel
	Purpose   string
	Recipient recipient.Hash
}

// CountedSend is one counting send, for rebuilding a limiter from the log.
type CountedSend struct {
	App       string
	Channel   recipient.Channel
	Purpose   string
	Recipient recipient.Hash
	Event     quota.Event // ID is the 16 bytes of Send.ID; At on Clock
	Clock     string      // the clock asked for where the row has it, else LogClock
}

// Filter selects rows of the log. Zero fields select all.
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
	Outcome   CodeState // of a send's code
	Network   string    // of the client
	From, To  time.Time // LoggedAt in [From, To)
	Before    *Mark     // rows older than this one (keyset paging)
	After     *Mark     // or those newer than it, the nearest to it; told newest first like all others
	Limit     int       // 1 to 200
}

// CodeState is what can have become of a code, as lists tell it.
type CodeState string

// The states of codes, of which each has one at a time.
const (
	CodeEntered  CodeState = "entered"
	CodeWaiting  CodeState = "waiting" // for it to be entered
	CodeExpired  CodeState = "expired"
	CodeLocked   CodeState = "locked" // after too many wrong tries
	CodeCanceled CodeState = "canceled"
)

// Mark is a place in the log, newest first.
type Mark struct {
	At time.Time
	ID uuid.UUID
}

// Story is one row with what belongs to it.
type Story struct {
	Send         Send
	Verification *Verification // nil for a refusal that belongs to none
	// Related is empty for a row without a verification. Otherwise it is the sends of that verification, this one too,
	// and the refusals of its recipient (same app and channel) from its creation until it expires, oldest first. Of
	// more than 500 the oldest are told.
	Related []Send
	// Suppressions are those that stopped the row and those that came of it, oldest first.
	Suppressions []Suppression
	Events       []ProviderEvent // what a provider told of the row, by when it says that it happened
	Pause        *PrefixPause    // that stopped the row; nil: none did
	Now          time.Time       // on the log's clock
}

// Lockout is what the bounds on failed checks say of a recipient's codes that callers of one kind opened.
type Lockout struct {
	ByBrowser bool          // the kind: browsers, or secret keys
	Wait      time.Duration // until a code can be tried; 0: now
	Failures  int           // tries that failed, as the bound that locks out longer counts them
}

// WithCallerKind returns the lockout with the kind of caller that opened v.
func (l Lockout) WithCallerKind(v Verification) Lockout {
	l.ByBrowser = v.ByBrowser
	return l
}
