package week

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/base/recipient"
	"sendcode/internal/store"
	"sendcode/internal/store/sqldb"
	"sendcode/internal/verify/support"
	"sendcode/internal/verify/verification"
	"sendcode/internal/verify/verification/verificationtest"
)

const length = 7 * 24 * time.Hour

// configYAML is the settings file for the simulation, and for the service that shows the week.
const configYAML = `apps:
  - {name: shop, title: The Shop, brand: {accent: "#0f766e"}}
  - {name: bank, title: Example Bank}
purposes:
  login:
  signup:
  payment: {ttl: 5m}
page: {app: shop}
`

const (
	peopleCount = 420
	signInCount = 900
)

// week plans and runs the simulation.
type week struct {
	*verificationtest.Process
	receipts   *sqldb.DB
	clock      *simulatedClock // begins at the beginning of the week
	mailServer *mailServer

	rng   *rand.Rand
	begin time.Time
	steps []scheduledStep // sorted by time; steps of the same time are in the order in which they were added
	ids   store.IDGenerator
}

// weekStep is one event of the week.
type weekStep func(ctx context.Context) error

type scheduledStep struct {
	at time.Time
	do weekStep
}

// schedule adds a step, unless the week has ended by then.
func (w *week) schedule(at time.Time, do weekStep) {
	if at.Before(w.begin.Add(length)) {
		w.steps = append(w.steps, scheduledStep{at, do})
		slices.SortStableFunc(w.steps, func(a, b scheduledStep) int { return a.at.Compare(b.at) })
	}
}

// scheduleAfter schedules a step this many seconds after the current step.
func (w *week) scheduleAfter(seconds int, do weekStep) {
	w.schedule(w.clock.Now().Add(time.Duration(seconds)*time.Second), do)
}

func (w *week) oneIn(n int) bool { return w.rng.IntN(n) == 0 }

func pick[T any](w *week, of []T) T { return of[w.rng.IntN(len(of))] }

// person is a recipient, with the app and the client that request their codes. Mail addresses are
// in domains that are reserved for examples (RFC 2606).
type person struct {
	verification.Caller
	channel       recipient.Channel
	to, locale    string
	entersNothing bool
}

// newVisitor returns a person with a browser on a page of an app.
func newVisitor(to, app string, ip netip.Addr) person {
	return person{
		Caller: verification.Caller{App: app, Kind: verification.Browser, IP: ip}, channel: recipient.Email, to: to,
		locale: "en",
	}
}

var (
	personNames  = strings.Fields("ana ben chen dora emil fatima hanna jonas maria.diaz olga.novak rosa.berg tomas wei zoe")
	mailDomains  = strings.Fields("mail mail mail mail mail mail mail mail post post post post inbox inbox campus gone broken")
	phoneFormats = []string{"+8613812%06d", "+4915123%06d", "+336123%05d", "+447400%06d", "+1201555%04d"}
	attackerIP   = netip.AddrFrom4([4]byte{192, 0, 2, 77})
)

// newPerson makes up the n-th person. Three in ten get text messages, the others mail.
func (w *week) newPerson(n int) person {
	p := newVisitor(fmt.Sprintf("%s.%d@%s.example", pick(w, personNames), n, pick(w, mailDomains)), "shop",
		netip.AddrFrom4([4]byte{198, 51, 100, byte(1 + w.rng.IntN(254))})) // the network is reserved for documentation (RFC 5737)
	if w.rng.IntN(10) < 3 {
		p.channel, p.to = recipient.SMS, fmt.Sprintf(pick(w, phoneFormats), n)
	}
	if w.oneIn(4) {
		p.App = "bank"
	}
	if w.oneIn(2) {
		p.Kind = verification.BackEnd
		if p.App == "bank" { // the bank knows each of its people
			p.Trust = verification.SaidKnown
		}
	}
	p.locale, p.entersNothing = pick(w, []string{"en", "en", "zh-CN", "de"}), w.oneIn(14)
	return p
}

// plan has separate steps for these people. suppressedPerson asked for no more mail, so an
// administrator adds a suppression.
const (
	impatientPerson  = "theo@post.example"
	guessedPerson    = "nina@inbox.example"
	suppressedPerson = "ines@campus.example"
)

// plan schedules every step that does not follow from an earlier step.
func (w *week) plan() {
	var people []person
	for n := range peopleCount {
		people = append(people, w.newPerson(n))
	}
	for range signInCount {
		at := w.begin.Add(time.Duration(w.rng.Int64N(int64(length))))
		if at.Hour() < 7 && !w.oneIn(5) { // few people are awake then
			at = at.Add(12 * time.Hour)
		}
		w.schedule(at, w.signInStep(pick(w, people), pick(w, []string{"login", "login", "signup", "payment"})))
	}
	day := func(n, hour int) time.Time {
		return w.begin.Truncate(24*time.Hour).AddDate(0, 0, n).Add(time.Duration(hour) * time.Hour)
	}
	for n := range 50 { // one person requests codes again and again for ten minutes
		w.schedule(day(2, 18).Add(time.Duration(n)*12*time.Second),
			w.signInStep(newVisitor(impatientPerson, "shop", attackerIP.Next()), "login"))
	}
	for n := range 6 { // an attacker guesses codes of another person's address, until the lockout
		w.schedule(day(4, 20).Add(time.Duration(n)*11*time.Minute), w.guess)
	}
	for n := range 170 { // one network requests codes for invented mailboxes
		p := newVisitor(fmt.Sprintf("user%03d@%s", n, []string{noMailboxDomain, "mail.example"}[n%2]), "shop", attackerIP)
		p.entersNothing = true
		w.schedule(day(6, 2).Add(time.Duration(n)*3*time.Second), w.signInStep(p, "signup"))
	}
	w.scheduleAction(day(2, 19), "quota.reset", "called support, ticket 4711", func(ctx context.Context, entry store.AuditEntry) error {
		person, err := w.Administration.ParseTarget("shop", string(recipient.Email), impatientPerson, "login", entry.Reason)
		if err != nil {
			return err
		}
		return w.Administration.ResetQuota(ctx, person, entry)
	})
	w.scheduleAction(day(5, 9), "suppression.add", "asked for no more mail, ticket 4725",
		func(ctx context.Context, entry store.AuditEntry) error {
			_, err := w.Administration.Suppress(ctx,
				support.SuppressRequest{Channel: string(recipient.Email), To: suppressedPerson, Reason: entry.Reason}, entry)
			return err
		})
	w.schedule(day(5, 10), w.signInStep(newVisitor(suppressedPerson, "shop", attackerIP.Next()), "login"))
}

// signInStep returns a step in which a person requests a code, and usually enters it.
func (w *week) signInStep(visitor person, purpose string) weekStep {
	return func(ctx context.Context) error {
		answer, err := w.requestCode(ctx, visitor, purpose)
		if err != nil || !answer.Admitted {
			return err
		}
		status := store.Delivered
		if visitor.channel == recipient.SMS {
			if w.oneIn(30) {
				status = store.Undelivered
			}
			w.scheduleAfter(4, func(ctx context.Context) error {
				id, err := uuid.Parse(answer.View.Send.ID)
				if err == nil {
					_, err = w.receipts.RecordReceipt(ctx, id, status)
				}
				return err
			})
		}
		if code := w.mailServer.lastCode(visitor.to); code != "" && !visitor.entersNothing && status == store.Delivered {
			w.scheduleAfter(9+w.rng.IntN(100), w.enterCodeStep(visitor, answer.View.ID, code))
		}
		return nil
	}
}

// guess is a step in which an attacker requests a code for guessedPerson, and guesses the code five
// times.
func (w *week) guess(ctx context.Context) error {
	visitor := newVisitor(guessedPerson, "bank", attackerIP)
	answer, err := w.requestCode(ctx, visitor, "login")
	for n := 0; n < 5 && err == nil && answer.Admitted; n++ {
		w.scheduleAfter(3+4*n, w.enterCodeStep(visitor, answer.View.ID, "000000"))
	}
	return err
}

// scheduleAction schedules an action of an administrator, with its audit entry.
func (w *week) scheduleAction(at time.Time, what, reason string,
	do func(ctx context.Context, entry store.AuditEntry) error,
) {
	w.schedule(at, func(ctx context.Context) error {
		id, err := w.ids.New(w.clock.Now())
		if err != nil {
			return err
		}
		return do(ctx, store.AuditEntry{
			ID: id, Who: "mei", Role: "operator", Network: "203.0.113.0/24", What: what, Reason: reason,
			Outcome: store.AuditDone,
		})
	})
}

func (w *week) runSteps(ctx context.Context) error {
	flushed := w.begin
	for len(w.steps) > 0 && ctx.Err() == nil {
		next := w.steps[0]
		w.steps = w.steps[1:]
		w.clock.advanceTo(next.at)
		if err := next.do(ctx); err != nil {
			return fmt.Errorf("demo: at %s: %w", next.at.Format(time.DateTime), err)
		}
		if w.clock.Now().Sub(flushed) > time.Minute {
			w.Refusals.Flush(ctx)
			flushed = w.clock.Now()
		}
	}
	w.clock.advanceTo(w.begin.Add(length))
	w.Refusals.Flush(ctx)
	return ctx.Err()
}

func (w *week) requestCode(ctx context.Context, visitor person, purpose string) (verification.Answer, error) {
	answer, err := w.Codes.Send(ctx, verification.Request{
		Caller: visitor.Caller, Channel: string(visitor.channel), To: visitor.to,
		Purpose: purpose, Locale: visitor.locale,
	})
	return answer, ignoreLockout(err)
}

func (w *week) enterCodeStep(visitor person, id, code string) weekStep {
	return func(ctx context.Context) error {
		_, err := w.Codes.Check(ctx, visitor.Caller, id, code)
		return ignoreLockout(err)
	}
}

// ignoreLockout returns err, or nil if err is a lockout, which is expected.
func ignoreLockout(err error) error {
	if _, locked := errors.AsType[*verification.FailedCheckLimitError](err); locked {
		return nil
	}
	return err
}
