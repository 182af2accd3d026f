package page_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"sendcode/internal/http/evp"
	"sendcode/internal/http/evp/evptest"
	"sendcode/internal/http/page/pagetest"
	"sendcode/internal/kit/servertest"
)

// proving is a world whose shop takes tokens, the mail provider that issues them, and a browser's
// key.
type proving struct {
	t *testing.T
	*pagetest.World
	provider *evptest.Issuer
	key      *ecdsa.PrivateKey
}

func newProving(t *testing.T) proving {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	p := proving{t, world(t), evptest.New(t), key}
	p.TakeTokens(&evp.Verifier{Client: p.provider.Client(), TXT: p.provider.Resolver().LookupTXT, Now: time.Now})
	return p
}

var tokenFields = regexp.MustCompile(`\n<input type="hidden" name="evt" autocomplete="email-verification-token" nonce="([^"]*)">`)

// page loads the page and returns it with its nonce.
func (p proving) page() (body, nonce string) {
	p.t.Helper()
	body = get(p.t, p.World, "")
	found := tokenFields.FindStringSubmatch(body)
	if found == nil {
		p.t.Fatal("no field for a token:", body)
	}
	return body, found[1]
}

// token returns what a browser with the nonce would send.
func (p proving) token(nonce string) string {
	evt := p.provider.EVT(jose.JSONWebKey{Key: &p.key.PublicKey}, nil)
	return evptest.Bind(evt, p.key, strings.TrimSuffix(p.URL, "/"), nonce, nil)
}

// send posts the form and says which card follows, and how many codes were sent by now.
func (p proving) send(page, to, token, card string, sends int) {
	p.t.Helper()
	shows(p.t, submit(p.t, p.World, page, "send", "to", to, "evt", token), card)
	servertest.Same(p.t, "codes that were sent", p.Codes.Sends(), sends)
}

func TestATokenServesInsteadOfACode(t *testing.T) {
	p := newProving(t)
	page, nonce := p.page()
	if _, again := p.page(); again != nonce {
		t.Error("another tab of the browser has another nonce")
	}
	token := p.token(nonce)
	before := p.Cookies()
	p.send(page, evptest.Address, token, "approved", 0)
	after := p.Cookies()
	p.Keep(before)
	p.send(page, evptest.Address, token, "approved", 0) // the second post of a double click
	p.Keep(after)
	if !slices.ContainsFunc(p.Cookies(), func(c *http.Cookie) bool { return strings.HasPrefix(c.Name, "known_") }) {
		t.Error("the browser is not known:", before, p.Cookies())
	}
}

// A token that was used, with the cookie of then, sends a code, also from the same form.
func TestATokenServesOnce(t *testing.T) {
	p := newProving(t)
	page, nonce := p.page()
	token, before := p.token(nonce), p.Cookies()
	p.send(page, evptest.Address, token, "approved", 0)
	p.Keep(before)
	again, _ := p.page()
	p.send(again, evptest.Address, token, "code", 1)
}

// A token is not read once the app takes none any more.
func TestTokensAreTakenNoMore(t *testing.T) {
	p := newProving(t)
	page, nonce := p.page()
	p.TakeTokens(nil)
	p.send(page, evptest.Address, p.token(nonce), "code", 1)
}

// What proves nothing sends a code, and the page says nothing of it. What else a token must be is
// tested in internal/evp_test.go.
func TestOtherTokensSendACode(t *testing.T) {
	for what, c := range map[string]struct {
		to    string
		token func(p proving, nonce string) string
	}{
		"none":            {evptest.Address, func(proving, string) string { return "" }},
		"no token":        {evptest.Address, func(proving, string) string { return "hello~world" }},
		"another address": {"bob@" + evptest.Domain, proving.token},
		"of another page": {evptest.Address, func(p proving, _ string) string { return p.token("another nonce") }},
		"of another site": {evptest.Address, func(p proving, nonce string) string {
			evt := p.provider.EVT(jose.JSONWebKey{Key: &p.key.PublicKey}, nil)
			return evptest.Bind(evt, p.key, "https://evil.example", nonce, nil)
		}},
		"an issuer that is away": {evptest.Address, func(p proving, nonce string) string {
			p.provider.Close()
			return p.token(nonce)
		}},
	} {
		t.Run(what, func(t *testing.T) {
			p := newProving(t)
			page, nonce := p.page()
			p.send(page, c.to, c.token(p, nonce), "code", 1)
		})
	}
	p := newProving(t)
	page, nonce := p.page()
	p.Forget()
	p.send(page, evptest.Address, p.token(nonce), "ask", 0) // without our cookie
}

// Where tokens are taken the page has one field more.
func TestThePageHasOneFieldMore(t *testing.T) {
	p, plain := newProving(t), world(t)
	with, _ := p.page()
	without := get(t, plain, "")
	rendering := regexp.MustCompile(`name="intent" value="[^"]*"`)
	servertest.Same(t, "the page without the field", rendering.ReplaceAllString(tokenFields.ReplaceAllString(with, ""), ""),
		rendering.ReplaceAllString(without, ""))
}
