package store

import (
	"cmp"
	"slices"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/recipient"
)

// Status is the state of a send.
type Status string

// The states of a send. Queued and Sending are in flight; the others are final, but that a receipt may follow Sent and Unknown.
const (
	Queued  Status = "queued"  // waits for its next attempt
	Sending Status = "sending" // an attempt holds its lease
	Sent    Status = "sent"    // the server took it
	Failed  Status = "failed"  // definitely not delivered; Reason says why
	Unknown Status = "unknown" // may have been delivered; never sent again, never refunded
	// Of text messages alone: what the carrier said afterwards.
	Delivered   Status = "delivered"   // it came to the phone
	Undelivered Status = "undelivered" // it did not; it stays spent, for the carrier took it

	Refused Status = "refused" // never was a send: a rule refused the request
)

// InFlight says that the send still waits for its outcome.
func (s Status) InFlight() bool { return s == Queued || s == Sending }

// LogClock names the log's own clock, as the Clock of a row that no limiter took.
const LogClock = "log"

// Verification is one code in the making: its holder may resend it, its recipient enters it.
type Verification struct {
	ID          string // opaque, at least 128 random bits: whoever knows it may read and check it
	App         string
	Channel     recipient.Channel
	Purpose     string
	Recipient   recipient.Hash
	To          string // masked
	Sealed      []byte // the full recipient, encrypted; empty once erased
	Holder      string // who may resend without naming the ID; empty: nobody
	ByBrowser   bool   // a browser opened it, not a secret key: failed checks of each kind are bounded apart
	Nonce       []byte // 16 random bytes that only the log has; the code is derived from them
	KeyID       string // key of the ring that the code is derived from
	CodeLength  int
	Alphabet    string // what the code is made of, as package verification names it
	Locale      string
	Reference   string
	CreatedAt   time.Time
	ExpiresAt   time.Time
	Attempts    int // checks counted so far
	MaxAttempts int
	Sends       int       // sends so far
	ApprovedAt  time.Time // zero: not approved
	CanceledAt  time.Time // zero: not canceled
	RedeemedAt  time.Time // zero: its proof was not redeemed
	RedeemedBy  []byte    // hash of the Idempotency-Key of the redemption; empty: it had none
	Forgiven    int       // of Attempts: those that an administrator forgave, which no bound counts any more
}

// Send is one row of the log: a send, or one or more refusals by one rule.
type Send struct {
	ID             uuid.UUID // version 7, so that IDs sort by time
	VerificationID string    // empty for a refusal that belongs to none
	Number         int       // 1 for the first send of a verification; 0 for a refusal
	App            string
	Channel        recipient.Channel
	Purpose        string
	Recipient      recipient.Hash
	To             string // masked
	Country        string // of a phone number, ISO 3166-1 alpha-2 or "001"; empty with mail, and once erased
	Prefix         string // how a phone number begins, no longer than To shows it: "+86138"; empty with mail, and once erased
	Locale         string
	Reference      string
	IP             string // client's network, /24 for IPv4 and /48 for IPv6, for the reader only
	Status         Status
	Reason         string // machine word, with Failed and Unknown; with Queued why it was postponed
	Attempt        int    // the attempt that holds, or held last; fences late writers
	InDoubt        bool   // an earlier attempt ended without a word, so its mail may have gone out
	Counts         bool   // takes a place in the recipient's rules
	RefundDue      bool   // the limiter has not yet confirmed the refund
	TakenAt        time.Time
	Clock          string
	LoggedAt       time.Time
	DueAt          time.Time // while in flight: the next attempt's time, or the end of the lease
	FinishedAt     time.Time // zero while in flight
	Provider       string    // host of the mail server, or the carrier
	ProviderCode   string    // "250 2.0.0"
	Took           time.Duration
	BlockedBy      string            // with Refused: the rule that blocks longest
	RetryAfter     time.Duration     // with Refused: the wait told last
	Count          int               // with Refused: how many requests this row stands for; 1 for a send
	Recipients     int               // with Refused: how many recipients the row stands for, estimated, where it names none; 0: it names its one
	Afterwards     ProviderEventKind // the worst that a provider told of it later; empty: nothing
	Suppression    uuid.UUID         // that Begin met: the send goes to nobody; Nil: none
	Forgiven       bool              // an administrator forgave it: it counted until then
	Observed       []string          // names of the observing rules that would have refused this send; none for a refusal
}

// ByLogged orders rows as pages do, oldest first.
func ByLogged(a, b Send) int {
	return cmp.Or(a.LoggedAt.Compare(b.LoggedAt), slices.Compare(a.ID[:], b.ID[:]))
}

// Selects says whether s is one of the rows that f selects, but for its length.
func (f Filter) Selects(s Send) bool {
	switch {
	case f.Recipient != nil && s.Recipient != *f.Recipient,
		f.Status != "" && s.Status != f.Status,
		f.Channel != "" && s.Channel != f.Channel,
		f.Purpose != "" && s.Purpose != f.Purpose,
		f.App != "" && s.App != f.App,
		f.BlockedBy != "" && s.BlockedBy != f.BlockedBy,
		f.Reference != "" && s.Reference != f.Reference,
		f.Provider != "" && s.Provider != f.Provider,
		f.Country != "" && s.Country != f.Country,
		f.Support != "" && !sharesReference(s.ID, f.Support),
		f.Domain != "" && recipient.DomainOf(s.To) != f.Domain,
		!f.From.IsZero() && s.LoggedAt.Before(f.From),
		!f.To.IsZero() && !s.LoggedAt.Before(f.To),
		f.Before != nil && ByLogged(s, Send{ID: f.Before.ID, LoggedAt: f.Before.At}) >= 0,
		f.After != nil && ByLogged(s, Send{ID: f.After.ID, LoggedAt: f.After.At}) <= 0:
		return false
	}
	return true
}
