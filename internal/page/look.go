package page

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/store"
	"sendcode/internal/verification"
	"sendcode/quota"
)

// view is what a person looks at beside the plain state. It is in the address, and holds nothing else.
type view string

const (
	changing  view = "change"  // another address or number
	entering  view = "code"    // the code, although a rule is spent
	anew      view = "new"     // an empty field
	elsewhere view = "instead" // the other channel, where nothing is known of whom to send to
	besides   view = "other"   // the code that was sent over the other channel
)

// look finds the card that is true for one request.
type look struct {
	*Page
	ctx     context.Context
	caller  verification.Caller
	session session
	view    view
	words   *cardTexts // of the language
	regions []string
	t       *cardTexts // the same as they speak of the channel at hand
}

// soon is the longest wait that is shown as the same waiting button; a longer one, met by asking, is explained.
const soon = time.Minute

// card returns the card for the present state of the browser's verification.
func (l *look) card() card {
	switch {
	case l.view == anew:
		return l.askFor(typed{on: l.session.begun()})
	case l.view == changing:
		return l.askFor(l.typed())
	case l.view == elsewhere:
		return l.askFor(l.typedElsewhere())
	case l.session.ID != "":
		return l.verification()
	case l.session.Note.Kind == away:
		return l.away(false)
	case l.session.Refused && l.session.By != rule{} && l.Now().Before(l.session.Until):
		return l.refusal()
	}
	k := l.askFor(l.typed())
	if l.session.Refused && !l.Now().Before(l.session.Until) {
		k.Note = &box{"good", l.t.FreeNow}
	}
	return k
}

// verification reads the browser's verification and returns its card.
func (l *look) verification() card {
	a, err := l.Codes.Get(l.ctx, l.caller, l.session.ID)
	if errors.Is(err, verification.ErrNotFound) {
		l.session.ID = ""
		return l.askFor(typed{on: l.session.channel(), text: l.session.shown()})
	}
	if err != nil {
		return l.away(true)
	}
	k := l.cardOf(a)
	if a.View.State != verification.Approved {
		k.head().Support = support(l.t, a.View.Send.ID)
	}
	return k
}

// support returns the text with a send's support reference.
func support(t *cardTexts, send string) string {
	id, err := uuid.Parse(send)
	if err != nil {
		return ""
	}
	if ref := store.SupportReference(id); ref != "" {
		return fill(t.SupportReference, "ref", ref)
	}
	return ""
}

// cardOf returns the card for the state of a verification.
func (l *look) cardOf(a verification.Answer) card {
	refused := l.session.Refused && a.Quota.RetryAfter() > soon
	if worst, blocked := a.Quota.Blocking(); blocked && worst.Name == verification.CarrierRule && neverSent(a.View) {
		refused = true // by the carrier, which told its reason and its wait
	}
	switch state := a.View.State; {
	case state == verification.Approved:
		return l.approved(a.View)
	case refused && l.view != entering:
		return l.enough(a)
	case state != verification.Pending:
		return l.ended(a)
	case neverSent(a.View):
		return l.failed(a)
	}
	return l.code(a)
}

// refusal returns the card of a browser that was refused without a verification, as its cookie recorded it. The limiter is not
// asked again: its answers would reveal what happens to the address meanwhile.
func (l *look) refusal() card {
	v := verification.View{Channel: l.session.channel(), To: l.session.masked()}
	return l.enough(verification.Answer{View: v, Quota: l.session.By.decision(l.session.Until, l.Now())})
}

// again returns the button for the next code, under the rules as they are now.
func (l *look) again(f *frame, ready string, d quota.Decision) again {
	worst, _ := d.Blocking()
	return l.button(f, ready, worst.RetryAfter, worst.Window)
}

func (l *look) button(f *frame, ready string, wait, whole time.Duration) again {
	t := l.t
	b := again{F: f, Label: ready, Ready: ready}
	if wait <= 0 {
		return b
	}
	if wait >= clockFrom {
		b.Label = t.NextCode
	}
	b.Wait = counted(wait, t.In, t.At, "")
	b.Now = t.ticking(wait, t.In, t.InElse)
	b.Spoken = counted(wait, t.TimerIn, t.TimerAt, "")
	b.Reason = t.ticking(wait, t.TimerIn, t.TimerElse)
	whole = max(whole, wait)
	b.Total, b.Share = quota.Milliseconds(whole), 100*float64(wait)/float64(whole)
	return b
}
