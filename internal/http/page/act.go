package page

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/labstack/echo/v4"

	"sendcode/internal/base/fault"
	"sendcode/internal/base/logs"
	"sendcode/internal/base/recipient"
	"sendcode/internal/http/server"
	"sendcode/internal/limit/admission"
	"sendcode/internal/verify/verification"
)

// postedForm is one decoded form. Where the comment of a field begins with an act ("send:"), that
// act alone uses the field.
type postedForm struct {
	caller  verification.Caller
	locale  string
	channel recipient.Channel // send: the channel of the field to
	to      string            // send: the text of that field
	country string            // send: country of a phone number without a country code
	sure    string            // send: the doubtful domain or number that the person has confirmed
	draft   bool              // use: correct the address in the field, not the recipient
	code    string            // check: the text typed as the code
	known   []string          // tokens of a known browser
	click   string            // identifies a click: equal in both posts of a double click; empty: unknown
	key     string            // Idempotency-Key of a send; see session.Intent
	human   string            // sends: token of a human check
}

// maxDraftLength is the longest typed address that the session keeps, in bytes: an address has at
// most 254, and the cookie with the session at most 4096.
const maxDraftLength = 320

// minRenderingIDLength is the shortest accepted ID of a rendering (the form field intent), in
// characters. writeCard makes no shorter ones, and a shorter one could be guessed.
const minRenderingIDLength = 26

// handlePost does what the posted form asks for, stores the result in the cookie and redirects to
// the page. Both posts of a double click send one message.
func (u *Page) handlePost(c echo.Context) error {
	f, err := readForm(c)
	if err != nil {
		return err
	}
	s := u.loadSession(c)
	s.Note = postNote{}
	p := postedForm{
		caller: u.callerOf(c), locale: c.Request().Header.Get("Accept-Language"),
		channel: u.channelOrFirst(f.Get("channel")),
		country: countryIfKnown(f.Get("country")), sure: f.Get("sure"), draft: f.Has("draft"), code: f.Get("code"),
		known: u.loadKnownTokens(c), human: f.Get("human_check"),
	}
	p.to = strings.TrimSpace(f.Get(recipientFieldNames[p.channel]))
	if f.Get("act") == "forget" {
		u.saveKnownTokens(c)
		return u.saveAndRedirect(c, session{Return: s.Return}, "")
	}
	do, ok := map[string]func(context.Context, session, postedForm) session{
		"send": u.send, "again": u.sendAgain, "other": u.sendOnOtherChannel, "check": u.checkOnce,
		"use": u.useSuggestion,
	}[f.Get("act")]
	if !ok {
		return echo.NewHTTPError(http.StatusBadRequest, "unknown act")
	}
	if s == (session{}) { // without a cookie the person would get a code, but no field for it
		s = s.withDraft(p, postNote{Kind: noteNotSent})
		if f.Get("act") != "send" {
			s.Note.Kind = noteStaleForm
		}
		return u.saveAndRedirect(c, s, "")
	}
	if of := f.Get("of"); f.Get("act") != "send" && of != s.verificationMark() {
		switch {
		// a form of the verification before: check tries that code too, and a resend has the same recipient
		case of != "" && of == verificationMarkOf(s.Before):
		case of == "" || of != s.Other.verificationMark():
			s.Note = postNote{Kind: noteStaleForm}
			return u.saveAndRedirect(c, s, "")
		default:
			s = s.onOtherChannel() // the form stood on the card of the other channel
		}
	}
	if intent := f.Get("intent"); len(intent) >= minRenderingIDLength {
		hash := func(intent string) string { // since what was typed must not be stored
			sum := sha256.Sum256([]byte(strings.Join([]string{
				intent, f.Get("act"), string(p.channel), p.to, p.country,
				p.sure, s.ID, p.locale,
			}, "\x00")))
			return hex.EncodeToString(sum[:])
		}
		p.click, p.key = hash(intent), hash(cmp.Or(s.Intent, intent))
	}
	after := do(context.WithoutCancel(c.Request().Context()), s, p) // goes on if the browser disconnects

	// The script works, and posts the same form again. Without scripts, the card says how long the wait is.
	if after.work != nil && p.human == "" && c.Request().Header.Get(fragmentHeader) != "" {
		return c.JSON(http.StatusPreconditionRequired, after.work)
	}
	if after.known != "" {
		u.saveKnownTokens(c, append([]string{after.known}, p.known...)...)
	}
	if s.ID == "" && after.ID != "" {
		return u.saveAndRedirect(c, after, viewFirstCode)
	}
	return u.saveAndRedirect(c, after, "")
}

// saveAndRedirect stores the session in the cookie and redirects to a view of the page, so that a reload does
// not post again. A note may need another view.
func (u *Page) saveAndRedirect(c echo.Context, s session, view requestedView) error {
	if err := u.saveSession(c, s); err != nil {
		return err
	}
	switch s.Note.Kind {
	case noteBadAddress, noteTypo, noteLandline, noteSuggestionTaken:
		view = viewChangeRecipient
	case noteNotSent, noteStaleForm:
		view = viewCookieKept
	}
	return c.Redirect(http.StatusSeeOther, u.viewURL(view))
}

// send asks for a code for the typed recipient and returns the new session. It resends the code if
// the browser has a verification of this recipient. If the recipient is invalid or doubtful, it
// sends nothing, and the session keeps the text with a note.
func (u *Page) send(ctx context.Context, s session, p postedForm) session {
	to, err := recipient.ParseInCountry(p.channel, p.to, p.country)
	if err != nil {
		return s.withDraft(p, badAddressNote(err))
	}
	if doubt, ok := needsConfirmation(to, p); ok {
		return s.withDraft(p, postNote{Kind: doubt})
	}
	after := u.requestCode(ctx, s.withRecipient(to, p), p)
	if after.Note.Kind == noteBadAddress { // nothing was sent, so the verification stays
		return s.withDraft(p, after.Note)
	}
	return after
}

// needsConfirmation reports whether the person should confirm the recipient before a code is sent,
// and the question to ask: the domain looks mistyped (noteTypo), or the number probably gets no
// text messages (noteLandline).
func needsConfirmation(to recipient.Recipient, p postedForm) (question noteKind, needed bool) {
	if to.Channel() == recipient.SMS {
		return noteLandline, to.Landline() && p.sure != p.to
	}
	_, domain, _ := strings.Cut(p.to, "@")
	_, likely := recipient.SuggestDomain(p.to)
	return noteTypo, likely && p.sure != domain
}

// withRecipient returns the session with this recipient on its channel. A verification of the same
// recipient stays. If the recipient of the present channel changes, the other channel is cleared
// too, since another person may use the browser.
func (s session) withRecipient(to recipient.Recipient, p postedForm) session {
	came := to.Channel() != s.channelOrEmail()
	if came {
		s = s.onOtherChannel()
	}
	if known, err := recipient.Parse(to.Channel(), s.To); err != nil || !known.Equal(to) {
		if !came {
			s.Other = channelState{}
		}
		s.channelState = channelState{Channel: to.Channel()}
	}
	s.To, s.Draft, s.DraftOn = p.to, "", ""
	if to.Channel() == recipient.SMS {
		s.To, s.Country = to.Address(), p.country
	}
	return s
}

// withDraft returns the session with the typed text and a note for the next page. The verification
// stays.
func (s session) withDraft(p postedForm, n postNote) session {
	s.Draft, s.DraftOn, s.Note = p.to, p.channel, n
	if len(p.to) > maxDraftLength {
		s.Draft = ""
	}
	if p.channel == recipient.SMS {
		s.Country = p.country
	}
	return s
}

// badAddressNote returns the note about an invalid recipient, with the reason of an InvalidError.
func badAddressNote(err error) postNote {
	n := postNote{Kind: noteBadAddress}
	if bad, ok := errors.AsType[*recipient.InvalidError](err); ok {
		n.Reason, n.Character = bad.Reason, bad.Character
	}
	return n
}

// sendAgain asks for another code for the remembered recipient.
func (u *Page) sendAgain(ctx context.Context, s session, p postedForm) session {
	if s.To == "" {
		return session{Return: s.Return}
	}
	return u.requestCode(ctx, s, p)
}

// sendOnOtherChannel switches to the remembered recipient of the other channel and asks for a code
// there. If the code there is valid and another must wait, it only switches and shows no refusal.
func (u *Page) sendOnOtherChannel(ctx context.Context, s session, p postedForm) session {
	if s.Other.To == "" {
		s.Note = postNote{Kind: noteStaleForm}
		return s
	}
	s = s.onOtherChannel()
	if s.ID != "" {
		if a, err := u.Codes.Get(ctx, p.caller, s.ID); err == nil && a.View.State == verification.Pending &&
			!a.Quota.Allowed() {
			s.Refused, s.Until = true, u.Now().Add(a.Quota.RetryAfter())
			return s
		}
	}
	return u.requestCode(ctx, s, p)
}

// requestCode asks for a code for the session's recipient, or for a resend if the session has a
// verification, and returns the session with the result.
func (u *Page) requestCode(ctx context.Context, s session, p postedForm) session {
	ask := verification.Request{
		Caller: p.caller, Channel: string(s.channelOrEmail()), To: s.To, Purpose: u.purpose.Name, Languages: p.locale,
		Resend: s.ID, KnownTokens: p.known, HumanCheck: p.human,
	}
	ask.IdempotencyKey = p.key
	a, err := u.sendOnce(ctx, ask)
	if errors.Is(err, fault.NotFound) { // the verification was erased: open a new one
		s.ID, ask.Resend = "", ""
		a, err = u.sendOnce(ctx, ask)
	}
	switch {
	case err != nil:
		return u.sessionAfterError(ctx, s, err)
	case a.Admitted:
		logs.AddAttrs(ctx, slog.String("app", p.caller.App), slog.String("send", a.View.Send.ID))
		before := s.Before
		if a.View.ID != s.ID {
			before = s.ID
		}
		s.channelState = channelState{
			Channel: s.Channel, ID: a.View.ID, Before: before, To: s.To,
			Expires: u.Now().Add(a.View.ExpiresAt.Sub(a.View.Now)),
		}
		s.Draft, s.DraftOn, s.Intent = "", "", ""
		return s
	}
	if a.HumanCheck != nil {
		s.work = a.HumanCheck.Work
		if a.Quota.Allowed() { // no rule is in the way: no wait can be told
			s.Note = postNote{Kind: noteUnavailable, Reason: humanCheckReason, Until: u.Now().Add(unavailableRetryWait)}
			return s
		}
	}
	s.Refused, s.Until = true, u.Now().Add(a.Quota.RetryAfter())
	if s.ID == "" {
		blocking, _ := a.Quota.Blocking()
		s.By = blocking.Rule
		s.By.Zone = nil // not needed: Until has the end of the wait
	}
	return s
}

const (
	duplicateRetryInterval = 100 * time.Millisecond // between two tries, while the first post of a double click is handled
	maxDuplicateTries      = 50
	// a post for the same verification that repeats an earlier one within this time counts as the same click
	duplicateWindow = 10 * time.Second
)

// sendOnce asks for one code for a double click, and for posts that repeat one whose answer was lost. The browser then
// has the cookie of before. While the first post is handled, perhaps by another replica, sendOnce waits and tries again,
// so that all posts get the same result. A code that is valid no more is replaced. So is the message of a verification
// that the browser knows already: if its answer was lost, the card has said so since.
func (u *Page) sendOnce(ctx context.Context, ask verification.Request) (verification.Answer, error) {
	again := time.NewTicker(duplicateRetryInterval)
	defer again.Stop()
	for range maxDuplicateTries {
		a, err := u.Codes.Send(ctx, ask)
		switch {
		case errors.Is(err, verification.ErrKeyInProgress):
			<-again.C
		case err == nil && a.Replayed && (!a.View.Now.Before(a.View.ExpiresAt) ||
			a.View.ID == ask.Resend && a.View.Now.Sub(a.View.Send.At) >= duplicateWindow):
			ask.IdempotencyKey = ""
		default:
			return a, err
		}
	}
	return verification.Answer{}, fault.Unavailable
}

// sessionAfterError returns the session with the note about this error for the next page.
func (u *Page) sessionAfterError(ctx context.Context, s session, err error) session {
	if _, locked := errors.AsType[*verification.TooManyChecksError](err); locked {
		s.Note = postNote{Kind: noteTooManyChecks}
		return s
	}
	if bad, ok := errors.AsType[*fault.InvalidError](err); ok {
		switch bad.Field {
		case "to":
			s.Note = postNote{Kind: noteBadAddress, Reason: bad.Reason}
			return s
		case "channel": // the channel was removed from the configuration
			s.channelState, s.Note = channelState{}, postNote{Kind: noteStaleForm}
			return s
		}
		u.Logger.Error("request of hosted page rejected", "field", bad.Field, "reason", bad.Reason,
			logs.SeeConfiguration)
	}
	server.LogFailure(ctx, u.Logger, err)
	s.Note = postNote{Kind: noteUnavailable, Until: u.Now().Add(max(unavailableRetryWait, server.ProblemOf(err).Wait))}
	if full, ok := errors.AsType[*admission.OverloadedError](err); ok && full.Slow != "" {
		s.Note.Reason = slowReason
	}
	return s
}

// useSuggestion puts the suggested address into the field. It sends nothing: the person submits the
// field.
func (u *Page) useSuggestion(_ context.Context, s session, p postedForm) session {
	doubted := s.Draft
	if !p.draft && s.channelOrEmail() == recipient.Email {
		doubted = s.To
	}
	p.to, p.channel = doubted, recipient.Email
	if better, ok := recipient.SuggestDomain(doubted); ok {
		p.to = better
	}
	return s.withDraft(p, postNote{Kind: noteSuggestionTaken})
}

// clickID identifies a click. It is a hash of the form's key and of the typed code, which must not be
// stored.
type clickID [sha256.Size]byte

// checkOnce calls check once for all posts of a double click in this process, and returns its result to
// each: each check counts as a try, and the browser keeps only the cookie of the last answer. It calls
// check for each post without a key, since another browser may post the same form.
func (u *Page) checkOnce(ctx context.Context, s session, p postedForm) session {
	if p.click == "" {
		return u.check(ctx, s, p)
	}
	this := clickID(sha256.Sum256([]byte(p.click + "\x00" + p.code)))
	first, known := u.clicks.LoadOrStore(this, sync.OnceValue(func() session { return u.check(ctx, s, p) }))
	if !known {
		time.AfterFunc(duplicateWindow, func() { u.clicks.Delete(this) })
	}
	return first.(func() session)()
}

// check tries the typed code with the session's verification and, if it is wrong there, with the
// verification before. A text that cannot be a code costs no try.
func (u *Page) check(ctx context.Context, s session, p postedForm) session {
	if s.ID == "" {
		return s
	}
	checked, err := u.Codes.Check(ctx, p.caller, s.ID, p.code)
	if err == nil && !checked.Valid && s.Before != "" { // the try counts for both
		if before, err := u.Codes.Check(ctx, p.caller, s.Before, p.code); err == nil &&
			(before.Valid || before.State == verification.Approved) {
			checked, s.ID = before, s.Before
		}
	}
	bad, foreign := errors.AsType[*fault.InvalidError](err)
	switch {
	case errors.Is(err, fault.NotFound):
		s.channelState = channelState{Channel: s.Channel, To: s.To}
	case foreign:
		s.Note = postNote{Kind: noteBadCode, Reason: bad.Reason}
	case err != nil:
		return u.sessionAfterError(ctx, s, err)
	case checked.Valid, checked.State == verification.Approved: // Approved: the first post of a double click was right
		// the address is no longer needed
		return session{channelState: channelState{Channel: s.Channel, ID: s.ID}, Return: s.Return, known: checked.KnownToken}
	case checked.State == verification.Pending:
		s.Note = postNote{Kind: noteWrongCode}
	}
	return s
}

// unavailableRetryWait is the shortest wait that the page tells while a part of the service is away.
// It is longer than most waits of a 503, so that the person can read the card.
const unavailableRetryWait = 5 * time.Second
