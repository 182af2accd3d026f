package page

import (
	"cmp"
	"time"

	"sendcode/internal/codes/policy"
	"sendcode/internal/store"
	"sendcode/internal/verify/verification"
	"sendcode/quota"
)

// refusedSendCard returns the card that says which of the rules refuses the next send, and until when.
func (l *visit) refusedSendCard(v verification.View, rules []quota.State) *card {
	heading, detail := l.t.ruleExplanation(l.blocking, v.To)
	k := l.newCard("enough", heading)
	k.Since, k.Instead = detail, l.otherChannelLink()
	k.Rows, k.Again = l.t.quotaPips(rules), l.resendButton("SendCode")
	k.Say += l.t["Stop"] + k.Again.Reason
	if v.State == verification.Pending && !onlySendFailed(v) {
		l.addLastCode(k, v)
	}
	return k
}

// addLastCode adds the sentence that the last code still works, with a link to its field, to a card
// without the field.
func (l *visit) addLastCode(k *card, v verification.View) {
	if left := v.ExpiresAt.Sub(v.Now); left > 0 {
		k.Last = new(l.t.validity("LastCodeUntil", "LastCodeElse", left))
		k.Next = left.Milliseconds() + 1
	}
}

// onlySendFailed reports whether a verification has had one message at most, and it failed.
func onlySendFailed(v verification.View) bool {
	return v.Send.Status == store.Failed && v.Send.Number <= 1
}

// spentRuleHeadings are the headings for a spent rule, by the key of its time span (see
// timeSpanTextKey).
var spentRuleHeadings = map[string]string{
	"PerMinute": "EnoughMinute", "PerHour": "EnoughHour", "ThisHour": "EnoughHour", "PerDay": "EnoughDay",
	"Today":    "EnoughDay",
	"ThisWeek": "EnoughWeek", "ThisMonth": "EnoughMonth",
}

// ruleExplanation returns the heading and the sentence about blocking, the rule with the longest wait.
func (t words) ruleExplanation(blocking quota.State, to string) (heading string, detail relativeTime) {
	lead := func(key string) (string, relativeTime) {
		return t[key], relativeTime{Else: t.fill(key+"Lead", "to", to)}
	}
	switch blocking.Scope {
	case quota.Recipient, policy.SpellingsScope:
		if blocking.Name == verification.CarrierRuleName {
			return lead("EnoughCarrier")
		}
	case quota.Failures:
		return lead("EnoughFailures")
	case quota.Backoff:
		return lead("EnoughBackoff")
	case quota.App, quota.Purpose, quota.Global, policy.BreakerScope:
		return lead("EnoughAll")
	default:
		return lead("EnoughNetwork")
	}
	heading = t[cmp.Or(spentRuleHeadings[timeSpanTextKey(blocking.Rule)], "Enough")]
	if blocking.Calendar() {
		return heading, relativeTime{Else: fill(t.plural("SentWithin", blocking.Used), "to", to, "when", t.ruleName(blocking.Rule))}
	}
	if blocking.Window >= verification.MinRoundedWindow { // its wait was rounded, so the time of the first send cannot be told
		return heading, relativeTime{Else: fill(t.plural("AtMost", blocking.Limit), "to", to, "when", t.ruleName(blocking.Rule))}
	}
	age := blocking.Window - blocking.ResetAfter // the oldest counted send leaves when it is as old as the window
	return heading, relativeTimeIn(-age,
		fill(t.plural("SentSince", blocking.Used), "to", to),
		fill(t.plural("SentElse", blocking.Used), "to", to, "d", t.durationRoundedUp(max(age, time.Second))))
}

// failedCard returns the card of a verification whose first message was refused at once, or came
// back. The card does not say why.
func (l *visit) failedCard(v verification.View) *card {
	k := l.newCard("failed", l.t["NotDelivered"])
	k.Lead, k.Typo, k.Instead = l.t.fillHTML("NotDeliveredLead", "to", v.To), l.doubtAboutSent(), l.otherChannelLink()
	switch {
	case v.Send.Status == store.Undelivered:
		k.Heading, k.Say, k.Lead = l.t["NotArrived"], l.t["NotArrived"], escapeHTML(l.t["NotArrivedLead"])
		l.addLastCode(k, v)
	case v.Send.Counts:
	case l.blocking.RetryAfter == 0:
		k.Note = &notice{"note", l.t["DidNotCountNow"]}
	default:
		k.Note = &notice{"note", l.t["DidNotCount"]}
	}
	if k.Note != nil {
		k.Say += l.t["Stop"] + k.Note.Text
	}
	k.Again = l.resendButton("TryAgain")
	k.Again.Quiet = true
	l.addNotSentNote(k)
	return k
}

// addNotSentNote adds the message that says why the last request sent no other code.
func (l *visit) addNotSentNote(k *card) {
	switch l.session.Note.Kind {
	case noteUnavailable:
		k.Note = &notice{"bad", l.unavailableText()}
	case noteTooManyChecks:
		k.Note = &notice{"bad", l.t["TooManyChecks"]}
		k.Say = k.Note.Text
	}
}

// unavailableText says on another card why the last request sent no code.
func (l *visit) unavailableText() string {
	switch l.session.Note.Reason {
	case humanCheckReason:
		return l.t["HumanNeeded"] + l.t["Stop"] + l.t["HumanNeededLead"]
	case slowReason:
		return l.t["SlowCode"]
	}
	return l.t["AwayCode"]
}

// endedCard returns the card of a code that is no longer valid.
func (l *visit) endedCard(v verification.View) *card {
	key := map[verification.State]string{
		verification.MaxAttemptsReached: "TooManyTries",
		verification.Canceled:           "Canceled",
	}[v.State]
	key = cmp.Or(key, "Expired")
	k := l.newCard("ended", l.t[key])
	lead := l.t.fill(key+"Lead", "d", l.t.durationRoundedUp(v.ExpiresAt.Sub(v.CreatedAt)))
	k.Lead = escapeHTML(lead+l.t["Separator"]) + l.t.fillHTML("GoesTo", "to", v.To)
	k.Instead, k.Again, k.Rows = l.otherChannelLink(), l.resendButton("NewCode"), l.t.quotaPips(l.answer.Quota.Rules)
	k.Say += l.t["Stop"] + k.Again.Reason
	l.addNotSentNote(k)
	return k
}

// unavailableCard returns the card for an error of the service. If the state could not be read,
// onlyReload is true and the button reloads the page. Else a post failed, and the button repeats
// it.
func (l *visit) unavailableCard(onlyReload bool) *card {
	k := l.newCard("away", l.t["Away"])
	k.Lead, k.Reload = l.t.fillHTML("AwayLead"), onlyReload
	why := map[string]string{humanCheckReason: "HumanNeeded", slowReason: "Slow"}[l.session.Note.Reason]
	if !onlyReload && why != "" {
		k.Heading, k.Say, k.Lead = l.t[why], l.t[why], l.t.fillHTML(why+"Lead")
	}
	wait := unavailableRetryWait
	if !onlyReload {
		wait = l.session.Note.Until.Sub(l.Now())
	}
	k.Away = max(wait, unavailableRetryWait)
	if l.session.To != "" {
		k.Kept = l.t.fillHTML("AwayKept", "to", l.session.displayedRecipient())
	}
	l.addRetryButton(k, wait, k.Away)
	return k
}

// noCookieCard returns the card for a browser that keeps no cookie.
func (l *visit) noCookieCard() *card {
	k := l.newCard("cookies", l.t["NoCookies"])
	lead := l.t["NoCookiesLead"]
	if l.view == viewFirstCode {
		lead = l.t["NoCookiesSentLead"]
	}
	if l.secure {
		lead += l.t["Separator"] + l.t["NoCookiesSecure"]
	}
	k.Lead = escapeHTML(lead)
	k.Say += l.t["Stop"] + lead
	return k
}

// tooManyRequestsCard returns the card for a network that made too many requests. Its button
// reloads the page.
func (l *visit) tooManyRequestsCard(wait time.Duration) *card {
	k := l.newCard("away", l.t["Crowded"])
	k.Lead, k.Crowded, k.Reload = l.t.fillHTML("CrowdedLead"), wait, true
	k.Say += l.t["Stop"] + l.t["CrowdedLead"]
	l.addRetryButton(k, wait, wait)
	return k
}

// addRetryButton adds the button that tries again. It counts down wait, the rest of whole.
func (l *visit) addRetryButton(k *card, wait, whole time.Duration) {
	k.Again = l.countdownButton("TryAgain", wait, whole)
	k.Again.Spoken, k.Again.Reason, k.Again.Over = k.Again.Wait, k.Again.Now, k.Again.Ready
}

// approvedCard returns the card of a code that was right.
func (l *visit) approvedCard(v verification.View) *card {
	k := l.newCard("approved", l.t["Approved"])
	k.Lead, k.GoOn, k.Back = l.t.fillHTML("ApprovedLead", "to", v.To), l.t["ClosePage"], l.returnLink(v.ID)
	if k.Back == "" && l.Brand.Home != "" {
		k.GoOn = l.t.fill("GoOnApp", "app", l.Title)
	}
	k.Say += l.t["Stop"] + k.GoOn
	return k
}
