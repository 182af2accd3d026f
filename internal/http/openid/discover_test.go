package openid

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"sendcode/internal/http/openid/openidtest"
	"sendcode/internal/kit/servertest"
)

func TestProvidersInTrouble(t *testing.T) {
	down := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }
	huge := func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"x":"` + strings.Repeat("x", 4<<20) + `"}`))
	}
	elsewhere := func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "https://evil.example"+r.URL.Path, http.StatusTemporaryRedirect)
	}
	const discovery, keys, token = "/.well-known/openid-configuration", "/keys", "/token"
	for what, c := range map[string]struct {
		at   string
		do   http.HandlerFunc
		kind ErrorKind
		why  string
	}{
		"down":                 {discovery, down, Unavailable, "discovery"},
		"a document elsewhere": {discovery, elsewhere, Unavailable, "discovery"},
		"keys away":            {keys, down, Unavailable, "keys"},
		"keys elsewhere":       {keys, elsewhere, Unavailable, "keys"},
		"huge keys":            {keys, huge, Unavailable, "keys"}, "tokens away": {token, down, Unavailable, "token"},
		"a huge token": {token, huge, Unavailable, "token"}, "tokens elsewhere": {token, elsewhere, Untrusted, "token"},
	} {
		server, p := open(t)
		trouble := func() { server.At(c.at, c.do) }
		if c.at == discovery {
			trouble()
			_, _, err := p.Begin(t.Context())
			refused(t, what, err, c.kind, c.why)
			server.At("", nil)
		}
		_, err := login(t, p, trouble) // a login works also after an outage of discovery
		if c.at != discovery {
			refused(t, what, err, c.kind, c.why)
		} else if err != nil {
			t.Errorf("%s, and known before: %v", what, err)
		}
	}
}

// If the provider hangs, a login ends as soon as its client stops waiting.
func TestBeginWithAHangingProvider(t *testing.T) {
	server, p := open(t)
	release := make(chan struct{})
	t.Cleanup(func() { close(release) })
	server.At("", func(http.ResponseWriter, *http.Request) { <-release })
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	for range 2 { // one requests the metadata, and the other waits for its turn
		go func() { _, _, err := p.Begin(ctx); done <- err }()
	}
	cancel()
	for range 2 {
		refused(t, "hanging", <-done, Unavailable, "discovery")
	}
	if p.client.Timeout <= 0 || p.client.Timeout > 10*time.Second {
		t.Errorf("waits for %v", p.client.Timeout)
	}
}

func TestBeginRefusesDocumentsThatLeadElsewhere(t *testing.T) {
	for what, document := range map[string]map[string]any{
		"another issuer":      {"issuer": "https://evil.example"},
		"a token for anybody": {"token_endpoint": "http://evil.example/token"},
		"keys of anybody":     {"jwks_uri": "http://evil.example/keys"},
		"a login of anybody":  {"authorization_endpoint": "http://evil.example/authorize"},
		"no address":          {"token_endpoint": ""},
	} {
		server := openidtest.New(t, redirect)
		server.Document = document
		_, _, err := New(settings(server), time.Now).Begin(t.Context())
		var e *Error
		if !errors.As(err, &e) || e.Kind != Untrusted {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestIsHTTPSOrLoopback(t *testing.T) {
	for address, ok := range map[string]bool{
		"https://id.example": true, "http://127.0.0.1:8": true, "http://[::1]/x": true, "http://localhost:8/x": true,
		"http://id.example": false, "http://localhost.evil.example": false, "http://10.0.0.1": false, "ftp://id.example/": false,
		"": false, "https://": false, "//id.example": false, "https://u:p@id.example": false, "https://id.example#x": false,
		"file:///x": false, "javascript:alert(1)": false,
	} {
		servertest.Same(t, address, isHTTPSOrLoopback(address), ok)
	}
}

// New keys are fetched when a token names an unknown key, and the discovery document is fetched
// once an hour. If the document can't be fetched, the old one is used.
func TestRotationAndDiscovery(t *testing.T) {
	server := openidtest.New(t, redirect)
	now := time.Now()
	p := New(settings(server), func() time.Time { return now })
	logsIn := func(when string) {
		t.Helper()
		if _, err := login(t, p); err != nil {
			t.Errorf("%s: %v", when, err)
		}
	}
	logsIn("at first")
	logsIn("again")
	servertest.Same(t, "fetches of the keys", server.Seen("/keys"), 1)
	server.Rotate()
	logsIn("after a rotation")
	now = now.Add(metadataLife)
	server.Do(func() { server.Now = func() time.Time { return now } })
	logsIn("an hour later")
	servertest.Same(t, "discoveries", server.Seen("/.well-known/openid-configuration"), 2)
	servertest.Same(t, "fetches of the keys", server.Seen("/keys"), 2)
	now = now.Add(metadataLife)
	server.At("/.well-known/openid-configuration", http.NotFound)
	logsIn("without its document")
	logsIn("again without it")
	servertest.Same(t, "discoveries of the logins that waited", server.Seen("/.well-known/openid-configuration"), 3)
	now = now.Add(time.Minute)
	logsIn("a minute later")
	servertest.Same(t, "one more", server.Seen("/.well-known/openid-configuration"), 4)
}

func TestFinishSendsTheSecretInTheBody(t *testing.T) {
	server, p := open(t)
	var body, header string
	server.Document = map[string]any{"token_endpoint_auth_methods_supported": []string{"client_secret_post"}}
	server.At("/token", func(_ http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm()
		body, header = r.PostForm.Get("client_secret"), r.Header.Get("Authorization")
	})
	_, _ = login(t, p)
	if body != openidtest.ClientSecret || header != "" {
		t.Errorf("%q %q", body, header)
	}
}
