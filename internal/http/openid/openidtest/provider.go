// Package openidtest is a provider of OpenID Connect on loopback, for tests: discovery, keys,
// authorization and tokens over real HTTP. It rejects requests of another client, and requests with
// a wrong redirect URI, code or PKCE verifier. A test can make the provider misbehave at every
// step.
package openidtest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// These are the credentials of the provider's only client.
const (
	ClientID     = "sendcode-console"
	ClientSecret = "a secret of the client & the provider"
)

const accessToken = "an access token"

// Provider is a running provider. A test may change its fields within Do.
type Provider struct {
	*httptest.Server
	Now      func() time.Time
	Redirect string         // the only address to which it sends browsers back
	Claims   map[string]any // claims of the person who logs in, in addition to those of the protocol
	Document map[string]any // members that are added to the discovery document or replaced in it
	UserInfo map[string]any // claims of the userinfo endpoint; nil: there is none

	Token func(claims map[string]any) string // makes the id_token; nil: Signed

	t     testing.TB
	mu    sync.Mutex
	at    string // path where other answers; empty: everywhere
	other http.HandlerFunc
	keys  []jose.JSONWebKey
	codes map[string]url.Values // parameters of the authorization request, by code
	seen  map[string]int        // requests by path
}

// New starts a provider that ends with the test.
func New(t testing.TB, redirect string) *Provider {
	p := &Provider{
		t: t, Now: time.Now, Redirect: redirect, Claims: map[string]any{"sub": "1"}, codes: map[string]url.Values{},
		seen: map[string]int{},
	}
	p.Server = httptest.NewServer(p)
	t.Cleanup(p.Close)
	p.Rotate()
	return p
}

// Visit requests the provider's address as a browser does, and returns the address to which the
// provider redirects.
func Visit(t testing.TB, address string) *url.URL {
	t.Helper()
	visitor := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := visitor.Get(address)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	back, err := resp.Location()
	if err != nil {
		t.Fatalf("%d: %v", resp.StatusCode, err)
	}
	return back
}

// Rotate replaces all keys by a new one.
func (p *Provider) Rotate() {
	p.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		p.t.Fatal(err)
	}
	p.Do(func() { p.keys = []jose.JSONWebKey{{Key: key, KeyID: rand.Text(), Algorithm: "ES256", Use: "sig"}} })
}

// Do calls a function that may change the provider's fields, between requests.
func (p *Provider) Do(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
}

// At replaces the handler of a path, or of all paths if path is empty; a nil handler restores it.
func (p *Provider) At(path string, other http.HandlerFunc) {
	p.Do(func() { p.at, p.other = path, other })
}

// Seen returns how often a path was requested.
func (p *Provider) Seen(path string) (n int) {
	p.Do(func() { n = p.seen[path] })
	return n
}

func (p *Provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var other http.HandlerFunc
	p.Do(func() {
		p.seen[r.URL.Path]++
		if p.at == "" || p.at == r.URL.Path {
			other = p.other
		}
	})
	if other != nil {
		other(w, r)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch r.URL.Path {
	case "/.well-known/openid-configuration":
		p.document(w)
	case "/keys":
		var public jose.JSONWebKeySet
		for _, k := range p.keys {
			public.Keys = append(public.Keys, k.Public())
		}
		answer(w, http.StatusOK, public)
	case "/authorize":
		p.authorize(w, r)
	case "/token":
		p.token(w, r)
	case "/userinfo":
		if r.Header.Get("Authorization") != "Bearer "+accessToken {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		answer(w, http.StatusOK, p.UserInfo)
	default:
		http.NotFound(w, r)
	}
}

func (p *Provider) document(w http.ResponseWriter) {
	d := map[string]any{
		"issuer": p.URL, "authorization_endpoint": p.URL + "/authorize", "token_endpoint": p.URL + "/token", "jwks_uri": p.URL + "/keys",
		"response_types_supported": []string{"code"}, "subject_types_supported": []string{"public"},
		"id_token_signing_alg_values_supported": []string{"ES256", "HS256", "none"}, "authorization_response_iss_parameter_supported": true,
	}
	if p.UserInfo != nil {
		d["userinfo_endpoint"] = p.URL + "/userinfo"
	}
	maps.Copy(d, p.Document)
	answer(w, http.StatusOK, d)
}

// authorize logs every visitor in at once, if the client's request is right.
func (p *Provider) authorize(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	if q.Get("client_id") != ClientID || q.Get("redirect_uri") != p.Redirect || q.Get("response_type") != "code" || q.Get("nonce") == "" ||
		q.Get("state") == "" || q.Get("code_challenge_method") != "S256" || q.Get("code_challenge") == "" {
		http.Error(w, "not a request of this client", http.StatusBadRequest)
		return
	}
	code := rand.Text()
	p.codes[code] = q
	http.Redirect(w, r, p.Redirect+"?"+url.Values{"code": {code}, "state": {q.Get("state")}, "iss": {p.URL}}.Encode(), http.StatusFound)
}

func (p *Provider) token(w http.ResponseWriter, r *http.Request) {
	id, secret, _ := r.BasicAuth()
	id, _ = url.QueryUnescape(id)
	secret, _ = url.QueryUnescape(secret)
	if r.Method != http.MethodPost || r.ParseForm() != nil {
		http.Error(w, "", http.StatusBadRequest)
		return
	}
	asked, known := p.codes[r.PostForm.Get("code")]
	delete(p.codes, r.PostForm.Get("code"))
	sum := sha256.Sum256([]byte(r.PostForm.Get("code_verifier")))
	switch {
	case id != ClientID || secret != ClientSecret:
		answer(w, http.StatusUnauthorized, map[string]any{"error": "invalid_client"})
	case !known || r.PostForm.Get("redirect_uri") != p.Redirect ||
		base64.RawURLEncoding.EncodeToString(sum[:]) != asked.Get("code_challenge"):
		answer(w, http.StatusBadRequest, map[string]any{"error": "invalid_grant", "error_description": "<script>alert(1)</script>"})
	default:
		sign := p.Token
		if sign == nil {
			sign = p.Signed
		}
		answer(w, http.StatusOK, map[string]any{
			"access_token": accessToken, "token_type": "Bearer", "expires_in": 60, "id_token": sign(p.idTokenClaims(asked.Get("nonce"))),
		})
	}
}

// idTokenClaims returns the protocol's claims, and those of p.Claims, which may replace some.
func (p *Provider) idTokenClaims(nonce string) map[string]any {
	now := p.Now()
	claims := map[string]any{"iss": p.URL, "aud": ClientID, "exp": now.Add(time.Minute).Unix(), "iat": now.Unix(), "nonce": nonce}
	maps.Copy(claims, p.Claims)
	return claims
}

// Signed returns a token signed with the provider's current key.
func (p *Provider) Signed(claims map[string]any) string {
	return p.SignedBy(jose.SigningKey{Algorithm: jose.ES256, Key: p.keys[0]}, claims)
}

// SignedBy returns a token with the claims, signed with a key that need not be the provider's.
func (p *Provider) SignedBy(key jose.SigningKey, claims map[string]any) string {
	signer, err := jose.NewSigner(key, nil)
	if err != nil {
		p.t.Error(err)
		return ""
	}
	text, err := jwt.Signed(signer).Claims(claims).Serialize()
	if err != nil {
		p.t.Error(err)
	}
	return text
}

// PublicKey returns the current public key, as it stands in the provider's key set.
func (p *Provider) PublicKey() jose.JSONWebKey { return p.keys[0].Public() }

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}
