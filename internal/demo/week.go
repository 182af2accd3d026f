// Package demo plays a plausible week: people who ask for codes and enter them, mistype, ask too
// often, have no mailbox or guess, a slow mail server, an attack from one network, and what
// administrators do about it. It is what `sendcode serve --demo` shows.
//
// Everything goes the way of real requests: package app gives it the use cases, the outbox, both
// gates and a database in SQLite, all on the week's clock ([NewSimulatedClock]). Only mail servers
// and carriers are played ([MailServer], [Carrier]). The plan follows from a seed, so a week is the
// same each time.
package demo

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/store"
	"sendcode/internal/support"
	"sendcode/internal/verification"
)

// Dependencies are the services on which PlayWeek plays a week.
type Dependencies struct {
	Codes      *verification.Service
	Desk       *support.Desk
	Receipts   receiptRecorder
	Flush      func(ctx context.Context) // writes the refusals that wait in memory
	Clock      *simulatedClock           // stands where the week begins
	MailServer *MailServer
}

// receiptRecorder records the receipts of text messages. Implementation: sqldb.DB.
type receiptRecorder interface {
	RecordReceipt(ctx context.Context, id uuid.UUID, status store.Status, tell ...store.NewEvent) (bool, error)
}

// WeekLength is the time that is played.
const WeekLength = 7 * 24 * time.Hour

// ConfigYAML is the file of settings that the week is played with: apps and purposes by name.
const ConfigYAML = `apps:
  - {name: shop, title: The Shop, brand: {accent: "#0f766e"}}
  - {name: bank, title: Example Bank}
purposes:
  login:
  signup:
  payment: {ttl: 5m}
page: {app: shop}
`

// PlayWeek plays the week that begins at the clock's time.
func PlayWeek(ctx context.Context, p Dependencies) error {
	w := &week{Dependencies: p, rng: newRand(2), begin: p.Clock.Now()}
	w.people = newPeople(w.rng, peopleCount)
	w.plan()
	return w.play(ctx)
}

const (
	peopleCount = 420
	signInCount = 900
)

// week is the state of one PlayWeek.
type week struct {
	Dependencies
	rng    *rand.Rand
	begin  time.Time
	people []person
	steps  []scheduledStep // by time; at the same time in the order in which they were added
	ids    store.IDGenerator
}

// weekStep is one event of the week.
type weekStep func(ctx context.Context) error

type scheduledStep struct {
	at time.Time
	do weekStep
}

// schedule adds a step at an instant. It leaves out a step after the end of the week.
func (w *week) schedule(at time.Time, do weekStep) {
	if at.Before(w.begin.Add(WeekLength)) {
		w.steps = append(w.steps, scheduledStep{at, do})
		slices.SortStableFunc(w.steps, func(a, b scheduledStep) int { return a.at.Compare(b.at) })
	}
}

// scheduleAfter schedules a step so long after the present one.
func (w *week) scheduleAfter(d time.Duration, do weekStep) { w.schedule(w.Clock.Now().Add(d), do) }

// timeOn returns the instant at a time of day on day 0, 1, … of the week.
func (w *week) timeOn(day int, clock time.Duration) time.Time {
	midnight := w.begin.Truncate(24 * time.Hour)
	return midnight.AddDate(0, 0, day).Add(clock)
}

// plan schedules every step that does not follow from an earlier one.
func (w *week) plan() {
	for range signInCount {
		who := w.people[w.rng.IntN(len(w.people))]
		w.schedule(w.randomTime(), w.signIn(who, w.randomPurpose(who)))
	}
	w.schedulePace(w.timeOn(3, 14*time.Hour), 50*time.Minute, slowPace)
	w.schedulePace(w.timeOn(5, 10*time.Hour), time.Hour, breakOffPace)
	w.scheduleImpatient(w.timeOn(2, 18*time.Hour+10*time.Minute))
	w.scheduleGuesser(w.timeOn(4, 20*time.Hour))
	w.scheduleAttack(w.timeOn(6, 2*time.Hour))
	w.scheduleAdministrators()
	w.scheduleSuppressed(w.timeOn(5, 9*time.Hour))
}

// randomTime returns an instant of the week: few are at night, most in the evening.
func (w *week) randomTime() time.Time {
	weights := [24]int{3, 2, 1, 1, 1, 2, 5, 9, 13, 15, 15, 14, 15, 14, 13, 13, 14, 16, 19, 22, 23, 19, 12, 6}
	for {
		at := w.begin.Add(time.Duration(w.rng.Int64N(int64(WeekLength))))
		if w.rng.IntN(24) < weights[at.Hour()] {
			return at
		}
	}
}

func (w *week) randomPurpose(who person) string {
	if n := w.rng.IntN(10); n < 6 {
		return "login"
	} else if n < 8 || who.App == "shop" {
		return "signup"
	}
	return "payment"
}

func (w *week) schedulePace(from time.Time, lasts time.Duration, now serverPace) {
	w.schedule(from, func(context.Context) error { w.MailServer.setPace(now); return nil })
	w.schedule(from.Add(lasts), func(context.Context) error { w.MailServer.setPace(usualPace); return nil })
}

func (w *week) play(ctx context.Context) error {
	flushed := w.begin
	for len(w.steps) > 0 && ctx.Err() == nil {
		next := w.steps[0]
		w.steps = w.steps[1:]
		w.Clock.advanceTo(next.at)
		if err := next.do(ctx); err != nil {
			return fmt.Errorf("demo: at %s: %w", next.at.Format(time.DateTime), err)
		}
		if w.Clock.Now().Sub(flushed) > time.Minute {
			w.Flush(ctx)
			flushed = w.Clock.Now()
		}
	}
	w.Clock.advanceTo(w.begin.Add(WeekLength))
	w.Flush(ctx)
	return ctx.Err()
}

// requestCode asks for a code.
func (w *week) requestCode(ctx context.Context, who person, purpose, resend string) (verification.Answer, error) {
	answer, err := w.Codes.Send(ctx, verification.Request{
		Caller: who.Caller, Channel: string(who.Channel), To: who.To, Purpose: purpose, Locale: who.Locale,
		Resend: resend,
	})
	return answer, ignoreLockout(err)
}

// enterCode returns a step: a person types a code.
func (w *week) enterCode(who person, id, typed string) weekStep {
	return func(ctx context.Context) error {
		_, err := w.Codes.Check(ctx, who.Caller, id, typed)
		return ignoreLockout(err)
	}
}

// ignoreLockout returns err, but nil for a lockout, which is a refusal and no failure of the week.
func ignoreLockout(err error) error {
	if _, locked := errors.AsType[*verification.TooManyChecksError](err); locked {
		return nil
	}
	return err
}
