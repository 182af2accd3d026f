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

// The states of a send. Queued and Sending are in flight. The others are final, except that a receipt may change Sent or Unknown.
const (
	Queued  Status = "queued"  // waits for its next attempt
	Sending Status = "sending" // an attempt holds its lease
	Sent    Status = "sent"    // the mail server or the carrier took the message
	Failed  Status = "failed"  // definitely not delivered; Reason says why
	Unknown Status = "unknown" // may have been delivered; never sent again, never refunded
	// Only text messages: the carrier's receipt.
	Delivered   Status = "delivered"   // the message reached the phone
	Undelivered Status = "undelivered" // the message did not reach the phone; not refunded, since the carrier took it

	Refused Status = "refused" // a refusal, not a send
)

// InFlight reports whether the send still waits for its outcome.
func (s Status) InFlight() bool { return s == Queued || s == Sending }

// LogClock names the log's own clock. It is the Clock of a row that no limiter counted.
const LogClock = "log"

// The tags describe the rows for both databases. A tag has the column's name, and then which inserts write the column: "send" (Begin),
// "refusal" (Refused, in the table refusals), or "add" (other tables). A column that an insert does not write gets its default. "null": the zero value is NULL.

// Class is the class of a caller: how much it is trusted with the places and tries of a recipient.
type Class string

// The classes of callers.
const (
	SecretKey      Class = ""        // a back end, for a person that it knows
	KnownBrowser   Class = "known"   // a browser in which an earlier code of this recipient was entered
	UnknownBrowser Class = "unknown" // any other browser, or a back end that acts for one
)

// Classes are all classes.
var Classes = []Class{SecretKey, KnownBrowser, UnknownBrowser}

// Verification is one code: its holder may have it sent again, its recipient enters it.
type Verification struct {
	ID          string            `column:"id,send"` // opaque; see NewVerificationID: a caller who knows it may read and check it
	App         string            `column:"app,send"`
	Channel     recipient.Channel `column:"channel,send"`
	Purpose     string            `column:"purpose,send"`
	Recipient   recipient.Hash    `column:"recipient,send"`
	To          string            `column:"masked,send"`      // masked
	Sealed      []byte            `column:"sealed,null,send"` // the full recipient, encrypted; empty once erased
	Holder      string            `column:"holder,send"`      // requests with the same holder may resend without the ID; empty: a browser opened it
	Class       Class             `column:"class,send"`       // of the caller that opened it; the classes have separate bounds on failed checks
	Nonce       []byte            `column:"nonce,send"`       // 16 random bytes from which the code is derived; stored nowhere else
	KeyID       string            `column:"key_id,send"`      // names the key in the ring from which the code is derived
	CodeLength  int               `column:"code_length,send"`
	Alphabet    string            `column:"alphabet,send"` // of the code; a code.Alphabet
	Locale      string            `column:"locale,send"`
	Reference   string            `column:"reference,send"`
	CreatedAt   time.Time         `column:"created_at,send"`
	ExpiresAt   time.Time         `column:"expires_at,send"`
	Attempts    int               `column:"attempts"` // checks counted so far
	MaxAttempts int               `column:"max_attempts,send"`
	Sends       int               `column:"sends,send"`       // sends so far
	ApprovedAt  time.Time         `column:"approved_at"`      // zero: not approved
	CanceledAt  time.Time         `column:"canceled_at"`      // zero: not canceled
	RedeemedAt  time.Time         `column:"redeemed_at"`      // zero: its proof was not redeemed
	RedeemedBy  []byte            `column:"redeemed_by,null"` // hash of the Idempotency-Key of the redemption; empty: it had none
	Replaces    []string          `column:"replaces,send"`    // newest first, at most MaxReplaces: the IDs of those in whose place it was opened
	Forgiven    int               `column:"forgiven"`         // how many of Attempts an administrator's reset forgave; the bounds on failed checks ignore them
}

// MaxReplaces bounds Verification.Replaces, so that its text has at most MaxText bytes.
const MaxReplaces = 16

// Chain returns the ID of v and those of the verifications that it replaces, newest first.
func (v Verification) Chain() []string { return append([]string{v.ID}, v.Replaces...) }

// Send is a row of the table sends, or, with Status Refused, one of the table refusals: one or more refusals by one rule.
type Send struct {
	ID             uuid.UUID         `column:"id,send,refusal"`              // version 7, so that IDs sort by time
	VerificationID string            `column:"verification_id,send,refusal"` // empty for a refusal without a verification
	Number         int               `column:"number,send"`                  // 1 for the first send of a verification; 0 for a refusal
	App            string            `column:"app,send,refusal"`
	Channel        recipient.Channel `column:"channel,send,refusal"`
	Purpose        string            `column:"purpose,send,refusal"`
	Recipient      recipient.Hash    `column:"recipient,send,refusal"`
	To             string            `column:"masked,send,refusal"`  // masked
	Country        string            `column:"country,send,refusal"` // of a phone number, ISO 3166-1 or "001"; empty: mail, or erased
	Prefix         string            `column:"prefix,send,refusal"`  // first digits of a phone number that To shows: "+86138"
	Locale         string            `column:"locale,send,refusal"`
	Reference      string            `column:"reference,send,refusal"`
	IP             string            `column:"ip,send,refusal"` // client's network: /24 for IPv4, /48 for IPv6; only displayed
	Status         Status            `column:"status,send"`
	Reason         string            `column:"reason"`       // machine word. Failed, Unknown: why; Queued: why it was postponed
	Attempt        int               `column:"attempt,send"` // number of the current or last attempt; writes of earlier attempts change nothing
	InDoubt        bool              `column:"in_doubt"`     // an earlier attempt ended without an outcome, so its message may have gone out
	Counts         bool              `column:"counts,send"`  // the recipient's rules count this send
	RefundDue      bool              `column:"refund_due"`   // the limiter has not yet confirmed the refund
	TakenAt        time.Time         `column:"taken_at,send,refusal"`
	Clock          string            `column:"clock,send,refusal"`
	LoggedAt       time.Time         `column:"logged_at,send,refusal"`
	DueAt          time.Time         `column:"due_at"`        // while in flight: the next attempt's time, or the end of the lease
	FinishedAt     time.Time         `column:"finished_at"`   // zero while in flight
	Provider       string            `column:"provider"`      // host of the mail server, or the carrier
	ProviderCode   string            `column:"provider_code"` // "250 2.0.0"
	Took           time.Duration     `column:"took"`
	BlockedBy      string            `column:"blocked_by,refusal"`  // with Refused: the rule that blocked longest
	RetryAfter     time.Duration     `column:"retry_after,refusal"` // with Refused: the wait in the latest answer
	Count          int               `column:"requests,refusal"`    // with Refused: how many requests the row stands for; 1 for a send
	// with Refused: for how many recipients the row stands, at most ManyRecipients; 0: only for Recipient
	Recipients  int               `column:"recipients,refusal"`
	Afterwards  ProviderEventKind `column:"afterwards"`               // the worst kind that a provider reported later; empty: none
	Suppression uuid.UUID         `column:"suppression_id,null,send"` // the suppression in force at Begin, so no message is sent; Nil: none
	Forgiven    bool              `column:"forgiven"`                 // an administrator's reset forgave this send, so it no longer counts
	Observed    []string          `column:"observed,send"`            // observing rules that would have refused this send; none for a refusal
}

// ManyRecipients is the largest number of recipients that is counted for one row of refusals: it stands for as many or more.
const ManyRecipients = 100

// ByLogged compares rows by LoggedAt and then ID, oldest first.
func ByLogged(a, b Send) int {
	return cmp.Or(a.LoggedAt.Compare(b.LoggedAt), slices.Compare(a.ID[:], b.ID[:]))
}

// Matches reports whether s matches the filter, apart from Outcome, Network and the page's length.
func (f Filter) Matches(s Send) bool {
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
		f.Support != "" && !hasSupportReference(s.ID, f.Support),
		f.Domain != "" && recipient.DomainOf(s.To) != f.Domain,
		!f.From.IsZero() && s.LoggedAt.Before(f.From),
		!f.To.IsZero() && !s.LoggedAt.Before(f.To),
		f.Before != nil && ByLogged(s, Send{ID: f.Before.ID, LoggedAt: f.Before.At}) >= 0,
		f.After != nil && ByLogged(s, Send{ID: f.After.ID, LoggedAt: f.After.At}) <= 0:
		return false
	}
	return true
}
