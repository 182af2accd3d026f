package page

import (
	"time"

	"sendcode/internal/recipient"
	"sendcode/internal/store"
	"sendcode/internal/verification"
)

// instead is the way to the other channel, where the page has it. What waits there is that channel's own, and is told only to
// a browser that has asked for a code there itself: one address does not tell what belongs to it elsewhere.
func (l *look) instead(f *frame) *instead {
	other := otherThan(l.session.channel())
	if l.meant(string(other)) != other {
		return nil
	}
	t, s := l.words, l.session.Other
	i := &instead{F: f, Label: t.InsteadMail}
	enter := t.EnterMailCode
	if other == recipient.SMS {
		i.Label, enter = t.InsteadSMS, t.EnterSMSCode
	}
	if i.To = s.masked(); i.To == "" {
		return i
	}
	i.Known = true
	wait, pending := l.waitThere(s)
	if pending {
		i.Enter = enter
	}
	if wait > 0 {
		i.Wait = counted(wait, t.InsteadIn, t.InsteadAt, t.InsteadNow)
		i.Now = t.ticking(wait, t.InsteadIn, t.InsteadElse)
	}
	return i
}

// waitThere is how long the other channel has to wait, as far as this browser was told, and whether a code can be entered there.
func (l *look) waitThere(s leg) (wait time.Duration, pending bool) {
	if s.ID == "" {
		return max(0, s.Until.Sub(l.Now())), false
	}
	a, err := l.Codes.Get(l.ctx, l.caller, s.ID)
	if err != nil {
		return 0, false
	}
	return a.Quota.RetryAfter(), a.View.State == verification.Pending
}

// patient says that the person still waits for a message that mostly comes within the shortest wait: they are not led
// elsewhere yet, unless it is known that it may not come.
func patient(a verification.Answer) bool {
	switch wait := a.Quota.RetryAfter(); a.View.Send.Status {
	case store.Queued, store.Sending:
		return true
	case store.Sent, store.Delivered:
		return 0 < wait && wait <= soon
	}
	return false
}

// back leaves the way to a code that is there already.
func (i *instead) back() *instead {
	if i == nil || i.Enter == "" {
		return nil
	}
	i.Back = true
	return i
}
