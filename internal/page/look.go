package page

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"time"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

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
	t       words // as they speak of the channel at hand
	regions []string
	answer  verification.Answer // about the browser's verification; zero: it has none
}

// lookAt returns the look of a request, with what the browser's cookie remembers.
func (u *Page) lookAt(c echo.Context) *look {
	s, v := u.remembered(c), view(c.QueryParam("view"))
	if v == besides && s.Other.ID != "" {
		s, v = s.onOtherChannel(), ""
	}
	return &look{
		Page: u, ctx: c.Request().Context(), caller: u.caller(c), session: s, view: v,
		t: wordsFor(c.Request()).forChannel(s.channel()), regions: regionsOf(c.Request(), u.Country),
	}
}

// soon is the longest wait that is shown as the same waiting button; a longer one, met by asking, is explained.
const soon = time.Minute

// card returns the card for the present state of the browser's verification.
func (l *look) card() *card {
	k := l.state()
	k.Rev = l.revision(k)
	return k
}

func (l *look) state() *card {
	typedOn := cmp.Or(l.session.DraftOn, l.session.begun())
	switch {
	case l.view == anew:
		return l.askFor(l.session.begun())
	case l.view == changing:
		return l.askFor(typedOn)
	case l.view == elsewhere:
		return l.askFor(otherThan(l.session.channel()))
	case l.session.ID != "":
		return l.verification()
	case l.session.Note.Kind == away:
		return l.away(false)
	case l.session.Refused && l.session.By != quota.Rule{} && l.Now().Before(l.session.Until):
		return l.refusal()
	}
	k := l.askFor(typedOn)
	if l.session.Refused && !l.Now().Before(l.session.Until) {
		k.Note = &box{"good", l.t["FreeNow"]}
	}
	return k
}

// verification reads the browser's verification and returns its card.
func (l *look) verification() *card {
	a, err := l.Codes.Get(l.ctx, l.caller, l.session.ID)
	if errors.Is(err, verification.ErrNotFound) {
		l.session.ID = ""
		return l.askFor(l.session.channel())
	}
	if err != nil {
		return l.away(true)
	}
	l.answer = a
	k := l.cardOf(a.View)
	if id, err := uuid.Parse(a.View.Send.ID); err == nil && a.View.State != verification.Approved {
		k.Support = l.t.fill("SupportReference", "ref", store.SupportReference(id))
	}
	return k
}

// cardOf returns the card for the state of a verification.
func (l *look) cardOf(v verification.View) *card {
	refused := l.session.Refused && l.answer.Quota.RetryAfter() > soon
	if worst, blocked := l.answer.Quota.Blocking(); blocked && worst.Name == verification.CarrierRule && neverSent(v) {
		refused = true // by the carrier, which told its reason and its wait
	}
	switch {
	case v.State == verification.Approved:
		return l.approved(v)
	case refused && l.view != entering:
		return l.enough(v)
	case v.State != verification.Pending:
		return l.ended(v)
	case neverSent(v):
		return l.failed(v)
	}
	return l.code(v)
}

// refusal returns the card of a browser that was refused without a verification, as its cookie recorded it. The limiter is not
// asked again: its answers would reveal what happens to the address meanwhile.
func (l *look) refusal() *card {
	left := l.session.Until.Sub(l.Now())
	spent := quota.State{Rule: l.session.By, Used: l.session.By.Limit, ResetAfter: left, RetryAfter: left}
	l.answer.Quota = quota.Decision{At: l.Now(), Rules: []quota.State{spent}}
	return l.enough(verification.View{Channel: l.session.channel(), To: l.session.masked()})
}

// newCard returns a card of a kind with its heading.
func (l *look) newCard(kind, heading string) *card {
	return &card{Kind: kind, T: l.t, Page: l.Page, Heading: heading, Say: heading}
}

// again returns the button for the next code, under the rules as they are now.
func (l *look) again(ready string) again {
	worst, _ := l.answer.Quota.Blocking()
	return l.button(ready, worst.RetryAfter, worst.Window)
}

func (l *look) button(ready string, wait, whole time.Duration) again {
	t := l.t
	b := again{Label: t[ready], Ready: t[ready]}
	if wait <= 0 {
		return b
	}
	if wait >= clockFrom {
		b.Label = t["NextCode"]
	}
	b.Wait, b.Now = t.countdown("Again", wait, "")
	b.Spoken, b.Reason = t.countdown("Timer", wait, "")
	whole = max(whole, wait)
	b.Total, b.Share = quota.Milliseconds(whole), 100*float64(wait)/float64(whole)
	return b
}

// revision hashes what a card, one state of the page, shows except for times. The script compares it to see whether the card changed.
func (l *look) revision(k *card) string {
	s, v := l.session, l.answer.View
	s.Ends, s.Until, s.Other.Until = time.Time{}, time.Time{}, time.Time{}
	h := fnv.New64a()
	fmt.Fprint(h, k.Kind, k.Heading, s, l.view, v.State, v.Send.ID, v.Send.Status, v.AttemptsRemaining, k.Last != nil, k.Code != nil && k.Code.Help != nil)
	for _, rule := range l.answer.Quota.Rules {
		fmt.Fprint(h, rule.Name, rule.Used, rule.RetryAfter > 0)
	}
	if k.Instead != nil {
		fmt.Fprint(h, k.Instead.To, k.Instead.Enter, k.Instead.Back, k.Instead.Wait.MS > 0)
	}
	return fmt.Sprintf("%x", h.Sum64())
}
