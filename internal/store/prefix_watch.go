package store

import (
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
)

// Fraudsters request codes for phone numbers that earn them money with each message, and never
// enter the codes. Therefore few codes are approved at the prefix of such numbers. The watch
// compares sent and approved codes for each app, prefix and class of callers, each class on its
// own, so that fraud by strangers stops only messages to strangers.

// PrefixWatch has the settings of the automatic pauses of phone prefixes.
type PrefixWatch struct {
	MinSends           int           // fewest text messages by which a prefix is judged; 0: no watch
	MinApprovedPercent int           // a prefix with a lower percentage is paused; 1 to 50
	TTL                time.Duration // life of a code; codes that may still be entered don't count
	Exempt             []string      // prefixes that begin with one of these are never paused
	Apps               []string      // with Only, the apps that are watched; otherwise those that are not
	Only               bool
}

// UnknownUsualPercent is PrefixPause.UsualPercent if too few messages went to other prefixes.
const UnknownUsualPercent = -1

// PrefixPause stops an app's text messages to numbers with a prefix, for one class of callers, from
// Since to Until or until an administrator lifts it.
type PrefixPause struct {
	ID       uuid.UUID
	App      string
	Country  string // ISO 3166-1 alpha-2 or "001"
	Prefix   string // such as "+49151"
	Class    Class  // of the verifications whose messages stop
	Since    time.Time
	Until    time.Time
	Sends    int // counted when the pause began
	Approved int // how many of these sends had their codes approved
	// Percentage of approved codes at the app's other prefixes, for the same class: in the country
	// or in all countries, whichever is higher. It may be UnknownUsualPercent.
	UsualPercent int
	LiftedAt     time.Time // zero: not lifted
	LiftedBy     string
	LiftedWhy    string
}

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

func (p PrefixPause) Active(now time.Time) bool { return p.LiftedAt.IsZero() && now.Before(p.Until) }

// PrefixPauseFilter selects pauses. Zero fields select all.
type PrefixPauseFilter struct {
	Active bool    // in force now, on the database's clock
	Before *Cursor // older ones only, by Since and then ID
	Limit  int     // 1 to 200
}

// LiftPauseRequest ends a pause early.
type LiftPauseRequest struct {
	ID      uuid.UUID
	By, Why string // an administrator's account and reason
}

// Exempts reports whether the prefix is never paused.
func (w PrefixWatch) Exempts(prefix string) bool {
	return slices.ContainsFunc(w.Exempt, func(x string) bool { return strings.HasPrefix(prefix, x) })
}

// WithLiftedPause names the lifted pause in the entry.
func (a AuditEntry) WithLiftedPause(p PrefixPause) AuditEntry {
	a.App, a.Channel, a.Target = p.App, "sms", p.Prefix
	return a
}

// Validated returns the request and act as the store uses them. act can be nil. If act is invalid,
// the error wraps ErrBadRequest.
func (l LiftPauseRequest) Validated(act *AuditEntry) (LiftPauseRequest, *AuditEntry, error) {
	l.By, l.Why = sanitized(l.By), sanitized(l.Why)
	act, err := validatedAuditEntry(act)
	return l, act, err
}

func (s Send) MayBeStoppedByPause() bool {
	return s.Prefix != "" && s.Status == Failed && s.Reason == ReasonPaused
}
