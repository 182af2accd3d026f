package page

import (
	"html/template"
	"strconv"
	"time"

	"sendcode/internal/code"
	"sendcode/internal/recipient"
	"sendcode/internal/store"
	"sendcode/internal/verification"
)

// helpAfter is how long a person waits for a mail before the page offers help, from the end of the sending on.
const helpAfter = 15 * time.Second

// joinable returns how much validity a code must have left so that a resend carries the same one.
func joinable(v verification.View) time.Duration {
	return min(120*time.Second, v.ExpiresAt.Sub(v.CreatedAt)/5)
}

func (l *look) code(a verification.Answer) card {
	t, v := l.t, a.View
	k := &codeCard{Label: t.CodeLabel, Length: v.Code.Length, Letters: v.Code.Alphabet == code.Unambiguous, Rows: t.pips(a.Quota)}
	k.Sending = inFlight(v.Send.Status)
	k.Poll = k.Sending
	k.Heading, k.Sent = t.sending(v)
	k.Say = t.spokenStatus(v, a)
	k.Again = l.again(&k.frame, t.SendAgain, a.Quota)
	left := v.ExpiresAt.Sub(v.Now)
	k.Next = left.Milliseconds() + 1
	k.Expiry = at(left, t.WorksUntil, fill(t.WorksElse, "d", t.durationDown(left)))
	k.Help = l.help(a)
	if k.Instead = l.instead(&k.frame); mayStillArrive(a) {
		k.Instead = k.Instead.back()
	}
	k.Hint = fill(t.codeTexts(v.Code).hint, "n", strconv.Itoa(k.Length))
	l.codeNotes(k, v)
	k.Auto = k.Error == "" && k.Length > 0
	k.Rev = rev(k.kind(), v.ID, v.Send.ID, v.Send.Status, v.AttemptsRemaining, l.session.Note, k.Help != nil, a.Quota.Allowed(),
		used(a.Quota), k.Instead.rev())
	return k
}

func inFlight(s store.Status) bool { return s == store.Queued || s == store.Sending }

// sending returns the heading and the sentence about how far the mail has come.
func (t *cardTexts) sending(v verification.View) (heading string, sent template.HTML) {
	heading, pattern := t.CheckMail, t.SentTo
	switch {
	case inFlight(v.Send.Status):
		heading, pattern = t.OnItsWay, t.SendingTo
	case v.Send.Status == store.Unknown:
		heading, pattern = t.MayArrive, t.MaybeSentTo
	case v.Send.Status == store.Undelivered:
		heading = t.NotArrived
	case v.Send.Number > 1 && (v.Send.Status == store.Sent || v.Send.Status == store.Delivered):
		pattern = t.SentAgainTo
	}
	return heading, emphasise(pattern, "to", v.To)
}

// spokenStatus returns the sentence for screen readers: how far the mail has come, and when another can be asked for.
func (t *cardTexts) spokenStatus(v verification.View, a verification.Answer) string {
	heading, _ := t.sending(v)
	if inFlight(v.Send.Status) {
		return heading
	}
	if wait := a.Quota.RetryAfter(); wait > 0 {
		return heading + t.Stop + fill(t.TimerElse, "d", t.durationUp(wait))
	}
	return t.AvailableNow
}

// codeNotes adds the message about the last post to the code card.
func (l *look) codeNotes(k *codeCard, v verification.View) {
	t := l.t
	switch n := l.session.Note; n.Kind {
	case wrongCode:
		k.Error = t.count(t.WrongCode, v.AttemptsRemaining)
	case tooMany:
		k.Error = t.TooManyChecks
	case badCode:
		k.Error, k.Keep = t.slipped(n.Reason, v.Code), true
	case stale:
		k.Note = &box{"warn", t.Stale}
	case away:
		k.Note = &box{"bad", t.AwayCode}
	}
	switch {
	case k.Note != nil:
	case v.Send.Status == store.Failed:
		k.Note = &box{"bad", t.ResendFailed}
		k.Typo = l.doubt(typed{on: l.session.channel(), text: l.session.To})
	case v.Send.Status == store.Undelivered:
		k.Note = &box{"bad", t.NotArrivedLead}
	}
	if k.Note != nil {
		k.Say = k.Note.Text
	}
	if k.Error != "" {
		k.Say = k.Error
	}
}

// slipped returns the explanation why a text is no code.
func (t *cardTexts) slipped(reason string, shape code.Shape) string {
	switch reason {
	case "required":
		return t.CodeRequired
	case "not_digits", "not_in_alphabet":
		return t.codeTexts(shape).foreign
	}
	return fill(t.codeTexts(shape).length, "n", strconv.Itoa(shape.Length))
}

// codeTexts are those that say what a code is made of.
type codeTexts struct{ lead, either, hint, foreign, length string }

// codeTexts returns the texts for codes of this shape: digits or letters, and their length.
func (t *cardTexts) codeTexts(shape code.Shape) codeTexts {
	if shape.Alphabet == code.Unambiguous {
		return codeTexts{t.AskLeadCharacters, t.AskLeadEitherCharacters, t.CodeHintCharacters, t.CodeNotCharacters, t.CodeLengthCharacters}
	}
	return codeTexts{t.AskLeadDigits, t.AskLeadEitherDigits, t.CodeHint, t.CodeNotDigits, t.CodeLength}
}

// help returns the advice for a mail that does not arrive: the state of its delivery, where to look, when to ask for another; nil while
// it is too early. Failure reasons are not shown (SEC-19).
func (l *look) help(a verification.Answer) *help {
	t, v := l.t, a.View
	since := v.Now.Sub(v.Send.At)
	if !v.Send.FinishedAt.IsZero() {
		since = v.Now.Sub(v.Send.FinishedAt)
	}
	if v.Send.Status == store.Failed || inFlight(v.Send.Status) && since < helpAfter {
		return nil
	}
	h := &help{Open: since >= helpAfter, OpenIn: max(0, (helpAfter - since).Milliseconds())}
	if v.Send.Status == store.Unknown {
		h.Open, h.OpenIn = true, 0
	}
	h.Spam = l.spam()
	h.Right = emphasise(t.IsAddressRight, "to", v.To)
	h.Facts = append(h.Facts, t.serverAnswer(v, since), t.nextMail(a))
	return h
}

func (l *look) spam() template.HTML {
	if l.session.channel() == recipient.SMS {
		return template.HTML(template.HTMLEscapeString(l.t.LookInSpamElse))
	}
	if l.Sender == "" {
		return ""
	}
	if l.Subject != nil {
		if subject := l.Subject(l.t.Lang); subject != "" {
			return emphasise(l.t.LookInSpamFor, "sender", l.Sender, "subject", subject)
		}
	}
	return emphasise(l.t.LookInSpam, "sender", l.Sender)
}

// serverAnswer returns the sentence about what the mail server answered.
func (t *cardTexts) serverAnswer(v verification.View, since time.Duration) until {
	switch v.Send.Status {
	case store.Delivered:
		return until{Else: t.HasArrived}
	case store.Sent, store.Undelivered:
		m := at(-since, t.AcceptedAt, fill(t.AcceptedElse, "d", t.durationDown(since)))
		m.Round = "second"
		return m
	case store.Unknown:
		return until{Else: t.AcceptedHow}
	}
	return until{Else: t.NotAcceptedYet}
}

// nextMail returns the sentence about when the next mail can be asked for and whether it has the same code.
func (t *cardTexts) nextMail(a verification.Answer) until {
	v, wait := a.View, a.Quota.RetryAfter()
	which := t.SameCode
	if v.ExpiresAt.Sub(v.Now)-wait < joinable(v) {
		which = t.FreshCode
	}
	which += t.Separator
	switch {
	case wait <= 0:
		return until{Else: which + t.AnotherNow}
	case wait < clockFrom:
		return until{Else: which}
	}
	m := at(wait, which+t.AnotherAt, which+fill(t.AnotherElse, "d", t.durationUp(wait)))
	m.Round = "up"
	return m
}
