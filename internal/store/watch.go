package store

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
)

// A fraudster has codes sent to numbers that earn money, and never enters them: few of those codes are approved. So approvals are
// counted for each app by the prefix of the number, as far as its masked form shows it.

// PrefixWatch says when a prefix of phone numbers is paused.
type PrefixWatch struct {
	Sends    int           // text messages from which on a share says something, at least 1
	Approved int           // approved of a hundred, below which a prefix is paused, 1 to 50
	Within   time.Duration // over which it is counted
	TTL      time.Duration // of a code: younger ones may still come back, and are not counted
	Pause    time.Duration // that a pause lasts; one after another doubles it, up to a day
	Exempt   []string      // beginnings of prefixes that are never paused
}

// NoUsual is PrefixPause.Usual where too little was sent elsewhere.
const NoUsual = -1

// PrefixPause keeps an app's text messages from the numbers that begin so, from Since until it runs out or is lifted.
type PrefixPause struct {
	ID        uuid.UUID `column:"id,add"`
	App       string    `column:"app,add"`
	Country   string    `column:"country,add"` // of the numbers, ISO 3166-1 alpha-2 or "001"
	Prefix    string    `column:"prefix,add"`  // "+49151"
	Since     time.Time `column:"since,add"`
	Until     time.Time `column:"until,add"`
	Sends     int       `column:"sends,add"` // that were counted
	Approved  int       `column:"approved,add"`
	Usual     int       `column:"usual,add"` // percent approved elsewhere, in this country or in all, whichever is more; -1: not known
	LiftedAt  time.Time `column:"lifted_at"` // zero: not lifted
	LiftedBy  string    `column:"lifted_by"`
	LiftedWhy string    `column:"lifted_why"`
}

// Active reports whether the pause applies at now: it is not lifted and has not run out.
func (p PrefixPause) Active(now time.Time) bool { return p.LiftedAt.IsZero() && now.Before(p.Until) }

// PrefixPauseFilter selects pauses. Zero fields select all.
type PrefixPauseFilter struct {
	Active bool  // only those that hold now, on the log's clock
	Before *Mark // older than this one, by Since and then ID
	Limit  int   // 1 to 200
}

// PrefixWatcher pauses prefixes with few approved codes.
type PrefixWatcher interface {
	// PausePrefixes pauses prefixes whose share of approved codes is too small, and returns what it paused. A send is counted in one
	// pause at most: sends from before the end of a prefix's last pause no longer count. Several replicas may call it at once; a prefix
	// is paused once.
	PausePrefixes(ctx context.Context, w PrefixWatch) ([]PrefixPause, error)
	// PrefixPaused is the pause that holds for an app's text messages to a prefix, if there is one.
	PrefixPaused(ctx context.Context, app, prefix string) (PrefixPause, bool, error)
	// PrefixPauses lists them, newest first, by Since and then ID, with the log's clock.
	PrefixPauses(ctx context.Context, f PrefixPauseFilter) ([]PrefixPause, time.Time, error)
	// LiftPrefix ends a pause. False: it had ended; it is returned as it is, and no act is written. Error: ErrNotFound.
	LiftPrefix(ctx context.Context, l PrefixLifting, act *AuditEntry) (PrefixPause, bool, error)
	// AcquireLease takes the turn at a work that one replica does for all, for a while. False: another has it.
	AcquireLease(ctx context.Context, name string, lasts time.Duration) (bool, error)
}

// PrefixLifting ends a pause before its time.
type PrefixLifting struct {
	ID      uuid.UUID
	By, Why string
}

// Exempts reports whether the prefix is never paused.
func (w PrefixWatch) Exempts(prefix string) bool {
	return slices.ContainsFunc(w.Exempt, func(x string) bool { return strings.HasPrefix(prefix, x) })
}

// WithLiftedPause returns the entry with the app and the prefix of the pause that was lifted.
func (act AuditEntry) WithLiftedPause(p PrefixPause) AuditEntry {
	act.App, act.Channel, act.Target = p.App, "sms", p.Prefix
	return act
}

// Validated returns the lifting and act, the audit entry that is written with it (nil: none), as they are stored. Errors wrap ErrBadRequest
// and are about act.
func (l PrefixLifting) Validated(act *AuditEntry) (PrefixLifting, *AuditEntry, error) {
	l.By, l.Why = sanitized(l.By), sanitized(l.Why)
	act, err := validatedAct(act)
	return l, act, err
}

// StoppedByPause reports whether the pause of a prefix may have stopped the send.
func (s Send) StoppedByPause() bool {
	return s.Prefix != "" && s.Status == Failed && s.Reason == ReasonPaused
}
