package page

import (
	"time"

	"sendcode/internal/base/recipient"
	"sendcode/internal/store"
	"sendcode/internal/verify/verification"
)

// otherChannelLink returns the link to the other channel; nil if the page does not offer it. It
// shows a wait or a pending code there only if this browser asked for that code: to know a person's
// address must not be enough to learn of the number, or the reverse.
func (l *visit) otherChannelLink() *otherChannelLink {
	other := otherChannel(l.session.channelOrEmail())
	if l.channelOrFirst(string(other)) != other {
		return nil
	}
	t, s := l.t, l.session.Other
	i := &otherChannelLink{Label: t["InsteadMail"]}
	enter := t["EnterMailCode"]
	if other == recipient.SMS {
		i.Label, enter = t["InsteadSMS"], t["EnterSMSCode"]
	}
	i.To = s.maskedRecipient()
	if i.To == "" {
		return i
	}
	i.Known = true
	wait, codePending := l.loadOtherChannelWait(s)
	if codePending {
		i.Enter = enter
	}
	if wait > 0 {
		i.Wait, i.Now = t.countdown("Instead", wait, t["InsteadNow"])
	}
	return i
}

// loadOtherChannelWait returns how long the other channel must wait, as far as this browser was told,
// and whether a code is pending there.
func (l *visit) loadOtherChannelWait(s channelState) (wait time.Duration, codePending bool) {
	if s.ID == "" {
		return max(0, s.Until.Sub(l.Now())), false
	}
	a, err := l.Codes.Get(l.ctx, l.caller, s.ID)
	if err != nil {
		return 0, false
	}
	return a.Quota.RetryAfter(), a.View.State == verification.Pending
}

// mayStillArrive reports whether the message may still arrive within the usual time. As long as it is
// true, the page does not offer the other channel.
func (l *visit) mayStillArrive(v verification.View) bool {
	wait := l.blocking.RetryAfter
	return inFlight(v.Send.Status) || (v.Send.Status == store.Sent || v.Send.Status == store.Delivered) && 0 < wait &&
		wait <= maxUnexplainedWait
}
