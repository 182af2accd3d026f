package ui

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/audit"
	"sendcode/internal/recipient"
	"sendcode/internal/verification"
	"sendcode/quota"
)

// view is what a person looks at beside the plain state. It is in the address, and holds nothing else.
type view string

const (
	changing view = "change" // another address
	entering view = "code"   // the code, although a rule is spent
	anew     view = "new"    // an empty field
)

// look finds the card that is true for one request.
type look struct {
	*UI
	ctx     context.Context
	caller  verification.Caller
	session session
	view    view
	t       *texts
}

// soon is the longest wait that is shown as the same waiting button; a longer one, met by asking, is explained.
const soon = time.Minute

func (l *look) card() card {
	switch {
	case l.view == anew:
		return l.askFor("")
	case l.view == changing:
		return l.askFor(or(l.session.Draft, l.session.To))
	case l.session.ID != "":
		return l.verification()
	case l.session.Note.Kind == away:
		return l.away(false)
	case l.session.Refused && l.Now().Before(l.session.Until):
		return l.refusal()
	}
	k := l.askFor(or(l.session.Draft, l.session.To))
	if l.session.Refused {
		k.Note = &box{"good", l.t.FreeNow}
	}
	return k
}

func or(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// verification shows the one that the browser is at.
func (l *look) verification() card {
	a, err := l.Codes.Get(l.ctx, l.caller, l.session.ID)
	if errors.Is(err, verification.ErrNotFound) {
		l.session.ID = ""
		return l.askFor(l.session.To)
	}
	if err != nil {
		return l.away(true)
	}
	k := l.at(a)
	if a.View.State != verification.Approved {
		k.head().Support = support(l.t, a.View.Send.ID)
	}
	return k
}

// support is how a person names a send to those who can look it up. Nothing else can be done with it.
func support(t *texts, send string) string {
	id, err := uuid.Parse(send)
	if err != nil {
		return ""
	}
	if ref := audit.SupportReference(id); ref != "" {
		return fill(t.SupportReference, "ref", ref)
	}
	return ""
}

// at is the card for where a verification stands.
func (l *look) at(a verification.Answer) card {
	refused := l.session.Refused && a.Quota.RetryAfter() > soon
	switch state, send := a.View.State, a.View.Send; {
	case state == verification.Approved:
		return l.approved(a.View)
	case refused && l.view != entering:
		return l.enough(a)
	case state != verification.Pending:
		return l.ended(a)
	case send.Status == audit.Failed && send.Number <= 1:
		return l.failed(a)
	}
	return l.code(a)
}

// refusal reads the quota of an address that the browser has no verification for. It was told this quota when it was
// refused; it is read again only until the wait told then is over, so nobody can go on watching an address.
func (l *look) refusal() card {
	a, err := l.Codes.Quota(l.ctx, l.caller, string(recipient.Email), l.session.To, l.Purpose)
	switch {
	case err != nil:
		return l.away(true)
	case a.Quota.Allowed():
		k := l.askFor(l.session.To)
		k.Note = &box{"good", l.t.FreeNow}
		return k
	}
	return l.enough(a)
}

func (l *look) askFor(address string) *askCard {
	t := l.t
	k := &askCard{Lead: t.AskLead, Address: address, Back: l.view == changing && l.session.ID != ""}
	k.Heading = t.AskHeading
	if l.Title != "" {
		k.Heading = fill(t.AskHeadingApp, "app", l.Title)
	}
	if l.Code.Length > 0 {
		k.Lead = fill(t.of(l.Code).lead, "n", strconv.Itoa(l.Code.Length))
	}
	switch l.session.Note.Kind {
	case badAddress:
		k.Error = or(t.BadAddress[l.session.Note.Reason], t.BadAddressElse)
		k.Say = k.Error
	case stale:
		k.Note = &box{"warn", t.Stale}
	}
	if k.Error == "" {
		k.Typo = l.doubt(address, address == l.session.Draft)
	}
	if k.Typo != nil && l.session.Note.Kind == typo {
		k.Say = k.Typo.Question
	}
	k.Rev = rev(k.kind(), address, k.Error)
	return k
}

// doubt points out a domain that looks like a slip.
func (l *look) doubt(address string, draft bool) *suggestion {
	better, ok := recipient.Suggest(address)
	if !ok {
		return nil
	}
	_, domain, _ := strings.Cut(address, "@")
	_, meant, _ := strings.Cut(better, "@")
	return &suggestion{
		Question: fill(l.t.DidYouMean, "domain", meant), AsIs: fill(l.t.MeantAsIs, "domain", domain),
		Use: fill(l.t.UseInstead, "domain", meant), Domain: domain, Draft: draft,
	}
}

// again is the button for the next code, under the rules as they are.
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
