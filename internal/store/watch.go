package store

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
)

// A fraudster who has codes sent to numbers that he is paid for never enters them. So what shows him is where codes go and do
// not come back. Numbers are looked at by how they begin, as far as a mask shows it, and by app: what one app does is not
// felt at another.

// PrefixWatch says what is looked at, and what has a prefix paused.
type PrefixWatch struct {
	Sends    int           // text messages from which on a share says something, at least 1
	Approved int           // approved of a hundred, below which a prefix is paused, 1 to 50
	Within   time.Duration // over which it is counted
	TTL      time.Duration // of a code: younger ones may still come back, and are not counted
	Pause    time.Duration // that a pause lasts; one after another doubles it, up to maxPause
	Exempt   []string      // beginnings of prefixes that are never paused
}

// Bounds of a watch.
const (
	maxPause   = 24 * time.Hour
	usualSpan  = 7 * 24 * time.Hour // that is looked back for what is usual, and for earlier pauses
	UsualSends = 10_000             // of which the newest that many are counted
	MaxStarted = 100                // pauses at once
	NoUsual    = -1                 // what is usual, where nothing says it
)

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

// PrefixWatcher is the part of the log that watches where codes go and do not come back.
type PrefixWatcher interface {
	// PausePrefixes pauses prefixes whose share of approved codes is too small, and returns what it paused. A send is counted in one
	// pause at most: what was sent before the end of a prefix's last pause says nothing any more. Several replicas may watch
	// at once, and pause a prefix once.
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

// Check returns an error that wraps ErrBadRequest if the watch is not valid.
func (w PrefixWatch) Check() error {
	return badRequestIf(w.Sends < 1 || w.Approved < 1 || w.Approved > 50 || w.Within <= 0 || w.TTL < 0 || w.Pause < time.Second || w.Pause > maxPause,
		"a watch counts sends over some time, below half of them, and pauses for a second to a day")
}

// Exempts reports whether the prefix is never paused.
func (w PrefixWatch) Exempts(prefix string) bool {
	return slices.ContainsFunc(w.Exempt, func(x string) bool { return strings.HasPrefix(prefix, x) })
}

// Conversion is how many sends there were, and how many of their codes were approved.
type Conversion struct {
	App, Country, Prefix string
	Sends, Approved      int
}

func (c Conversion) percent() int { return 100 * c.Approved / c.Sends }

// PrefixRecords are what Watch reads and writes, in one transaction that no other Watch runs beside.
type PrefixRecords interface {
	// Poor are the prefixes with sends in (from, to], too few of which were approved, and with no pause that ended after them.
	Poor(w PrefixWatch, from, to time.Time) ([]Conversion, error)
	// Share is of the app's newest sends in (from, to] outside the prefix; country "": in all.
	Share(app, country, prefix string, from, to time.Time) (Conversion, error)
	// Paused is how many pauses of the prefix began after an instant and were not lifted.
	Paused(app, prefix string, after time.Time) (int, error)
	Pause(p PrefixPause) error
}

// PausePrefixes pauses the prefixes that have too few approved codes, unless few codes are approved elsewhere too. It reads and
// writes through b, in b's transaction, and returns the pauses that began at now.
func (w PrefixWatch) PausePrefixes(now time.Time, b PrefixRecords) (started []PrefixPause, err error) {
	to := now.Add(-w.TTL.Truncate(time.Microsecond))
	from := to.Add(-w.Within.Truncate(time.Microsecond))
	found, err := b.Poor(w, from, to)
	if err != nil {
		return nil, err
	}
	for _, c := range found {
		if w.Exempts(c.Prefix) {
			continue
		}
		usual, err := w.usualPercent(b, c, from)
		if err != nil {
			return nil, err
		}
		if usual != NoUsual && usual < 2*w.Approved {
			continue // its codes seldom come back from anywhere: that says nothing of this prefix
		}
		p, err := w.startPause(b, c, usual, now)
		if err != nil {
			return nil, err
		}
		started = append(started, p)
	}
	return started, nil
}

// usualPercent returns the percentage of codes approved outside the prefix, in its country or in all, whichever is higher; NoUsual if
// there were too few sends. It looks at the week before, so that an attack on a whole country does not lower it.
func (w PrefixWatch) usualPercent(b PrefixRecords, c Conversion, before time.Time) (int, error) {
	most := NoUsual
	for _, country := range []string{c.Country, ""} {
		s, err := b.Share(c.App, country, c.Prefix, before.Add(-usualSpan), before)
		if err != nil {
			return 0, err
		}
		if s.Sends >= w.Sends {
			most = max(most, s.percent())
		}
	}
	return most, nil
}

// startPause pauses a prefix and returns the pause. It lasts twice as long for each earlier pause of the last week that was not
// lifted, up to maxPause.
func (w PrefixWatch) startPause(b PrefixRecords, c Conversion, usual int, now time.Time) (PrefixPause, error) {
	earlier, err := b.Paused(c.App, c.Prefix, now.Add(-usualSpan))
	if err != nil {
		return PrefixPause{}, err
	}
	lasts := w.Pause.Truncate(time.Microsecond)
	for ; earlier > 0 && lasts < maxPause; earlier-- {
		lasts *= 2
	}
	p := PrefixPause{
		App: c.App, Country: c.Country, Prefix: c.Prefix, Since: now, Until: now.Add(min(lasts, maxPause)),
		Sends: c.Sends, Approved: c.Approved, Usual: usual,
	}
	p.ID = uuid.NewSHA1(prefixPauses, []byte(p.App+"\x00"+p.Prefix+"\x00"+now.Format(time.RFC3339Nano)))
	return p, b.Pause(p)
}

// prefixPauses is the namespace of their IDs.
var prefixPauses = uuid.MustParse("5f0f3a5e-2b57-5b0e-9d0c-7f6d2f1f9b11")

// Checked validates the filter and rounds its mark; errors wrap ErrBadRequest.
func (f PrefixPauseFilter) Checked() (PrefixPauseFilter, error) {
	f.Before = f.Before.micro()
	return f, checkPage(f.Limit)
}

// LiftEntry returns the audit entry with the app and the prefix of the pause that was lifted.
func (p PrefixPause) LiftEntry(act AuditEntry) AuditEntry {
	act.App, act.Channel, act.Target = p.App, "sms", p.Prefix
	return act
}

// Checked validates the request and act, the audit entry that is written with it (nil: none), and returns both as they are stored.
// Errors wrap ErrBadRequest.
func (l PrefixLifting) Checked(act *AuditEntry) (PrefixLifting, *AuditEntry, error) {
	l.By, l.Why = sanitized(l.By), sanitized(l.Why)
	if l.ID == uuid.Nil {
		return l, nil, Bad("who lifts a pause names it")
	}
	act, err := checkedAct(act)
	return l, act, err
}

// CheckAcquireLease validates the arguments of AcquireLease; its error wraps ErrBadRequest.
func CheckAcquireLease(name string, lasts time.Duration) error {
	return badRequestIf(name == "" || !ValidTexts(name) || lasts < time.Millisecond, "a turn has a name and lasts for a while")
}

// Untried reports whether the pause of a prefix may have stopped the send.
func (s Send) Untried() bool { return s.Prefix != "" && s.Status == Failed && s.Reason == ReasonPaused }
