package demo

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/store"
	"sendcode/internal/support"
)

func (w *week) randomSeconds(from, to int) time.Duration {
	return time.Duration(from)*time.Second + time.Duration(w.rng.Int64N(int64(to-from)*int64(time.Second)))
}

// signIn returns a step: a person asks for a code, perhaps asks again, and mostly enters it.
func (w *week) signIn(who person, purpose string) func(ctx context.Context) error {
	again, mistypes, wait := w.randomSeconds(8, 50), who.clumsy && w.rng.IntN(2) == 0, w.randomSeconds(9, 110)
	arrives := w.rng.IntN(30) > 0
	return func(ctx context.Context) error {
		answer, err := w.ask(ctx, who, purpose, "")
		if err != nil || !answer.Admitted {
			return err
		}
		id := answer.View.ID
		if who.channel == "sms" {
			w.scheduleAfter(w.randomSeconds(2, 9), w.reportReceipt(answer.View.Send.ID, arrives))
		}
		if who.hurried {
			w.scheduleAfter(again, func(ctx context.Context) error {
				_, err := w.ask(ctx, who, purpose, id)
				return err
			})
		}
		code := w.MailServer.lastCode(who.to)
		if who.neverEnters || code == "" || !arrives {
			return nil
		}
		if mistypes {
			w.scheduleAfter(wait/2, func(ctx context.Context) error { return w.check(ctx, who, id, mistype(code)) })
		}
		w.scheduleAfter(wait, func(ctx context.Context) error { return w.check(ctx, who, id, code) })
		return nil
	}
}

// reportReceipt returns a step: the carrier reports how a text message ended.
func (w *week) reportReceipt(send string, arrives bool) func(ctx context.Context) error {
	status := store.Delivered
	if !arrives {
		status = store.Undelivered
	}
	return func(ctx context.Context) error {
		id, err := uuid.Parse(send)
		if err == nil {
			_, err = w.Receipts.RecordReceipt(ctx, id, status)
		}
		return err
	}
}

// mistype returns a code with its last character mistyped.
func mistype(code string) string {
	last := byte('7')
	if code[len(code)-1] == last {
		last = '1'
	}
	return code[:len(code)-1] + string(last)
}

// scheduleImpatient adds the requests of one person, every few seconds for ten minutes.
func (w *week) scheduleImpatient(from time.Time) {
	who := person{channel: "email", to: "theo@post.example", locale: "en", app: "shop", ip: randomIP(w.rng), browser: true}
	for at := from; at.Before(from.Add(10 * time.Minute)); at = at.Add(w.randomSeconds(4, 20)) {
		w.schedule(at, func(ctx context.Context) error {
			_, err := w.ask(ctx, who, "login", "")
			return err
		})
	}
}

// scheduleGuesser adds a person who tries codes of another person's address until no more are looked at.
func (w *week) scheduleGuesser(from time.Time) {
	who := person{channel: "email", to: "nina@inbox.example", locale: "en", app: "bank", ip: attacker, browser: true}
	for i := range 6 {
		w.schedule(from.Add(time.Duration(i)*11*time.Minute), func(ctx context.Context) error {
			answer, err := w.ask(ctx, who, "login", "")
			if err != nil || !answer.Admitted {
				return err
			}
			for n := range 5 {
				id := answer.View.ID
				w.scheduleAfter(time.Duration(3+4*n)*time.Second, func(ctx context.Context) error { return w.check(ctx, who, id, "000000") })
			}
			return nil
		})
	}
}

// scheduleAttack adds one IP address that asks for a code for one invented mailbox after the other.
func (w *week) scheduleAttack(from time.Time) {
	for i := range 170 {
		to := fmt.Sprintf("user%03d@%s", i, w.inventedDomain())
		who := person{channel: "email", to: to, locale: "en", app: "shop", ip: attacker, browser: true}
		w.schedule(from.Add(time.Duration(i)*3*time.Second), func(ctx context.Context) error {
			_, err := w.ask(ctx, who, "signup", "")
			return err
		})
	}
}

func (w *week) inventedDomain() string {
	if w.rng.IntN(3) == 0 {
		return noMailbox
	}
	return "mail.example"
}

// noMoreMail is the address of a person who asks an administrator for no more mail.
const noMoreMail = "ines@campus.example"

// scheduleSuppressed adds the three sign-ins of that person: before the administrator's action; after it; and one on a second address,
// for which the mail server breaks off.
func (w *week) scheduleSuppressed(from time.Time) {
	who := person{channel: "email", to: noMoreMail, locale: "es", app: "shop", ip: randomIP(w.rng), browser: true}
	w.schedule(from, w.signIn(who, "login"))
	w.schedule(from.Add(45*time.Minute), w.signIn(who, "login"))
	who.to = "ines@inbox.example"
	w.schedule(from.Add(80*time.Minute), w.signIn(who, "login"))
}

// scheduleAdministrators adds administrators who help the impatient person and keep mail from an address that asked for it.
func (w *week) scheduleAdministrators() {
	w.schedule(w.timeOn(2, 19*time.Hour), func(ctx context.Context) error {
		const reason = "called support, ticket 4711"
		person, err := w.Desk.ParsePerson("shop", "email", "theo@post.example", "login", reason)
		if err != nil {
			return err
		}
		entry, err := w.newAuditEntry("quota.reset", reason)
		if err != nil {
			return err
		}
		return w.Desk.ResetQuota(ctx, person, entry)
	})
	w.schedule(w.timeOn(5, 9*time.Hour+30*time.Minute), func(ctx context.Context) error {
		const why = "asked for no more mail, ticket 4725"
		entry, err := w.newAuditEntry("suppression.add", why)
		if err != nil {
			return err
		}
		_, err = w.Desk.Suppress(ctx, support.SuppressRequest{Channel: "email", To: noMoreMail, Reason: why}, entry)
		return err
	})
}

func (w *week) newAuditEntry(what, reason string) (store.AuditEntry, error) {
	id, err := w.ids.New(w.Clock.Now())
	return store.AuditEntry{
		ID: id, Who: "mei", Role: "operator", Network: "203.0.113.0/24", What: what, Reason: reason, Outcome: store.AuditDone,
	}, err
}
