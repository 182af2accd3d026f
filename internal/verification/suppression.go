package verification

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/delivery"
	"sendcode/internal/recipient"
	"sendcode/internal/store"
)

// Some sends are let in and handed to nobody: their recipient gets no mail for a while, or what they would go through is
// paused. They end as failed with the reason, give their places back, and count as failures, which bounds them.

// Pause stops sends of a channel, a purpose, or a purpose on a channel: whichever is named must match.
type Pause struct {
	Channel recipient.Channel
	Purpose string
	Reason  string    // an operator's words, for administrators
	Since   time.Time // when this process came to know of it; set by the service
}

func (p Pause) matches(ch recipient.Channel, purpose string) bool {
	return (p.Channel == "" || p.Channel == ch) && (p.Purpose == "" || p.Purpose == purpose)
}

// since gives each pause the instant from which it is known: what was there before keeps its own.
func since(before, after []Pause, now time.Time) []Pause {
	after = slices.Clone(after)
	for i := range after {
		after[i].Since = now
		for _, b := range before {
			if b.Channel == after[i].Channel && b.Purpose == after[i].Purpose && b.Reason == after[i].Reason {
				after[i].Since = b.Since
			}
		}
	}
	return after
}

// Paused is the pause that holds for a channel and purpose now, if there is one.
func (s *Service) Paused(ch recipient.Channel, purpose string) (Pause, bool) {
	pauses := s.Terms().Pauses
	i := slices.IndexFunc(pauses, func(p Pause) bool { return p.matches(ch, purpose) })
	if i < 0 {
		return Pause{}, false
	}
	return pauses[i], true
}

// untried is why a send is handed to nobody; empty if it is.
func (o *outbox) untried(ctx context.Context, s store.Send) (reason string, err error) {
	if s.Suppression != uuid.Nil {
		return reasonSuppressed, nil
	}
	_, paused := o.Paused(s.Channel, s.Purpose)
	if !paused {
		paused, err = o.prefixPaused(ctx, s)
	}
	if paused {
		return reasonPaused, nil
	}
	return "", err
}

// bar has a bounce suppress the very address that it was sent to. The simulator's recipients are meant to bounce, again
// and again.
func (o *outbox) bar(v store.Verification, why store.Cause) store.SuppressAs {
	to, err := o.recipientOf(v)
	if err != nil || to.Domain() == delivery.SimulatorDomain {
		return store.SuppressAs{}
	}
	return store.SuppressAs{Cause: why, Address: to.Hash(o.IndexKey), For: o.Terms().SuppressFor}
}

// Barring is an administrator's wish that a recipient gets no mail for a while.
type Barring struct {
	Channel, To string
	App         string        // empty: from no app
	Why         string        // at most 200 characters
	For         time.Duration // 0: as long as a bounce; at most MaxSuppression
	By          string
	Act         *store.AuditEntry // that it is recorded as; on whom and why is added
}

// MaxSuppression is how long a suppression lasts at most, DefaultSuppression how long without a wish.
const (
	MaxSuppression     = 366 * 24 * time.Hour
	DefaultSuppression = 30 * 24 * time.Hour
	maxWhy             = 200
)

// Suppress keeps mail from a recipient. Errors: *InvalidError, ErrUnavailable.
func (s *Service) Suppress(ctx context.Context, b Barring) (store.Suppression, error) {
	to, err := s.named(b.Channel, b.To, b.App, b.Why)
	if err != nil {
		return store.Suppression{}, err
	}
	if b.For < 0 || b.For > MaxSuppression {
		return store.Suppression{}, invalid("for", "out_of_range", "A suppression lasts for a second at least and 366 days at most.")
	}
	id, err := uuid.NewV7()
	if err != nil {
		return store.Suppression{}, err
	}
	lasts := b.For
	if lasts == 0 {
		lasts = s.lasts()
	}
	row, _, err := s.Log.Suppress(ctx, store.Suppression{
		ID: id, App: b.App, Channel: to.Channel(), Address: to.Hash(s.IndexKey), Recipient: s.hash(to), To: to.Masked(),
		Cause: store.Manual, Detail: b.Why, By: b.By,
	}, lasts, s.on(b.Act, to, b.App, b.Why))
	return row, s.unavailable(err)
}

// lasts is for how long a suppression holds that names no time of its own.
func (s *Service) lasts() time.Duration {
	if d := s.Terms().SuppressFor; d > 0 {
		return d
	}
	return DefaultSuppression
}

// Lifting is an administrator's wish that a recipient gets mail again.
type Lifting struct {
	Channel, To string
	Address     recipient.Hash // instead of To: as a list of suppressions has it
	App         string         // only what is of this app alone; empty: all
	Why         string
	By          string
	Act         *store.AuditEntry // as in Barring
}

// Lift ends what is suppressed for a recipient now, and returns it. Errors: *InvalidError, ErrUnavailable.
func (s *Service) Lift(ctx context.Context, l Lifting) ([]store.Suppression, error) {
	lifting := store.LiftRequest{Channel: recipient.Channel(l.Channel), Address: l.Address, App: l.App, By: l.By, Why: l.Why}
	if l.Address == (recipient.Hash{}) {
		to, err := s.named(l.Channel, l.To, l.App, l.Why)
		if err != nil {
			return nil, err
		}
		lifting.Channel, lifting.Address = to.Channel(), to.Hash(s.IndexKey)
		l.Act = s.on(l.Act, to, l.App, l.Why)
	} else if err := checkWhy(l.Why, ""); err != nil {
		return nil, err
	} else if l.Act != nil {
		l.Act.App, l.Act.Channel, l.Act.Reason = l.App, lifting.Channel, l.Why
	}
	list, err := s.Log.Lift(ctx, lifting, l.Act)
	return list, s.unavailable(err)
}

// on says in an act on whom it is and why.
func (s *Service) on(act *store.AuditEntry, to recipient.Recipient, app, why string) *store.AuditEntry {
	if act == nil {
		return nil
	}
	a := *act
	a.App, a.Channel, a.Recipient, a.To, a.Reason = app, to.Channel(), s.hash(to), to.Masked(), why
	return &a
}

// named reads what both wishes name.
func (s *Service) named(channel, address, app, why string) (recipient.Recipient, error) {
	to, err := parseRecipient(channel, address)
	if err != nil {
		return to, err
	}
	if _, known := s.Terms().Titles[app]; app != "" && !known {
		return to, invalid("app", "unknown", "There is no such app.")
	}
	return to, checkWhy(why, to.Address())
}

// checkWhy asks of a reason what is asked of every administrator's: the act that it goes into is kept for good.
func checkWhy(why, to string) error {
	switch {
	case why == "":
		return invalid("reason", "required", "Say why; the record keeps it.")
	case !plain(why, maxWhy):
		return invalid("reason", "invalid", "This has at most 200 characters, and no control character among them.")
	}
	return CheckReason(why, to)
}

// unavailable is an error of the log as callers hear it.
func (s *Service) unavailable(err error) error {
	if err == nil {
		return nil
	}
	s.Logger.Error("the log did not answer", "error", err)
	return ErrUnavailable
}
