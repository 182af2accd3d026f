package page

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"sendcode/internal/base/fault"
	"sendcode/internal/http/server"
	"sendcode/internal/store"
	"sendcode/internal/verify/verification"
	"sendcode/quota"
)

// requestedView is the view that the person asked for instead of the card of the present state. It
// is a parameter of the page's address.
type requestedView string

const (
	viewChangeRecipient   requestedView = "change"  // the field, to change the recipient
	viewCodeField         requestedView = "code"    // the field for the code, although a rule is spent
	viewEmptyField        requestedView = "new"     // an empty field
	viewOtherChannelField requestedView = "instead" // the field for the recipient on the other channel
	viewOtherChannelCode  requestedView = "other"   // the code that was sent over the other channel
	// the present state, if the browser has kept the cookie of a post: one that sent nothing, or its first code
	viewCookieKept requestedView = "kept"
	viewFirstCode  requestedView = "sent"
)

// asksForCookie reports whether the view shows that a cookie is lost.
func (v requestedView) asksForCookie() bool { return v == viewCookieKept || v == viewFirstCode }

// visit is one request for the page. It chooses the card of the present state.
type visit struct {
	*Page
	ctx      context.Context
	caller   verification.Caller
	session  session
	view     requestedView
	t        words               // for the channel of the session
	regions  []string            // where the reader may be, likeliest first
	known    bool                // the browser has tokens of earlier codes
	secure   bool                // its cookies come back over https alone
	answer   verification.Answer // about the browser's verification; zero: it has none
	blocking quota.State         // the rule that makes the next code wait longest; zero: none does
}

// newVisit returns the visit of a request, with the session of the browser's cookie.
func (u *Page) newVisit(c echo.Context) *visit {
	s, v := u.loadSession(c), requestedView(c.QueryParam("view"))
	if v == viewOtherChannelCode && s.Other.ID != "" {
		s, v = s.onOtherChannel(), ""
	}
	return &visit{
		Page: u, ctx: c.Request().Context(), caller: u.callerOf(c), session: s, view: v,
		t: wordsFor(c.Request()).forChannel(s.channelOrEmail()), regions: likelyRegions(c.Request(), u.Country),
		known: len(u.loadKnownTokens(c)) > 0, secure: c.Scheme() == "https",
	}
}

// cookieLost reports whether the browser did not keep the cookie of its last post.
func (l *visit) cookieLost() bool {
	return l.view == viewCookieKept && l.session == session{} || l.view == viewFirstCode && l.session.ID == ""
}

// maxUnexplainedWait is the longest wait after a refusal for which the code card stays, with only
// its button counting down. For a longer wait the page shows the card that explains the rule.
const maxUnexplainedWait = time.Minute

// card returns the card for the present state of the browser's verification.
func (l *visit) card() *card {
	k := l.chooseCard()
	k.Known = l.known && k.Ask != nil
	k.Rev = l.contentHash(k)
	return k
}

func (l *visit) chooseCard() *card {
	typedOn := cmp.Or(l.session.DraftOn, l.session.usedChannel())
	switch {
	case l.cookieLost():
		return l.noCookieCard()
	case l.view == viewEmptyField:
		return l.askCard(l.session.usedChannel())
	case l.view == viewChangeRecipient:
		return l.askCard(typedOn)
	case l.view == viewOtherChannelField:
		return l.askCard(otherChannel(l.session.channelOrEmail()))
	case l.session.ID != "":
		return l.loadVerificationCard()
	case l.session.Note.Kind == noteUnavailable:
		return l.unavailableCard(false)
	case l.session.Refused && l.session.By != quota.Rule{} && l.Now().Before(l.session.Until):
		return l.rememberedRefusalCard()
	}
	k := l.askCard(typedOn)
	if l.session.Refused && !l.Now().Before(l.session.Until) {
		k.Note = &notice{"good", l.t["FreeNow"]}
	}
	return k
}

// loadVerificationCard reads the browser's verification and returns its card.
func (l *visit) loadVerificationCard() *card {
	a, err := l.Codes.Get(l.ctx, l.caller, l.session.ID)
	if errors.Is(err, fault.NotFound) {
		l.session.ID = ""
		return l.askCard(l.session.channelOrEmail())
	}
	if err != nil {
		server.LogFailure(l.ctx, l.Logger, err)
		return l.unavailableCard(true)
	}
	l.answer = a
	l.blocking, _ = a.Quota.Blocking()
	k := l.cardFor(a.View)
	if id, err := uuid.Parse(a.View.Send.ID); err == nil && a.View.State != verification.Approved {
		k.Support = l.t.fill("SupportReference", "ref", store.SupportReference(id))
	}
	return k
}

// cardFor returns the card for the state of a verification.
func (l *visit) cardFor(v verification.View) *card {
	refused := l.session.Refused && l.blocking.RetryAfter > maxUnexplainedWait ||
		l.blocking.Name == verification.CarrierRuleName && onlySendFailed(v) // the carrier told its reason and its wait
	switch {
	case v.State == verification.Approved:
		return l.approvedCard(v)
	case refused && l.view != viewCodeField:
		return l.refusedSendCard(v, l.answer.Quota.Rules)
	case v.State != verification.Pending:
		return l.endedCard(v)
	case onlySendFailed(v), l.showsBounce(v):
		return l.failedCard(v)
	}
	return l.codeCard(v)
}

// showsBounce reports whether to show that the first message came back: unless the person asks for
// the field, or has just typed a code.
func (l *visit) showsBounce(v verification.View) bool {
	return v.Send.Status == store.Undelivered && v.Send.Number <= 1 && l.view != viewCodeField && !l.typedCode()
}

// typedCode reports whether the last post was a code, which was not right.
func (l *visit) typedCode() bool {
	return slices.Contains([]noteKind{noteWrongCode, noteBadCode, noteTooManyChecks}, l.session.Note.Kind)
}

// rememberedRefusalCard returns the card of a refusal that only the cookie records, as there is no
// verification. It does not ask the limiter again, whose answers would reveal later sends to the
// address.
func (l *visit) rememberedRefusalCard() *card {
	left := l.session.Until.Sub(l.Now())
	l.blocking = quota.State{Rule: l.session.By, Used: l.session.By.Limit, ResetAfter: left, RetryAfter: left}
	v := verification.View{Channel: l.session.channelOrEmail(), To: l.session.maskedRecipient()}
	return l.refusedSendCard(v, []quota.State{l.blocking})
}

// newCard returns a card of a kind with its heading.
func (l *visit) newCard(kind, heading string) *card {
	return &card{Kind: kind, T: l.t, Page: l.Page, Heading: heading, Say: heading}
}

// resendButton returns the button for the next code, which waits as long as the rules say now.
// ready is the key of its label.
func (l *visit) resendButton(ready string) resendButton {
	return l.countdownButton(ready, l.blocking.RetryAfter, l.blocking.Window)
}

// countdownButton returns a button whose label has the key ready. It counts down wait, the rest of
// whole; without a wait it can be pressed.
func (l *visit) countdownButton(ready string, wait, whole time.Duration) resendButton {
	t := l.t
	b := resendButton{Label: t[ready], Ready: t[ready], Over: t["AvailableNow"]}
	if wait <= 0 {
		return b
	}
	if wait >= minWaitShownAsClock {
		b.Label = t["NextCode"]
	}
	b.Wait, b.Now = t.countdown("Again", wait, "")
	b.Spoken, b.Reason = t.countdown("Timer", wait, "")
	b.Described, b.Description = t.waitInMinutes(wait)
	if wait > whole { // the wait was rounded up: these texts tell only the time of its end, and no duration
		b.Wait.Long, b.Spoken.Long = t["AgainClock"], t["AnotherAt"]
	}
	whole = max(whole, wait)
	b.Total, b.Share = quota.Milliseconds(whole), 100*float64(wait)/float64(whole)
	return b
}

// contentHash returns a hash of what a card shows except for times. The script compares it to see
// whether the card has changed.
func (l *visit) contentHash(k *card) string {
	s, v := l.session, l.answer.View
	s.Ends, s.Until, s.Other.Until, s.Intent = time.Time{}, time.Time{}, time.Time{}, ""
	h := fnv.New64a()
	fmt.Fprint(h, k.Kind, k.Heading, s, l.view, v.State, v.Send.ID, v.Send.Status, v.AttemptsRemaining,
		k.Last != nil, k.Known)
	for _, rule := range l.answer.Quota.Rules {
		fmt.Fprint(h, rule.Name, rule.Used, rule.RetryAfter > 0)
	}
	if k.Instead != nil {
		fmt.Fprint(h, k.Instead.To, k.Instead.Enter, k.Instead.Back, k.Instead.Wait.MS > 0)
	}
	return fmt.Sprintf("%x", h.Sum64())
}
