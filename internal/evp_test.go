package internal_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"sendcode/internal/base/recipient"
	"sendcode/internal/http/evp"
	"sendcode/internal/http/evp/evptest"
	"sendcode/internal/kit/servertest"
	"sendcode/internal/store/storetest"
)

const (
	evpOrigin = "https://codes.example"
	evpNonce  = "one nonce"
)

// evpRig is a verifier with its issuer, and a browser's key.
type evpRig struct {
	*evptest.Issuer
	v       *evp.Verifier
	browser *ecdsa.PrivateKey
	now     time.Time
}

func newEVPRig(t *testing.T) *evpRig {
	r := &evpRig{Issuer: evptest.New(t), browser: newEVPKey(t), now: time.Now()}
	r.v = &evp.Verifier{Client: r.Client(), TXT: r.Resolver().LookupTXT, Now: func() time.Time { return r.now }}
	return r
}

func newEVPKey(t *testing.T) *ecdsa.PrivateKey {
	return storetest.Must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
}

func (r *evpRig) evt(changes map[string]any) string {
	return r.EVT(jose.JSONWebKey{Key: &r.browser.PublicKey}, changes)
}

// bound is an issuer's token, bound to the browser's key for our page.
func (r *evpRig) bound(evt string, changes map[string]any) string {
	return evptest.Bind(evt, r.browser, evpOrigin, evpNonce, changes)
}

func (r *evpRig) token() string { return r.bound(r.evt(nil), nil) }

// later is a token of some time later.
func (r *evpRig) later(wait time.Duration) string {
	r.now = r.now.Add(wait)
	at := map[string]any{"iat": r.now.Unix()}
	return r.bound(r.evt(at), at)
}

func (r *evpRig) tokenOf(domain string) string {
	return r.bound(r.evt(map[string]any{"email": "ada@" + domain}), nil)
}

func evpExpected(domain string) evp.Expected {
	to, _ := recipient.Parse(recipient.Email, "ada@"+domain)
	return evp.Expected{Origin: evpOrigin, Nonce: evpNonce, Address: to}
}

func (r *evpRig) verify(t *testing.T, token string) error {
	t.Helper()
	issuer, err := r.v.Verify(t.Context(), token, evpExpected(evptest.Domain))
	if (err == nil) != (issuer == evptest.Host) || err != nil && !errors.Is(err, evp.ErrInvalid) {
		t.Errorf("issuer %q, error %v", issuer, err)
	}
	return err
}

// refused says that a token is refused, and for what.
func (r *evpRig) refused(t *testing.T, what, token, why string) {
	t.Helper()
	if err := r.verify(t, token); err == nil || !strings.HasSuffix(err.Error(), ": "+why) {
		t.Errorf("%s: %v, wanted %s", what, err, why)
	}
}

func TestEVPVerify(t *testing.T) {
	r := newEVPRig(t)
	for _, issuer := range []string{"https://" + evptest.Host, evptest.Host} { // Chromium's and the draft's
		storetest.OK(t, r.verify(t, r.bound(r.evt(map[string]any{"iss": issuer}), nil)))
	}
	servertest.Same(t, "fetched once", strings.Join(r.Seen(), " "), "/.well-known/email-verification /keys")
}

func TestEVPVerifyRefuses(t *testing.T) {
	r := newEVPRig(t)
	other := newEVPKey(t)
	ago := func(d time.Duration) int64 { return r.now.Add(-d).Unix() }
	for what, c := range map[string]struct {
		evt, kb map[string]any
		why     string
	}{
		"another site's":            {kb: map[string]any{"aud": "https://evil.example"}, why: "aud"},
		"another page's":            {kb: map[string]any{"nonce": "another"}, why: "nonce"},
		"bound to another token":    {kb: map[string]any{"sd_hash": "AAAA"}, why: "sd_hash"},
		"bound long ago":            {kb: map[string]any{"iat": ago(6 * time.Minute)}, why: "iat"},
		"bound in the future":       {kb: map[string]any{"iat": ago(-2 * time.Minute)}, why: "iat"},
		"issued long ago":           {evt: map[string]any{"iat": ago(6 * time.Minute)}, why: "iat"},
		"expired":                   {evt: map[string]any{"exp": ago(time.Second)}, why: "iat"},
		"bound, and expired":        {kb: map[string]any{"exp": ago(0)}, why: "iat"},
		"without a time":            {evt: map[string]any{"iat": nil}, why: "iat"},
		"another address":           {evt: map[string]any{"email": "bob@" + evptest.Domain}, why: "email"},
		"a private address":         {evt: map[string]any{"email": "x7@relay.example", "is_private_email": true}, why: "email"},
		"not verified":              {evt: map[string]any{"email_verified": false}, why: "email"},
		"another issuer":            {evt: map[string]any{"iss": "https://evil.example"}, why: "iss"},
		"an issuer by another name": {evt: map[string]any{"iss": "http://" + evptest.Host}, why: "iss"},
		"another browser's": {
			evt: map[string]any{"cnf": map[string]any{"jwk": jose.JSONWebKey{Key: &other.PublicKey}}},
			why: "key binding"},
		"without a key": {evt: map[string]any{"cnf": nil}, why: "key binding"},
		"a key that is no key": {evt: map[string]any{"cnf": map[string]any{"jwk": map[string]any{"kty": "oct",
			"k": "AAAA"}}}, why: "key binding"},
		"a key that cannot be parsed": {evt: map[string]any{"cnf": map[string]any{"jwk": map[string]any{"kty": "EC"}}}, why: "claims"},
	} {
		r.refused(t, what, r.bound(r.evt(c.evt), c.kb), c.why)
	}
	token := r.token()
	forged := evptest.Sign(jose.JSONWebKey{Key: other, KeyID: "k1"}, "evt+jwt", map[string]any{
		"iss": evptest.Host, "iat": r.now.Unix(), "email": evptest.Address, "email_verified": true,
		"cnf": map[string]any{"jwk": jose.JSONWebKey{Key: &r.browser.PublicKey}},
	})
	r.refused(t, "forged", r.bound(forged, nil), "signature")
	_, payload, _ := strings.Cut(r.evt(nil), ".")
	for what, c := range map[string][2]string{
		"empty": {"", "form"}, "no token": {"~", "form"}, "half a token": {r.evt(nil) + "~", "form"},
		"too long":          {token + strings.Repeat("A", 9000), "form"},
		"with a disclosure": {strings.Replace(token, "~", "~WyJhIiwiYiIsImMiXQ~", 1), "form"},
		"not signed":        {"eyJhbGciOiJub25lIiwidHlwIjoiZXZ0K2p3dCJ9." + payload + "~", "form"},
		"of another type":   {r.bound(evptest.Sign(r.Key, "JWT", map[string]any{}), nil), "typ"},
	} {
		r.refused(t, what, c[0], c[1])
	}
	storetest.OK(t, r.verify(t, token)) // the rig tells the two apart
}

// What an issuer, or who says so, may do to us: each costs at most the wait, and the address is not
// proven.
func TestEVPVerifyRefusesBadIssuers(t *testing.T) {
	const name = "_email-verification." + evptest.Domain + "."
	answer := func(text string, status int) func(*evpRig) {
		return func(r *evpRig) {
			r.Before = func(w http.ResponseWriter, _ *http.Request) bool {
				w.WriteHeader(status)
				_, _ = io.WriteString(w, text)
				return true
			}
		}
	}
	records := func(list ...string) func(*evpRig) { return func(r *evpRig) { r.SetRecords(name, list...) } }
	for what, c := range map[string]struct {
		make func(*evpRig)
		why  string
	}{
		"no record":         {records(), "no TXT record"},
		"two records":       {records("iss="+evptest.Host, "iss=evil.example"), "no TXT record"},
		"another record":    {records("v=spf1"), "TXT record"},
		"an address":        {records("iss=127.0.0.1"), "TXT record"},
		"localhost":         {records("iss=localhost"), "TXT record"},
		"with a port":       {records("iss=issuer.example:22"), "TXT record"},
		"with a path":       {records("iss=issuer.example/x"), "TXT record"},
		"a user":            {records("iss=a@issuer.example"), "TXT record"},
		"capital letters":   {records("iss=Issuer.example"), "TXT record"},
		"no document":       {answer("{}", 404), "document of the issuer"},
		"no JSON":           {answer("<html>", 200), "document of the issuer"},
		"keys in the clear": {answer(`{"jwks_uri": "http://issuer.example/keys"}`, 200), "address of a document"},
		"keys at a port":    {answer(`{"jwks_uri": "https://issuer.example:22/keys"}`, 200), "address of a document"},
		"keys in a file":    {answer(`{"jwks_uri": "file:///etc/passwd"}`, 200), "address of a document"},
		"no keys":           {answer(`{"jwks_uri": "https://issuer.example/keys", "keys": []}`, 200), "signature"},
		"a redirect": {func(r *evpRig) {
			r.Before = func(w http.ResponseWriter, q *http.Request) bool {
				http.Redirect(w, q, "https://elsewhere.example/", http.StatusFound)
				return true
			}
		}, "document of the issuer"},
		"one byte too many": {answer(`{"jwks_uri": "https://issuer.example/keys"}`+strings.Repeat(" ", 64<<10), 200),
			"document of the issuer"},
	} {
		t.Run(what, func(t *testing.T) {
			r := newEVPRig(t)
			c.make(r)
			r.refused(t, what, r.token(), c.why)
			seen := len(r.Seen())
			r.refused(t, what+", again", r.token(), c.why)
			servertest.Same(t, "asked again at once", len(r.Seen()), seen)
			r.now = r.now.Add(2 * time.Minute)
			r.refused(t, what+", after a minute", r.token(), c.why)
			servertest.Same(t, "asked again later", len(r.Seen()) > seen, seen > 0 && c.why != "signature")
		})
	}
}

// Of a document of 100 MB not much is read.
func TestEVPVerifyReadsNoEndlessDocument(t *testing.T) {
	r := newEVPRig(t)
	written := 0
	r.Before = func(w http.ResponseWriter, _ *http.Request) bool {
		for range 1 << 11 {
			n, err := w.Write(make([]byte, 50<<10))
			if written += n; err != nil {
				break
			}
		}
		return true
	}
	r.refused(t, "endless", r.token(), "document of the issuer")
	r.Close() // waits for the answer's end
	if written > 50<<20 {
		t.Errorf("%d bytes were read", written)
	}
}

// A signature is verified with four keys of an ID at most.
func TestEVPVerifyTriesFourKeys(t *testing.T) {
	for others, why := range map[int]string{3: "", 4: "signature"} {
		r := newEVPRig(t)
		set := jose.JSONWebKeySet{}
		for range others {
			set.Keys = append(set.Keys, jose.JSONWebKey{Key: &newEVPKey(t).PublicKey, KeyID: "k1"})
		}
		set.Keys = append(set.Keys, jose.JSONWebKey{Key: &r.Key.PublicKey, KeyID: "k1"})
		r.Before = func(w http.ResponseWriter, q *http.Request) bool {
			if q.URL.Path == "/keys" {
				_ = json.NewEncoder(w).Encode(set)
			}
			return q.URL.Path == "/keys"
		}
		if why != "" {
			r.refused(t, "the fifth key", r.token(), why)
		} else if err := r.verify(t, r.token()); err != nil {
			t.Error("the fourth key:", err)
		}
	}
}

// A slow issuer is not waited for; what it says in the end is kept.
func TestEVPVerifyDoesNotWait(t *testing.T) {
	r := newEVPRig(t)
	letGo := make(chan struct{})
	r.Before = func(http.ResponseWriter, *http.Request) bool { <-letGo; return false }
	r.refused(t, "slow", r.token(), "issuer too slow")
	r.refused(t, "still slow", r.token(), "issuer too slow")
	close(letGo)
	servertest.Await(t, "the keys", func() bool { return r.verify(t, r.token()) == nil })
	servertest.Same(t, "fetched once", strings.Join(r.Seen(), " "), "/.well-known/email-verification /keys")
	later := r.later(11 * time.Minute)
	servertest.Await(t, "new keys", func() bool { return r.verify(t, later) == nil })
	if !slices.Equal(r.Seen()[2:], r.Seen()[:2]) {
		t.Error("not fetched anew:", r.Seen())
	}
}

// While nothing answers, a token costs 300 ms, and of more than 16 domains at once nothing at all;
// after 5 s the look-ups end.
func TestEVPVerifyWaits300ms(t *testing.T) {
	r := newEVPRig(t)
	tokens := map[string]string{}
	for i := range 17 {
		domain := fmt.Sprintf("mail%d.example", i)
		tokens[domain] = r.tokenOf(domain)
	}
	servertest.Bubble(t, func(t *testing.T) {
		v := &evp.Verifier{Client: r.Client(), Now: func() time.Time { return r.now },
			TXT: func(ctx context.Context, _ string) ([]string, error) { <-ctx.Done(); return nil, ctx.Err() }}
		told := func(domain string) string {
			at := time.Now()
			_, err := v.Verify(t.Context(), tokens[domain], evpExpected(domain))
			return fmt.Sprint(time.Since(at), " ", err)
		}
		last := "mail16.example"
		for domain := range tokens {
			if domain != last {
				servertest.Same(t, domain, told(domain), "300ms evp: the token is not valid: issuer too slow")
			}
		}
		servertest.Same(t, "one more", told(last), "0s evp: the token is not valid: too many look-ups")
		time.Sleep(5 * time.Second)
		servertest.Same(t, "looked up", told("mail0.example"), "0s evp: the token is not valid: no TXT record")
		servertest.Same(t, "one more, later", told(last), "300ms evp: the token is not valid: issuer too slow")
		time.Sleep(5 * time.Second)
	})
}

// Strangers with slow domains, or with more domains than are kept, switch off no issuer that has answered.
func TestEVPVerifyKeepsKnownIssuers(t *testing.T) {
	r := newEVPRig(t)
	end := make(chan struct{})
	known := r.v.TXT
	r.v.TXT = func(ctx context.Context, name string) ([]string, error) {
		if strings.Contains(name, ".slow.") {
			<-end
		}
		if strings.Contains(name, ".stranger.") {
			return nil, errors.New("no such name")
		}
		return known(ctx, name)
	}
	strangers := func(n int, under string) {
		var all sync.WaitGroup
		for i := range n {
			domain := fmt.Sprintf("mail%d.%s.stranger.example", i, under)
			ask := func() { _, _ = r.v.Verify(t.Context(), r.tokenOf(domain), evpExpected(domain)) }
			if under == "slow" {
				all.Go(ask)
			} else {
				ask()
			}
		}
		all.Wait()
	}
	servertest.Await(t, "the keys", func() bool { return r.verify(t, r.token()) == nil })
	strangers(1001, "fast")
	if err := r.verify(t, r.token()); err != nil || len(r.Seen()) != 2 {
		t.Error("asked again:", err, r.Seen())
	}
	strangers(16, "slow")
	later := r.later(11 * time.Minute)
	servertest.Await(t, "the keys, anew", func() bool { return r.verify(t, later) == nil })
	close(end)
}
