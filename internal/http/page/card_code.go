package page

import (
	"html/template"
	"time"

	"sendcode/internal/base/recipient"
	"sendcode/internal/codes/code"
	"sendcode/internal/store"
	"sendcode/internal/verify/verification"
)

// helpAfter is how long after the end of a send the help opens by itself; after its beginning, while
// the send goes on.
const helpAfter = 15 * time.Second

// codeCard returns the card with the field for the code.
func (l *visit) codeCard(v verification.View) *card {
	heading, sentTo := progressTextKeys(v.Send)
	k := l.newCard("code", l.t[heading])
	k.Lead, k.Again = l.t.fillHTML(sentTo, "to", v.To)+escapeHTML(l.t.purposeTitleSuffix(v.PurposeTitle)), l.resendButton("SendAgain")
	k.Again.Quiet, k.Rows = true, l.t.quotaPips(l.answer.Quota.Rules)
	k.Poll, k.Follow = inFlight(v.Send.Status), !v.Send.Final
	switch wait := l.blocking.RetryAfter; {
	case k.Poll:
	case wait > 0:
		k.Say += l.t["Stop"] + l.t.fill("TimerIn", "d", l.t.durationRoundedUp(wait))
	default:
		k.Say += l.t["Stop"] + l.t["AvailableNow"]
	}
	left := v.ExpiresAt.Sub(v.Now)
	k.Next = left.Milliseconds() + 1
	k.Instead = l.otherChannelLink()
	if k.Instead != nil && l.mayStillArrive(v) {
		k.Instead.Back = true
	}
	k.Code = &codeForm{
		Length: v.CodeShape.Length, Letters: v.CodeShape.Alphabet == code.Unambiguous, SMS: v.Channel == recipient.SMS,
		Hint: l.t.codeShapeText(v.CodeShape, "CodeHint"), Help: l.helpFor(v),
		Expiry: l.t.validity("WorksUntil", "WorksElse", left),
	}
	l.addCodeNote(k, v)
	return k
}

func inFlight(s store.Status) bool { return s == store.Queued || s == store.Sending }

// progressTextKeys returns the keys of the heading and of the sentence that say how far the message
// has come.
func progressTextKeys(s verification.SendView) (heading, sentTo string) {
	switch {
	case inFlight(s.Status):
		return "OnItsWay", "SendingTo"
	case s.Status == store.Unknown:
		return "MayArrive", "MaybeSentTo"
	case s.Status == store.Undelivered:
		return "NotArrived", "SentTo"
	case s.Number > 1 && s.Status != store.Failed:
		return "CheckMail", "SentAgainTo"
	}
	return "CheckMail", "SentTo"
}

// addCodeNote adds the message about the last post to the code card.
func (l *visit) addCodeNote(k *card, v verification.View) {
	switch n := l.session.Note; n.Kind {
	case noteWrongCode:
		k.Code.Error, k.Code.Wrong = l.t.plural("WrongCode", v.AttemptsRemaining), true
	case noteTooManyChecks:
		k.Code.Error = l.t["TooManyChecks"]
	case noteBadCode:
		k.Code.Error, k.Code.Keep = l.t.invalidCodeText(n.Reason, v.CodeShape), true
	case noteStaleForm:
		k.Note = &notice{"warn", l.t["Stale"]}
	case noteUnavailable:
		k.Note, k.Code.Keep = &notice{"bad", l.unavailableText()}, true // the code was not compared
	}
	switch {
	case k.Note != nil:
	case v.Send.Status == store.Failed:
		k.Note, k.Typo = &notice{"bad", l.t["ResendFailed"]}, l.doubtAboutSent()
		if !v.Send.Counts {
			k.Note.Text += l.t["Separator"] + l.t["DidNotCount"]
		}
	case v.Send.Status == store.Undelivered:
		k.Note, k.Typo = &notice{"bad", l.t["NotArrivedLead"]}, l.doubtAboutSent()
	}
	if k.Note != nil {
		k.Say = k.Note.Text
	}
	if k.Code.Error != "" {
		k.Say = k.Code.Error
	}
}

// invalidCodeText returns the text that explains why a typed text cannot be a code.
func (t words) invalidCodeText(reason string, shape code.Shape) string {
	switch reason {
	case "required":
		return t["CodeRequired"]
	case "not_digits", "not_in_alphabet":
		return t.codeShapeText(shape, "CodeNotDigits")
	}
	return t.codeShapeText(shape, "CodeLength")
}

// helpFor returns the advice for a message that does not arrive: the state of its delivery, where
// to look, and when to ask for another. The advice opens by itself, unless a wrong code was typed: then
// a message has come. It does not tell why a send failed.
func (l *visit) helpFor(v verification.View) *deliveryHelp {
	since := v.Now.Sub(v.Send.At)
	if !v.Send.FinishedAt.IsZero() {
		since = v.Now.Sub(v.Send.FinishedAt)
	}
	lost := v.Send.Status == store.Failed || v.Send.Status == store.Undelivered && v.Channel == recipient.Email
	h := &deliveryHelp{Wrong: l.t["WrongAddress"], Facts: []relativeTime{l.nextMailText(v)}}
	switch {
	case l.typedCode():
	case lost, v.Send.Status == store.Unknown, since >= helpAfter:
		h.Open = true
	default:
		h.OpenIn = (helpAfter - since).Milliseconds()
	}
	if lost {
		return h
	}
	h.Facts = append([]relativeTime{l.t.serverAnswerText(v.Send.Status, since)}, h.Facts...)
	if !inFlight(v.Send.Status) {
		h.Spam = l.spamAdvice()
	}
	return h
}

// spamAdvice returns the advice to look into the spam folder; "" if the sender of the mails is not
// known.
func (l *visit) spamAdvice() template.HTML {
	subject := ""
	if l.purpose.Subject != nil {
		subject = l.purpose.Subject(l.t["Lang"])
	}
	switch {
	case l.session.channelOrEmail() == recipient.SMS:
		return l.t.fillHTML("LookInSpamElse")
	case l.Sender == "":
		return ""
	case subject == "":
		return l.t.fillHTML("LookInSpam", "sender", l.Sender)
	}
	return l.t.fillHTML("LookInSpamFor", "sender", l.Sender, "subject", subject)
}

// serverAnswerText returns the sentence about what the mail server answered.
func (t words) serverAnswerText(status store.Status, since time.Duration) relativeTime {
	switch status {
	case store.Delivered:
		return relativeTime{Else: t["HasArrived"]}
	case store.Sent, store.Undelivered:
		return relativeTimeIn(-since, t["AcceptedAt"], t.fill("AcceptedElse", "d", t.durationRoundedDown(since)))
	case store.Unknown:
		return relativeTime{Else: t["AcceptedHow"]}
	}
	return relativeTime{Else: t["NotAcceptedYet"]}
}

// nextMailText returns the sentence that says when the next mail can be requested, and whether it
// will have the same code.
func (l *visit) nextMailText(v verification.View) relativeTime {
	t, wait := l.t, l.blocking.RetryAfter
	which := t["SameCode"]
	if v.ExpiresAt.Sub(v.Now)-wait < verification.MinResendLife(v.ExpiresAt.Sub(v.CreatedAt)) {
		which = t["FreshCode"]
	}
	which += t["Separator"]
	switch {
	case wait <= 0:
		return relativeTime{Else: which + t["AnotherNow"]}
	case wait < minWaitShownAsClock:
		return relativeTime{Else: which}
	}
	m := relativeTimeIn(wait, which+t["AnotherAt"], which+t.fill("AnotherElse", "d", t.durationRoundedUp(wait)))
	m.Round, m.Counted = "up", which+t["AnotherElse"]
	return m
}
