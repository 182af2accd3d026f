// Package evptest is a mail provider for tests, on loopback. It issues tokens of the Email
// Verification Protocol, and has a DNS server.
package evptest

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"golang.org/x/net/dns/dnsmessage"
)

// The provider's names and its only address.
const (
	Host    = "issuer.example"
	Domain  = "mail.example"
	Address = "ada@" + Domain
)

// Issuer is the provider. Change its exported fields before the first request.
type Issuer struct {
	*httptest.Server
	Key *ecdsa.PrivateKey
	// Before is called for each HTTP request. It returns true if it has answered.
	Before func(http.ResponseWriter, *http.Request) bool

	dns     net.PacketConn
	mu      sync.Mutex
	records map[string][]string // TXT records by name, with the dot at its end; each name has the address 127.0.0.1
	seen    []string
}

// SetRecords sets the TXT records of a name, which ends with a dot.
func (i *Issuer) SetRecords(name string, texts ...string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.records[name] = texts
}

// New starts a provider, which ends with the test.
func New(t testing.TB) *Issuer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	i := &Issuer{Key: key, records: map[string][]string{"_email-verification." + Domain + ".": {"iss=" + Host}}}
	i.Server = httptest.NewUnstartedServer(http.HandlerFunc(i.serve))
	i.EnableHTTP2 = true
	i.StartTLS()
	t.Cleanup(i.Close)
	if i.dns, err = net.ListenPacket("udp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { defer close(done); i.answerQueries() }()
	t.Cleanup(func() { _ = i.dns.Close(); <-done })
	return i
}

// Seen returns the paths of all requests.
func (i *Issuer) Seen() []string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.Clone(i.seen)
}

// Client returns a client for which every host is the provider.
func (i *Issuer) Client() *http.Client {
	roots := x509.NewCertPool()
	roots.AddCert(i.Certificate())
	// a name of httptest's certificate
	dialer := &tls.Dialer{Config: &tls.Config{RootCAs: roots, ServerName: "example.com"}}
	return &http.Client{
		Transport: &http.Transport{DisableKeepAlives: true,
			DialTLSContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
				return dialer.DialContext(ctx, network, i.Listener.Addr().String())
			}},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// Resolver returns a resolver that asks the provider's DNS.
func (i *Issuer) Resolver() *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", i.dns.LocalAddr().String())
	}}
}

func (i *Issuer) answerQueries() {
	buf := make([]byte, 1500)
	for {
		n, from, err := i.dns.ReadFrom(buf)
		if err != nil {
			return
		}
		var m dnsmessage.Message
		if m.Unpack(buf[:n]) != nil || len(m.Questions) != 1 {
			continue
		}
		q := m.Questions[0]
		m.Response, m.RecursionAvailable, m.Additionals = true, true, nil
		i.mu.Lock()
		texts := i.records[q.Name.String()]
		i.mu.Unlock()
		header := dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class, TTL: 60}
		switch q.Type {
		case dnsmessage.TypeTXT:
			for _, text := range texts {
				m.Answers = append(m.Answers, dnsmessage.Resource{Header: header, Body: &dnsmessage.TXTResource{TXT: []string{text}}})
			}
		case dnsmessage.TypeA:
			m.Answers = []dnsmessage.Resource{{Header: header, Body: &dnsmessage.AResource{A: [4]byte{127, 0, 0, 1}}}}
		}
		if len(m.Answers) == 0 {
			m.RCode = dnsmessage.RCodeNameError
		}
		if answer, err := m.Pack(); err == nil {
			_, _ = i.dns.WriteTo(answer, from)
		}
	}
}

func (i *Issuer) serve(w http.ResponseWriter, r *http.Request) {
	i.mu.Lock()
	i.seen = append(i.seen, r.URL.Path)
	i.mu.Unlock()
	if i.Before != nil && i.Before(w, r) {
		return
	}
	const base = "https://" + Host
	documents := map[string]any{
		"/.well-known/email-verification": map[string]any{
			"issuance_endpoint": base + "/issue", "jwks_uri": base + "/keys", "signing_alg_values_supported": []string{"ES256"},
		},
		"/.well-known/web-identity": map[string]any{"accounts_endpoint": base + "/accounts", "login_url": base + "/login"},
		"/accounts":                 map[string]any{"accounts": []any{map[string]any{"id": "1", "name": "Ada", "given_name": "Ada", "email": Address}}},
		"/keys":                     jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: &i.Key.PublicKey, KeyID: "k1"}}},
		// Chromium 156 asks this service, and not the system's resolver.
		"/resolve": map[string]any{"Status": 0,
			"Answer": []any{map[string]any{"name": "_email-verification." + Domain + ".", "type": 16, "TTL": 60, "data": "iss=" + Host}}},
	}
	document, known := documents[r.URL.Path]
	if r.URL.Path == "/issue" {
		known, document = true, map[string]string{"issuance_token": i.EVT(browsersKey(r.Header.Get("Signature-Key")), nil) + "~"}
	}
	if !known {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(document)
}

// browsersKey reads the key of a request for a token: sig=hwk;kty="EC";crv="P-256";…
// (draft-hardt-httpbis-signature-key).
func browsersKey(header string) map[string]string {
	key := map[string]string{}
	for part := range strings.SplitSeq(header, ";") {
		if name, value, ok := strings.Cut(part, "="); ok && name != "sig" {
			key[name] = strings.Trim(value, `"`)
		}
	}
	return key
}

// EVT returns the issuer's part of a token for a browser's key, with changed claims.
func (i *Issuer) EVT(browser any, changes map[string]any) string {
	claims := map[string]any{
		"iss": "https://" + Host, "iat": time.Now().Unix(), "email": Address, "email_verified": true, "cnf": map[string]any{"jwk": browser},
	}
	maps.Copy(claims, changes)
	return Sign(jose.JSONWebKey{Key: i.Key, KeyID: "k1"}, "evt+jwt", claims)
}

// Bind returns the whole token: the issuer's part and the part that the browser signs.
func Bind(evt string, browser *ecdsa.PrivateKey, origin, nonce string, changes map[string]any) string {
	hash := sha256.Sum256([]byte(evt + "~"))
	claims := map[string]any{"aud": origin, "nonce": nonce, "iat": time.Now().Unix(), "sd_hash": base64.RawURLEncoding.EncodeToString(hash[:])}
	maps.Copy(claims, changes)
	return evt + "~" + Sign(browser, "kb+jwt", claims)
}

// Sign returns a JWT of a type.
func Sign(key any, typ jose.ContentType, claims map[string]any) string {
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: key}, (&jose.SignerOptions{}).WithType(typ))
	if err != nil {
		panic(err)
	}
	text, err := jwt.Signed(signer).Claims(claims).Serialize()
	if err != nil {
		panic(err)
	}
	return text
}
