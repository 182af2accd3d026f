package demo

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/recipient"
	"sendcode/internal/store"
	"sendcode/internal/support"
)

func (w *week) randomSeconds(from, to int) time.Duration {
	return time.Duration(from+w.rng.IntN(to-from)) * time.Second
}

// signIn returns a step: a person asks for a code, and mostly enters it.
func (w *week) signIn(who person, purpose string) weekStep {
	mistypes, wait, arrives := who.clumsy && w.rng.IntN(2) == 0, w.randomSeconds(9, 110), w.rng.IntN(30) > 0
	return func(ctx context.Context) error {
		answer, err := w.requestCode(ctx, who, purpose, "")
		if err != nil || !answer.Admitted {
			return err
		}
		id := answer.View.ID
		if who.Channel == recipient.SMS {
			w.scheduleAfter(w.randomSeconds(2, 9), w.reportReceipt(answer.View.Send.ID, arrives))
		}
		code := w.MailServer.lastCode(who.To)
		if who.neverEnters || code == "" || !arrives {
			return nil
		}
		if mistypes {
			w.scheduleAfter(wait/2, w.enterCode(who, id, mistype(code)))
		}
		w.scheduleAfter(wait, w.enterCode(who, id, code))
		return nil
	}
}

// reportReceipt returns a step: the carrier reports how a text message ended.
func (w *week) reportReceipt(send string, arrives bool) weekStep {
	status := map[bool]store.Status{true: store.Delivered, false: store.Undelivered}[arrives]
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

// People with a scene of their own. The last one asks an administrator for no more mail.
var (
	impatientPerson  = Recipient{recipient.Email, "theo@post.example", "en"}
	guessedPerson    = Recipient{recipient.Email, "nina@inbox.example", "en"}
	suppressedPerson = Recipient{recipient.Email, "ines@campus.example", "es"}
)

// scheduleImpatient adds the requests of one person, one after the other for ten minutes.
func (w *week) scheduleImpatient(from time.Time) {
	who := newVisitor(impatientPerson, "shop", randomIP(w.rng))
	for n := range 50 {
		w.schedule(from.Add(time.Duration(n)*12*time.Second), w.signIn(who, "login"))
	}
}

// scheduleGuesser adds a person who guesses codes for another person's address, until the lockout.
func (w *week) scheduleGuesser(from time.Time) {
	who := newVisitor(guessedPerson, "bank", attackerIP)
	for i := range 6 {
		w.schedule(from.Add(time.Duration(i)*11*time.Minute), func(ctx context.Context) error {
			answer, err := w.requestCode(ctx, who, "login", "")
			for n := 0; n < 5 && err == nil && answer.Admitted; n++ {
				w.scheduleAfter(time.Duration(3+4*n)*time.Second, w.enterCode(who, answer.View.ID, "000000"))
			}
			return err
		})
	}
}

// scheduleAttack adds requests from one IP address, each for a code to another invented mailbox.
func (w *week) scheduleAttack(from time.Time) {
	for i := range 170 {
		to := fmt.Sprintf("user%03d@%s", i, []string{noMailboxDomain, "mail.example"}[i%2])
		who := newVisitor(Recipient{recipient.Email, to, "en"}, "shop", attackerIP)
		who.neverEnters = true
		w.schedule(from.Add(time.Duration(i)*3*time.Second), w.signIn(who, "signup"))
	}
}

// scheduleSuppressed adds the three sign-ins of the person who asks for no more mail: before the
// administrator's action; after it; and one on a second address, for which the mail server breaks
// off.
func (w *week) scheduleSuppressed(from time.Time) {
	who := newVisitor(suppressedPerson, "shop", randomIP(w.rng))
	w.schedule(from, w.signIn(who, "login"))
	w.schedule(from.Add(45*time.Minute), w.signIn(who, "login"))
	who.To = "ines@inbox.example"
	w.schedule(from.Add(80*time.Minute), w.signIn(who, "login"))
}

// scheduleAdministrators adds administrators who help the impatient person and keep mail from an
// address that asked for it.
func (w *week) scheduleAdministrators() {
	w.scheduleAction(w.timeOn(2, 19*time.Hour), "quota.reset", "called support, ticket 4711",
		func(ctx context.Context, entry store.AuditEntry) error {
			person, err := w.Desk.ParseTarget("shop", string(impatientPerson.Channel), impatientPerson.To, "login", entry.Reason)
			if err != nil {
				return err
			}
			return w.Desk.ResetQuota(ctx, person, entry)
		})
	w.scheduleAction(w.timeOn(5, 9*time.Hour+30*time.Minute), "suppression.add", "asked for no more mail, ticket 4725",
		func(ctx context.Context, entry store.AuditEntry) error {
			_, err := w.Desk.Suppress(ctx,
				support.SuppressRequest{Channel: string(suppressedPerson.Channel), To: suppressedPerson.To, Reason: entry.Reason}, entry)
			return err
		})
}

// scheduleAction adds an action of an administrator, with its audit entry.
func (w *week) scheduleAction(at time.Time, what, reason string,
	do func(ctx context.Context, entry store.AuditEntry) error) {
	w.schedule(at, func(ctx context.Context) error {
		id, err := w.ids.New(w.Clock.Now())
		if err != nil {
			return err
		}
		return do(ctx, store.AuditEntry{
			ID: id, Who: "mei", Role: "operator", Network: "203.0.113.0/24", What: what, Reason: reason,
			Outcome: store.AuditDone,
		})
	})
}
