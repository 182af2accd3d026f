package store

import (
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
)

// Fraudsters request codes for phone numbers that earn them money with each message. They never
// enter the codes. So at the prefix of such numbers, few codes are approved. The watch compares the
// numbers of sent and approved codes for each app, prefix and class of callers. It counts each
// class separately, so fraud by strangers pauses only messages to strangers.

// PrefixWatch has the settings of the automatic pauses of prefixes of phone numbers.
type PrefixWatch struct {
	MinSends           int           // least number of text messages to judge a prefix; 0: no watch
	MinApprovedPercent int           // a prefix with a lower percentage of approved codes is paused; 1 to 50
	TTL                time.Duration // life of a code; codes that may still be entered are not counted
	Exempt             []string      // no prefix that begins with one of these texts is paused
	Apps               []string      // if Only is true, only these apps are watched; otherwise all other apps are watched
	Only               bool
}

// UnknownUsualPercent is the value of PrefixPause.UsualPercent if too few messages were sent to
// other prefixes.
const UnknownUsualPercent = -1

// PrefixPause stops an app's text messages to numbers with a prefix, for callers of one class. It
// lasts from Since to Until, or until an administrator lifts it.
type PrefixPause struct {
	ID       uuid.UUID
	App      string
	Country  string // of the numbers, ISO 3166-1 alpha-2 or "001"
	Prefix   string // "+49151"
	Class    Class  // of the verifications whose messages stop
	Since    time.Time
	Until    time.Time
	Sends    int // sends that were counted when the pause began
	Approved int // how many codes of these sends were approved
	// The usual percentage of approved codes: the percentage at other prefixes, for the same class.
	// It is the higher of two values, one for the same country and one for all countries. It may be
	// UnknownUsualPercent.
	UsualPercent int
	LiftedAt     time.Time // zero: not lifted
	LiftedBy     string
	LiftedWhy    string
}

// Columns returns the columns of the row.
func (p *PrefixPause) Columns() []Column {
	return []Column{
		{"id", &p.ID, InsertedColumn},
		{"app", &p.App, InsertedColumn},
		{"country", &p.Country, InsertedColumn},
		{"prefix", &p.Prefix, InsertedColumn},
		{"class", (*string)(&p.Class), InsertedColumn},
		{"since", &p.Since, InsertedColumn},
		{"until", &p.Until, InsertedColumn},
		{"sends", &p.Sends, InsertedColumn},
		{"approved", &p.Approved, InsertedColumn},
		{"usual", &p.UsualPercent, InsertedColumn},
		{"lifted_at", &p.LiftedAt, 0},
		{"lifted_by", &p.LiftedBy, 0},
		{"lifted_why", &p.LiftedWhy, 0},
	}
}

// Active reports whether the pause applies at the time now: no administrator has lifted the pause,
// and Until has not passed.
func (p PrefixPause) Active(now time.Time) bool { return p.LiftedAt.IsZero() && now.Before(p.Until) }

// PrefixPauseFilter selects pauses. Zero fields select all.
type PrefixPauseFilter struct {
	Active bool    // only pauses in force now, on the database's clock
	Before *Cursor // only pauses older than this mark, by Since and then ID
	Limit  int     // 1 to 200
}

// LiftPauseRequest is a request to end a pause early.
type LiftPauseRequest struct {
	ID      uuid.UUID // of the pause
	By, Why string    // the administrator's account and reason
}

// Exempts reports whether the prefix is never paused.
func (w PrefixWatch) Exempts(prefix string) bool {
	return slices.ContainsFunc(w.Exempt, func(x string) bool { return strings.HasPrefix(prefix, x) })
}

// WithLiftedPause returns the entry with the app and the prefix of the pause that was lifted.
func (a AuditEntry) WithLiftedPause(p PrefixPause) AuditEntry {
	a.App, a.Channel, a.Target = p.App, "sms", p.Prefix
	return a
}

// Validated returns the request and the audit entry in act, both in the form that the store uses.
// If act is nil, there is no audit entry. If act is invalid, the error wraps ErrBadRequest.
func (l LiftPauseRequest) Validated(act *AuditEntry) (LiftPauseRequest, *AuditEntry, error) {
	l.By, l.Why = sanitized(l.By), sanitized(l.Why)
	act, err := validatedAuditEntry(act)
	return l, act, err
}

// MayBeStoppedByPause reports whether the pause of a prefix may have stopped the send.
func (s Send) MayBeStoppedByPause() bool {
	return s.Prefix != "" && s.Status == Failed && s.Reason == ReasonPaused
}
