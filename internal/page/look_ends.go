package page

import (
	"fmt"
	"hash/fnv"
	"strings"
	"time"

	"sendcode/internal/policy"
	"sendcode/internal/store"
	"sendcode/internal/verification"
	"sendcode/quota"
)

// enough returns the card that explains which rule refuses and until when.
func (l *look) enough(a verification.Answer) card {
	t := l.t
	worst, _ := a.Quota.Blocking()
	k := &enoughCard{Rows: t.pips(a.Quota)}
	k.Heading, k.Lead = t.ruleExplanation(worst, a.View.To)
	k.Again = l.again(&k.frame, t.SendCode, a.Quota)
	k.Say = k.Heading + t.Stop + k.Again.Reason
	if left := a.View.ExpiresAt.Sub(a.View.Now); a.View.State == verification.Pending && left > 0 && !neverSent(a.View) {
		last := at(left, t.LastCodeUntil, fill(t.LastCodeElse, "d", t.durationDown(left)))
		k.Last = &last
		k.Next = left.Milliseconds() + 1
	}
	k.Instead = l.instead(&k.frame)
	k.Rev = rev(k.kind(), worst.Name, used(a.Quota), k.Last != nil, k.Instead.rev())
	return k
}

// neverSent reports whether the first message of a verification failed.
func neverSent(v verification.View) bool { return v.Send.Status == store.Failed && v.Send.Number <= 1 }

// ruleExplanation returns the explanation of the rule that refuses longest, and when it ends.
func (t *cardTexts) ruleExplanation(worst quota.State, to string) (string, until) {
	switch worst.Scope.Base() {
	case quota.Recipient, policy.Spellings:
		if worst.Name == verification.CarrierRule {
			return t.EnoughCarrier, until{Else: fill(t.EnoughCarrierLead, "to", to)}
		}
	case quota.Failures:
		return t.EnoughFailures, until{Else: fill(t.EnoughFailuresLead, "to", to)}
	case quota.App, quota.Purpose, quota.Global, policy.Everything:
		return t.EnoughAll, until{Else: fill(t.EnoughAllLead, "to", to)}
	default:
		return t.EnoughNetwork, until{Else: fill(t.EnoughNetworkLead, "to", to)}
	}
	heading := t.Enough
	switch t.ruleName(worst.Rule) {
	case t.PerMinute:
		heading = t.EnoughMinute
	case t.PerHour, t.ThisHour:
		heading = t.EnoughHour
	case t.PerDay, t.Today:
		heading = t.EnoughDay
	case t.ThisWeek:
		heading = t.EnoughWeek
	case t.ThisMonth:
		heading = t.EnoughMonth
	}
	if worst.Calendar() {
		return heading, until{Else: fill(t.count(t.SentWithin, worst.Used), "to", to, "when", t.ruleName(worst.Rule))}
	}
	since := worst.Window - worst.ResetAfter // the oldest counted send leaves when it is as old as the window
	return heading, at(-since,
		fill(t.count(t.SentSince, worst.Used), "to", to),
		fill(t.count(t.SentElse, worst.Used), "to", to, "d", t.durationUp(max(since, time.Second))))
}

// failed returns the card of a verification whose first message was not sent. It does not say why (SEC-19).
func (l *look) failed(a verification.Answer) card {
	t := l.t
	k := &failedCard{Lead: emphasise(t.NotDeliveredLead, "to", a.View.To), Typo: l.doubt(typed{on: l.session.channel(), text: l.session.To})}
	k.Heading = t.NotDelivered
	k.Note = &box{"note", t.DidNotCount}
	if a.Quota.Allowed() {
		k.Note.Text = t.DidNotCountNow
	}
	k.Say = k.Heading + t.Stop + k.Note.Text
	k.Again = l.again(&k.frame, t.TryAgain, a.Quota)
	k.Again.Quiet = true
	k.Instead = l.instead(&k.frame)
	k.Rev = rev(k.kind(), a.View.Send.ID, a.Quota.Allowed(), l.session.Note.Kind == tooMany, k.Instead.rev())
	l.endNote(&k.frame)
	return k
}

// endNote adds the message why no other code was sent.
func (l *look) endNote(f *frame) {
	switch l.session.Note.Kind {
	case away:
		f.Note = &box{"bad", l.t.AwayCode}
	case tooMany:
		f.Note = &box{"bad", l.t.TooManyChecks}
		f.Say = f.Note.Text
	}
}

// ended returns the card of a code that is no longer valid.
func (l *look) ended(a verification.Answer) card {
	t, v := l.t, a.View
	k := &endedCard{To: emphasise(t.GoesTo, "to", v.To), Rows: t.pips(a.Quota)}
	switch v.State {
	case verification.MaxAttemptsReached:
		k.Heading, k.Lead = t.TooManyTries, t.TooManyTriesLead
	case verification.Canceled:
		k.Heading, k.Lead = t.Canceled, t.CanceledLead
	default:
		k.Heading, k.Lead = t.Expired, fill(t.ExpiredLead, "d", t.durationUp(v.ExpiresAt.Sub(v.CreatedAt)))
	}
	k.Again = l.again(&k.frame, t.NewCode, a.Quota)
	k.Say = k.Heading + t.Stop + k.Again.Reason
	l.endNote(&k.frame)
	k.Instead = l.instead(&k.frame)
	k.Rev = rev(k.kind(), v.State, used(a.Quota), l.session.Note, k.Instead.rev())
	return k
}

// away returns the card for an error of the service. With reading, the state could not be read and the card only offers to reload;
// else a post failed, and it can be repeated.
func (l *look) away(reading bool) card {
	t := l.t
	k := &awayCard{Lead: t.AwayLead, Reload: reading}
	k.Heading = t.Away
	k.Say = k.Heading
	k.Away = true
	wait := awayWait
	if !reading {
		wait = l.session.Note.At.Add(awayWait).Sub(l.Now())
	}
	if l.session.To != "" {
		k.Kept = emphasise(t.AwayKept, "to", l.session.shown())
	}
	k.Again = l.button(&k.frame, t.TryAgain, wait, awayWait)
	k.Again.Spoken, k.Again.Reason = k.Again.Wait, k.Again.Now
	k.Rev = rev(k.kind(), reading, wait <= 0)
	return k
}

func (l *look) approved(v verification.View) card {
	t := l.t
	k := &approvedCard{Lead: emphasise(t.ApprovedLead, "to", v.To), GoOn: t.GoOn}
	if l.Title != "" {
		k.GoOn = fill(t.GoOnApp, "app", l.Title)
	}
	k.Heading = t.Approved
	k.Say = strings.Join([]string{t.Approved, k.GoOn}, t.Stop)
	k.Back = l.back(v.ID)
	k.Rev = rev(k.kind(), v.ID)
	return k
}

// used returns how many events of each rule are used, for the card's revision.
func used(d quota.Decision) []int {
	var n []int
	for _, s := range d.Rules {
		n = append(n, s.Used)
	}
	return n
}

// rev hashes what a card shows; the script compares it to see whether a card is new. It is not secret.
func rev(parts ...any) string {
	h := fnv.New64a()
	fmt.Fprint(h, parts...)
	return fmt.Sprintf("%x", h.Sum64())
}
