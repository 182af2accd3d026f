package page_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"net/http"
	"regexp"
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
	p := proving{t, pagetest.NewWorld(), evptest.New(t), nil}
	t.Cleanup(p.Close)
	p.TakeTokens(&evp.Verifier{Client: p.provider.Client(), TXT: p.provider.Resolver().LookupTXT, Now: time.Now})
	var err error
	if p.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		t.Fatal(err)
	}
	return p
}

var tokenFields = regexp.MustCompile(
	`\n<input type="hidden" name="evt" autocomplete="email-verification-token" nonce="([^"]*)">`)

// page loads the page and returns it with its nonce.
func (p proving) page() (body, nonce string) {
	p.t.Helper()
	body, err := p.Get("")
	found := tokenFields.FindStringSubmatch(body)
	if err != nil || found == nil {
		p.t.Fatal("no field for a token:", err, body)
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
	answer, err := p.Submit(page, "send", "to", to, "evt", token)
	if err != nil || !strings.Contains(answer, `data-kind="`+card+`"`) {
		p.t.Errorf("%v, wanted the card %s: %s", err, card, answer)
	}
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
	for _, c := range p.Cookies() {
		if strings.HasPrefix(c.Name, "known_") {
			return
		}
	}
	t.Error("the browser is not known:", before, p.Cookies())
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

// What proves nothing sends a code, and the page says nothing of it.
func TestOtherTokensSendACode(t *testing.T) {
	for what, post := range map[string]func(p proving, page, nonce string) (to, token string){
		"none":     func(proving, string, string) (string, string) { return evptest.Address, "" },
		"no token": func(proving, string, string) (string, string) { return evptest.Address, "hello~world" },
		"another address": func(p proving, _, nonce string) (string, string) {
			return "bob@" + evptest.Domain,
				p.token(nonce)
		},
		"of another page": func(p proving, _, _ string) (string, string) {
			return evptest.Address,
				p.token("another nonce")
		},
		"without our cookie": func(p proving, _, nonce string) (string, string) {
			p.Forget()
			return evptest.Address, p.token(nonce)
		},
		"of another site": func(p proving, _, nonce string) (string, string) {
			p.Header.Set("X-Forwarded-Host", "evil.example")
			evt := p.provider.EVT(jose.JSONWebKey{Key: &p.key.PublicKey}, nil)
			return evptest.Address, evptest.Bind(evt, p.key, "https://evil.example", nonce, nil)
		},
		"forged": func(p proving, _, nonce string) (string, string) {
			forger := evptest.New(t)
			evt := forger.EVT(jose.JSONWebKey{Key: &p.key.PublicKey}, nil)
			return evptest.Address, evptest.Bind(evt, p.key, strings.TrimSuffix(p.URL, "/"), nonce, nil)
		},
		"a slow issuer": func(p proving, _, nonce string) (string, string) {
			letGo := make(chan struct{})
			p.t.Cleanup(func() { close(letGo) })
			p.provider.Before = func(http.ResponseWriter, *http.Request) bool { <-letGo; return false }
			return evptest.Address, p.token(nonce)
		},
		"an issuer that is away": func(p proving, _, nonce string) (string, string) {
			p.provider.Close()
			return evptest.Address, p.token(nonce)
		},
	} {
		t.Run(what, func(t *testing.T) {
			p := newProving(t)
			page, nonce := p.page()
			to, token := post(p, page, nonce)
			p.send(page, to, token, "code", 1)
		})
	}
}

// Where tokens are taken the page has one field more; where they are not, a token is not read.
func TestThePageHasOneFieldMore(t *testing.T) {
	p, plain := newProving(t), pagetest.NewWorld()
	t.Cleanup(plain.Close)
	with, nonce := p.page()
	without, err := plain.Get("")
	if err != nil {
		t.Fatal(err)
	}
	rendering := regexp.MustCompile(`name="intent" value="[^"]*"`)
	servertest.Same(t, "the page without the field",
		rendering.ReplaceAllString(tokenFields.ReplaceAllString(with, ""), ""),
		rendering.ReplaceAllString(without, ""))
	if len(plain.Cookies()) > 0 {
		t.Error("a page that takes no tokens sets a cookie")
	}
	answer, err := plain.Submit(without, "send", "to", evptest.Address, "evt", p.token(nonce))
	if err != nil || !strings.Contains(answer, `data-kind="code"`) {
		t.Error(err, answer)
	}
}
