package page

import (
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"sendcode/internal/base/recipient"
	"sendcode/internal/verify/humancheck"
	"sendcode/internal/verify/verification"
	"sendcode/quota"
)

// session is the content of a browser's sealed cookie: its verification, and what was typed, so
// that it need not be typed again. It never has a code.
type session struct {
	channelState
	Other   channelState      `json:"o,omitzero"`  // the state on the channel that was used before
	Draft   string            `json:"d,omitempty"` // text in the field that was not sent yet
	DraftOn recipient.Channel `json:"w,omitempty"` // the channel of that field; empty: no text waits
	Country string            `json:"c,omitempty"` // the country chosen for phone numbers
	Return  string            `json:"q,omitempty"` // the return_url of the app that sent the person
	Note    postNote          `json:"n,omitzero"`  // result of the last post, if the use cases do not remember it
	Ends    time.Time         `json:"e"`           // when the cookie becomes invalid
	// Intent is random, and new after each send that the browser is told of. The Idempotency-Key of a send is made of it,
	// so a send whose answer was lost is found again by the next one to the same recipient.
	Intent string `json:"k,omitempty"`

	known string                // token that a right code has just given, for the cookie of known browsers; not stored here
	work  *humancheck.Challenge // with which a send that was refused would be admitted; nil: none would do; not stored
}

// channelState is a browser's state on one channel.
type channelState struct {
	Channel recipient.Channel `json:"h,omitempty"` // empty: mail
	ID      string            `json:"i,omitempty"` // verification; empty before the first admitted send
	// the browser's verification before ID, if a resend began a new one; its code may still arrive
	Before string `json:"p,omitempty"`
	// address as typed, or the number in E.164 form, that codes were asked for
	To      string     `json:"t,omitempty"`
	Expires time.Time  `json:"x,omitzero"`  // when the code expires
	Refused bool       `json:"r,omitempty"` // the last request for a code was refused
	Until   time.Time  `json:"u,omitzero"`  // end of that refusal, as the browser was told
	By      quota.Rule `json:"b,omitzero"`  // the rule that refused, if there is no verification
}

// channelOrEmail returns the channel of the recipient; mail if there is none.
func (l channelState) channelOrEmail() recipient.Channel { return cmp.Or(l.Channel, recipient.Email) }

// usedChannel returns the channel of the state; "" if the state is empty.
func (l channelState) usedChannel() recipient.Channel {
	if l == (channelState{}) {
		return ""
	}
	return l.channelOrEmail()
}

// displayedRecipient returns the recipient as a field shows it.
func (l channelState) displayedRecipient() string {
	if r, err := recipient.Parse(recipient.SMS, l.To); l.channelOrEmail() == recipient.SMS && err == nil {
		return r.Formatted()
	}
	return l.To
}

// maskedRecipient returns the recipient masked, for all texts but its own field; "" if there is none.
func (l channelState) maskedRecipient() string {
	r, err := recipient.Parse(l.channelOrEmail(), l.To)
	if err != nil {
		return ""
	}
	return r.Masked()
}

// onOtherChannel returns the session with both channels swapped, so that the other one is current.
func (s session) onOtherChannel() session {
	other := s.Other
	other.Channel = otherChannel(s.channelOrEmail())
	s.channelState, s.Other = other, s.channelState
	return s
}

func otherChannel(ch recipient.Channel) recipient.Channel {
	if ch == recipient.SMS {
		return recipient.Email
	}
	return recipient.SMS
}

// postNote tells the next page the result of the last post.
type postNote struct {
	Kind   noteKind  `json:"k,omitempty"`
	Reason string    `json:"r,omitempty"` // machine word of an *InvalidError, humanCheckReason or slowReason
	Until  time.Time `json:"a,omitzero"`  // of noteUnavailable: the end of its wait
	// Character is that of a *recipient.InvalidError
	Character string `json:"c,omitempty"`
}

type noteKind string

const (
	noteBadAddress      noteKind = "address" // Reason says why
	noteTypo            noteKind = "typo"    // the domain looks mistyped: the page asks before it sends
	noteLandline        noteKind = "line"    // the number probably gets no text messages: the page asks before it sends
	noteSuggestionTaken noteKind = "taken"   // the suggested address was taken into the field
	noteBadCode         noteKind = "code"    // the text cannot be a code; no try was spent
	noteTooManyChecks   noteKind = "many"    // too many failed checks: no try was spent, and nothing was sent
	noteWrongCode       noteKind = "wrong"   // a try was spent
	noteUnavailable     noteKind = "away"    // the limiter or the database did not answer, or one of the reasons below
	noteStaleForm       noteKind = "stale"   // the form was not of the session's verification
	noteNotSent         noteKind = "unsent"  // the browser had no cookie: nothing was sent
)

// humanCheckReason is the reason of noteUnavailable where a human check alone was missing.
const humanCheckReason = "human_check"

// slowReason is the reason of noteUnavailable where the message would go out too late.
const slowReason = "slow"

// A cookie lives for an hour, or longer while a code or a refusal lasts, but at most a day: the
// next person at this computer should not find an address.
const (
	sessionLife    = time.Hour
	maxSessionLife = 24 * time.Hour
)

// cookieName is the beginning of the cookie's name, and secureCookiePrefix stands before it over
// https: a browser then accepts the cookie only over https and from this host, so that no
// neighbouring host can set it (RFC 6265bis section 4.1.3.2). cookieSealLabel is the label under
// which the keys seal it.
const (
	cookieName         = "sendcode"
	secureCookiePrefix = "__Host-"
	cookieSealLabel    = "cookie"
)

// cookieNameFor returns the cookie's name. Each app and purpose has its own, so that they do not
// overwrite each other's cookies.
func (u *Page) cookieNameFor(c echo.Context) string {
	name := u.appCookieName(c, cookieName)
	if purpose := u.PurposeInURL(); purpose != "" {
		name += "." + purpose
	}
	return name
}

// appCookieName returns the name of a cookie of this app that begins with name.
func (u *Page) appCookieName(c echo.Context, name string) string {
	if c.Scheme() == "https" {
		name = secureCookiePrefix + name
	}
	if app := u.AppInURL(); app != "" {
		name += "-" + app
	}
	return name
}

// loadSession returns the session in the cookie; an empty one if the cookie is missing, expired,
// damaged or forged.
func (u *Page) loadSession(c echo.Context) session {
	cookie, err := c.Cookie(u.cookieNameFor(c))
	if err != nil {
		return session{}
	}
	var s session
	sealed, _ := base64.RawURLEncoding.DecodeString(cookie.Value) // of other text, Open rejects the result
	plain, err := u.Cookies.Open(cookieSealLabel, sealed, u.cookieBinding())
	if err != nil || json.Unmarshal(plain, &s) != nil || !u.Now().Before(s.Ends) {
		return session{}
	}
	return s
}

// cookieBinding returns the associated data that the cookie is sealed with. A cookie of the
// console, or of another app or purpose, has other data and is rejected.
func (u *Page) cookieBinding() []byte { return []byte("page\x00" + u.App + "\x00" + u.PurposeInURL()) }

// saveSession writes the cookie; the zero session removes it.
//
// SameSite is Lax, not Strict: a person who follows a link to the page, from a shop or a mail, must
// find the true state and not an empty form that then refuses to send. A post by another site
// carries no Lax cookie either, and a GET changes nothing.
func (u *Page) saveSession(c echo.Context, s session) error {
	cookie := &http.Cookie{
		Name: u.cookieNameFor(c), Path: "/", MaxAge: -1,
		Secure: c.Scheme() == "https", HttpOnly: true, SameSite: http.SameSiteLaxMode,
	}
	s.known, s.work = "", nil
	if s != (session{}) {
		life := sessionLife
		for _, until := range []time.Time{s.Until, s.Expires, s.Other.Until, s.Other.Expires} {
			life = min(max(life, until.Sub(u.Now())), maxSessionLife)
		}
		s.Ends, s.Intent = u.Now().Add(life), cmp.Or(s.Intent, rand.Text())
		plain, err := json.Marshal(s)
		if err != nil {
			return err
		}
		sealed, err := u.Cookies.Seal(cookieSealLabel, plain, u.cookieBinding())
		if err != nil {
			return err
		}
		cookie.Value, cookie.MaxAge = base64.RawURLEncoding.EncodeToString(sealed), int(life/time.Second)
	}
	c.SetCookie(cookie)
	return nil
}

// knownTokensCookiePrefix begins the name of the cookie with a known browser's tokens. They are
// joined by dots, the newest first; see verification.CheckResult.KnownToken.
const knownTokensCookiePrefix = "known_"

// knownTokensCookieName returns the name of the cookie of known browsers, which all purposes share.
func (u *Page) knownTokensCookieName(c echo.Context) string {
	return u.appCookieName(c, knownTokensCookiePrefix+cookieName)
}

// loadKnownTokens returns the tokens of a known browser.
func (u *Page) loadKnownTokens(c echo.Context) []string {
	cookie, err := c.Cookie(u.knownTokensCookieName(c))
	if err != nil || cookie.Value == "" {
		return nil
	}
	tokens := strings.SplitN(cookie.Value, ".", verification.MaxKnownTokens+1)
	return tokens[:min(len(tokens), verification.MaxKnownTokens)]
}

// saveKnownTokens writes the cookie with at most verification.MaxKnownTokens tokens; without tokens it
// removes the cookie.
func (u *Page) saveKnownTokens(c echo.Context, tokens ...string) {
	cookie := &http.Cookie{
		Name: u.knownTokensCookieName(c), Path: "/", MaxAge: -1,
		Secure: c.Scheme() == "https", HttpOnly: true, SameSite: http.SameSiteLaxMode,
	}
	if len(tokens) > 0 {
		tokens = tokens[:min(len(tokens), verification.MaxKnownTokens)]
		cookie.Value, cookie.MaxAge = strings.Join(tokens, "."), int(verification.KnownTokenLife/time.Second)
	}
	c.SetCookie(cookie)
}

// verificationMark returns a hash that identifies the verification of a rendered form without
// revealing its ID. Two tabs share a cookie: a code typed in one tab must not be tried on the
// verification of the other tab, unless that replaced the verification of the first tab.
func (l channelState) verificationMark() string { return verificationMarkOf(l.ID) }

func verificationMarkOf(id string) string {
	if id == "" {
		return ""
	}
	sum := sha256.Sum256([]byte("sendcode page mark\x00" + id))
	return base64.RawURLEncoding.EncodeToString(sum[:9])
}
