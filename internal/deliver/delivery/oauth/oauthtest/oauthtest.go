// Package oauthtest is a token server for tests. It gives tokens by RFC 6749, RFC 7523 and the
// documentation of Microsoft and Google, and misbehaves by script. Only tests import this package.
package oauthtest

import (
	"context"
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"sendcode/internal/deliver/delivery/oauth"
	"sendcode/internal/kit/servertest"
)

// Secret is the client's secret. It must appear only in requests.
const Secret = "s3cret~of.the-Client"

// Answer is the server's answer to a request. The server waits for the duration After before it
// answers.
type Answer struct {
	Status         int
	Location, Body string
	After          time.Duration
}

// Hangs is an answer that comes later than any client waits.
var Hangs = Answer{Status: 500, After: time.Hour}

// Gives returns an answer with a token.
func Gives(token string, seconds int) Answer {
	return Answer{Status: 200, Body: fmt.Sprintf(`{"token_type":"Bearer","expires_in":%d,"ext_expires_in":%[1]d,"access_token":%q}`,
		seconds, token)}
}

// Refuses returns an answer without a token, with the number of a Microsoft error. Its text repeats
// the secret.
func Refuses(code, number string) Answer {
	return Answer{Status: 400, Body: fmt.Sprintf(`{"error":%q,"error_description":"AADSTS%s: no, %s. Trace ID: 1","error_codes":[%[2]s]}`,
		code, number, Secret)}
}

// JWT returns a token with these roles, in Microsoft's form.
func JWT(roles string) string {
	return "eyJhbGciOiJub25lIn0." + base64.RawURLEncoding.EncodeToString([]byte(`{"roles":[`+roles+`]}`)) + ".c2ln"
}

// Server is a token server.
type Server struct {
	Client oauth.Client // a client that the server accepts

	tb       testing.TB
	mu       sync.Mutex
	answers  []Answer
	requests int
}

// New makes a server without a port, for a testing/synctest bubble; Client connects to it. After
// the given answers, the last one is repeated.
func New(tb testing.TB, answers ...Answer) *Server {
	s := &Server{tb: tb, answers: answers}
	s.Client = oauth.Client{
		TokenURL: "http://127.0.0.1/tenant/oauth2/v2.0/token", ID: "client", Secret: Secret,
		Scope: oauth.MicrosoftScope, Dial: s.dial,
	}
	return s
}

// Start makes a server on a loopback port, which ends with the test.
func Start(tb testing.TB, answers ...Answer) *Server {
	tb.Helper()
	s := New(tb, answers...)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatalf("oauthtest: %v", err)
	}
	go func() { _ = http.Serve(listener, s) }()
	tb.Cleanup(func() { _ = listener.Close() })
	s.Client.TokenURL, s.Client.Dial = "http://"+listener.Addr().String()+"/tenant/oauth2/v2.0/token", nil
	return s
}

// Kinds are the arguments that As accepts: the kinds of clients.
var Kinds = []string{"secret", "account"}

// As makes the client get its token in another way. Call As after Start, since an account's file
// has the server's URL.
func (s *Server) As(kind string) *Server {
	if kind == "account" {
		var err error
		s.Client = oauth.Client{TokenURL: s.Client.TokenURL, Scope: oauth.GoogleScope, Subject: "codes@shop.example", Dial: s.Client.Dial}
		if s.Client.Account, err = oauth.ParseAccount([]byte(Account(s.Client.TokenURL))); err != nil {
			s.tb.Fatal(err)
		}
	}
	return s
}

// Source makes a source of the client's tokens, which ends with the test.
func (s *Server) Source() *oauth.Source {
	source := oauth.New(s.Client)
	s.tb.Cleanup(func() { _ = oauth.Sources{"": source}.Close() })
	return source
}

// Answer changes the answers from the next request on.
func (s *Server) Answer(answers ...Answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers = answers
}

// Requests returns the number of requests.
func (s *Server) Requests() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil || r.Method != http.MethodPost || r.Header.Get("Authorization") != "" {
		s.tb.Errorf("oauthtest: a request that no token server accepts: %s %v", r.Method, err)
	}
	s.check(r.PostForm)
	s.mu.Lock()
	s.requests++
	a := s.answers[0]
	if len(s.answers) > 1 {
		s.answers = s.answers[1:]
	}
	s.mu.Unlock()
	select {
	case <-time.After(a.After):
	case <-r.Context().Done():
		return
	}
	if a.Location != "" {
		w.Header().Set("Location", a.Location)
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(a.Status)
	_, _ = w.Write([]byte(a.Body))
}

// check fails the test if the body of a request is not as documented.
func (s *Server) check(form url.Values) {
	c := s.Client
	want := url.Values{"grant_type": {"client_credentials"}, "client_id": {c.ID}, "scope": {c.Scope}}
	if c.Account != nil {
		want = url.Values{"grant_type": {"urn:ietf:params:oauth:grant-type:jwt-bearer"}, "assertion": form["assertion"]}
		s.checkAssertion(form.Get("assertion"), "RS256 "+AccountKeyID, AccountEmail, c.Subject, c.Scope)
	} else {
		want.Set("client_secret", c.Secret)
	}
	if form.Encode() != want.Encode() {
		s.tb.Errorf("oauthtest: a request that no token server accepts: %s", form.Encode())
	}
}

func (s *Server) checkAssertion(text, header, issuer, subject string, scope any) {
	var claims map[string]any
	signed, err := jwt.ParseSigned(text, []jose.SignatureAlgorithm{jose.RS256, jose.PS256})
	if err == nil {
		err = signed.Claims(private().Public(), &claims)
	}
	if err != nil {
		s.tb.Errorf("oauthtest: an assertion that cannot be verified: %v", err)
		return
	}
	h := signed.Headers[0]
	got := fmt.Sprint(h.Algorithm, " ", h.KeyID, claims["iss"], claims["sub"], claims["aud"], claims["scope"])
	life := claims["exp"].(float64) - claims["iat"].(float64)
	if want := fmt.Sprint(header, issuer, subject, s.Client.TokenURL, scope); got != want || life > 3600 || life < 60 {
		s.tb.Errorf("oauthtest: an assertion for %v s: %q, want %q", life, got, want)
	}
}

// dial returns the client's end of a net.Pipe whose other end the server serves.
func (s *Server) dial(context.Context, string, string) (net.Conn, error) {
	client, server := net.Pipe()
	go func() { _ = http.Serve(servertest.OneConn(server), s) }()
	return client, nil
}
