package page

import (
	"cmp"
	"time"

	"sendcode/internal/policy"
	"sendcode/internal/store"
	"sendcode/internal/verification"
	"sendcode/quota"
)

// enough returns the card that explains which rule refuses and until when.
func (l *look) enough(v verification.View) *card {
	worst, _ := l.answer.Quota.Blocking()
	heading, since := l.t.ruleExplanation(worst, v.To)
	k := l.newCard("enough", heading)
	k.Since, k.Rows, k.Instead = since, l.t.pips(l.answer.Quota), l.instead()
	k.Again = l.again("SendCode")
	k.Say += l.t["Stop"] + k.Again.Reason
	if left := v.ExpiresAt.Sub(v.Now); v.State == verification.Pending && left > 0 && !neverSent(v) {
		k.Last = new(at(left, l.t["LastCodeUntil"], l.t.fill("LastCodeElse", "d", l.t.durationDown(left))))
		k.Next = left.Milliseconds() + 1
	}
	return k
}

// neverSent reports whether the first message of a verification failed.
func neverSent(v verification.View) bool { return v.Send.Status == store.Failed && v.Send.Number <= 1 }

// spentHeadings are the headings for a spent rule, by the key of its time span (see spanOf).
var spentHeadings = map[string]string{
	"PerMinute": "EnoughMinute", "PerHour": "EnoughHour", "ThisHour": "EnoughHour", "PerDay": "EnoughDay", "Today": "EnoughDay",
	"ThisWeek": "EnoughWeek", "ThisMonth": "EnoughMonth",
}

// ruleExplanation returns the explanation of the rule that refuses longest, and when it ends.
func (t words) ruleExplanation(worst quota.State, to string) (heading string, since until) {
	lead := func(key string) (string, until) { return t[key], until{Else: t.fill(key+"Lead", "to", to)} }
	switch worst.Scope.Base() {
	case quota.Recipient, policy.Spellings:
		if worst.Name == verification.CarrierRule {
			return lead("EnoughCarrier")
		}
	case quota.Failures:
		return lead("EnoughFailures")
	case quota.App, quota.Purpose, quota.Global, policy.Everything:
		return lead("EnoughAll")
	default:
		return lead("EnoughNetwork")
	}
	heading = t[cmp.Or(spentHeadings[spanOf(worst.Rule)], "Enough")]
	if worst.Calendar() {
		return heading, until{Else: fill(t.count("SentWithin", worst.Used), "to", to, "when", t.ruleName(worst.Rule))}
	}
	age := worst.Window - worst.ResetAfter // the oldest counted send leaves when it is as old as the window
	return heading, at(-age,
		fill(t.count("SentSince", worst.Used), "to", to),
		fill(t.count("SentElse", worst.Used), "to", to, "d", t.durationUp(max(age, time.Second))))
}

// failed returns the card of a verification whose first message was not sent. It does not say why.
func (l *look) failed(v verification.View) *card {
	k := l.newCard("failed", l.t["NotDelivered"])
	k.Lead, k.Typo, k.Instead = l.t.html("NotDeliveredLead", "to", v.To), l.doubtSent(), l.instead()
	k.Note = &box{"note", l.t["DidNotCount"]}
	if l.answer.Quota.Allowed() {
		k.Note.Text = l.t["DidNotCountNow"]
	}
	k.Say += l.t["Stop"] + k.Note.Text
	k.Again = l.again("TryAgain")
	k.Again.Quiet = true
	l.endNote(k)
	return k
}

// endNote adds the message why no other code was sent.
func (l *look) endNote(k *card) {
	switch l.session.Note.Kind {
	case away:
		k.Note = &box{"bad", l.t["AwayCode"]}
	case tooMany:
		k.Note = &box{"bad", l.t["TooManyChecks"]}
		k.Say = k.Note.Text
	}
}

// ended returns the card of a code that is no longer valid.
func (l *look) ended(v verification.View) *card {
	key := map[verification.State]string{verification.MaxAttemptsReached: "TooManyTries", verification.Canceled: "Canceled"}[v.State]
	key = cmp.Or(key, "Expired")
	k := l.newCard("ended", l.t[key])
	lead := l.t.fill(key+"Lead", "d", l.t.durationUp(v.ExpiresAt.Sub(v.CreatedAt)))
	k.Lead = plain(lead+l.t["Separator"]) + l.t.html("GoesTo", "to", v.To)
	k.Rows, k.Instead, k.Again = l.t.pips(l.answer.Quota), l.instead(), l.again("NewCode")
	k.Say += l.t["Stop"] + k.Again.Reason
	l.endNote(k)
	return k
}

// away returns the card for an error of the service. With reading, the state could not be read and the card only offers to reload;
// else a post failed, and it can be repeated.
func (l *look) away(reading bool) *card {
	k := l.newCard("away", l.t["Away"])
	k.Lead, k.Away, k.Reload = l.t.html("AwayLead"), true, reading
	wait := awayWait
	if !reading {
		wait = l.session.Note.At.Add(awayWait).Sub(l.Now())
	}
	if l.session.To != "" {
		k.Kept = l.t.html("AwayKept", "to", l.session.shown())
	}
	l.wait(k, wait, awayWait)
	return k
}

// crowded returns the card shown after too many requests of a network. Like the card of a failure it only offers to reload.
func (l *look) crowded(wait time.Duration) *card {
	k := l.newCard("away", l.t["Crowded"])
	lead := l.t.fill("CrowdedLead", "d", l.t.durationUp(wait))
	k.Lead, k.Crowded, k.Reload = plain(lead), wait, true
	k.Say += l.t["Stop"] + lead
	l.wait(k, wait, wait)
	return k
}

// wait gives an away card its button.
func (l *look) wait(k *card, wait, whole time.Duration) {
	k.Again = l.button("TryAgain", wait, whole)
	k.Again.Spoken, k.Again.Reason = k.Again.Wait, k.Again.Now
}

func (l *look) approved(v verification.View) *card {
	k := l.newCard("approved", l.t["Approved"])
	k.Lead, k.GoOn, k.Back = l.t.html("ApprovedLead", "to", v.To), l.t["GoOn"], l.back(v.ID)
	if l.Title != "" {
		k.GoOn = l.t.fill("GoOnApp", "app", l.Title)
	}
	k.Say += l.t["Stop"] + k.GoOn
	return k
}
