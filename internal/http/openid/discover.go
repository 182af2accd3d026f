package openid

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"sendcode/internal/base/loopback"
)

// These constants bound the wait for a provider's response and its size. The responses are small
// documents.
const (
	requestTimeout  = 8 * time.Second
	maxResponseSize = 1 << 20
)

// newClient makes an HTTP client for a provider. The client follows no redirects, because they
// could leak the client's secret. It limits the size of responses. It keeps no idle connections,
// because logins are rare.
func newClient() *http.Client {
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true, ForceAttemptHTTP2: true}
	return &http.Client{
		Timeout: requestTimeout, Transport: sizeLimitedTransport{transport},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// sizeLimitedTransport is a transport that bounds the size of responses. Reading more than
// maxResponseSize bytes of a response fails.
type sizeLimitedTransport struct{ http.RoundTripper }

func (s sizeLimitedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := s.RoundTripper.RoundTrip(r)
	if err == nil {
		resp.Body = http.MaxBytesReader(nil, resp.Body, maxResponseSize)
	}
	return resp, err
}

// discover returns the provider's metadata from the cache. If the cache is empty or old, discover
// requests the metadata from the provider. If that request fails, discover returns the old
// metadata.
//
// It returns an *Error if there is no metadata, or if ctx ends while discover waits for another
// call.
func (p *Provider) discover(ctx context.Context) (*metadata, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout) // includes the wait for p.turn
	defer cancel()
	select {
	case p.turn <- struct{}{}:
		defer func() { <-p.turn }()
	case <-ctx.Done():
		return nil, &Error{Kind: Unavailable, Why: "discovery"}
	}
	before := p.known
	if before != nil && p.now().Sub(before.at) < metadataLife {
		return before, nil
	}
	m, err := p.fetchMetadata(ctx)
	switch {
	case err == nil && before != nil && m.config.Endpoint == before.config.Endpoint && m.jwks == before.jwks:
		m.verifier = before.verifier // keeps the keys that the old verifier has fetched
	case err != nil && before == nil:
		return nil, err
	case err != nil: // for a minute, no login requests the metadata again
		before.at = p.now().Add(time.Minute - metadataLife)
		return before, nil
	}
	p.known = m
	return m, nil
}

// signatureAlgorithms are the accepted signature algorithms. They are asymmetric, so "none" and
// algorithms with a shared secret are excluded.
var signatureAlgorithms = []string{
	oidc.RS256, oidc.RS384, oidc.RS512, oidc.ES256, oidc.ES384, oidc.ES512, oidc.PS256, oidc.PS384, oidc.PS512,
	oidc.EdDSA,
}

// fetchMetadata fetches and checks the provider's metadata (OpenID Connect Discovery 1.0).
func (p *Provider) fetchMetadata(ctx context.Context) (*metadata, error) {
	ctx = oidc.ClientContext(ctx, p.client)
	provider, err := oidc.NewProvider(ctx, p.settings.Issuer)
	if _, other := errors.AsType[*oidc.IssuerMismatchError](err); other {
		return nil, untrustedError("other_issuer")
	}
	if err != nil {
		return nil, &Error{Kind: Unavailable, Why: "discovery"}
	}
	var more struct {
		Keys     string   `json:"jwks_uri"`
		Methods  []string `json:"token_endpoint_auth_methods_supported"`
		TellsIss bool     `json:"authorization_response_iss_parameter_supported"`
	}
	if provider.Claims(&more) != nil {
		return nil, untrustedError("discovery")
	}
	endpoint := provider.Endpoint()
	addresses := []string{endpoint.AuthURL, endpoint.TokenURL, more.Keys}
	if userInfo := provider.UserInfoEndpoint(); userInfo != "" {
		addresses = append(addresses, userInfo)
	}
	for _, address := range addresses {
		if !isHTTPSOrLoopback(address) {
			return nil, untrustedError("address")
		}
	}
	// A provider that lists no method accepts the secret in a header (Discovery 1.0, section 3).
	// The client must not try the header first and then the body, because a failed try would use up
	// the authorization code.
	endpoint.AuthStyle = oauth2.AuthStyleInHeader
	if p.settings.ClientSecret == "" || len(more.Methods) > 0 && !slices.Contains(more.Methods, "client_secret_basic") {
		endpoint.AuthStyle = oauth2.AuthStyleInParams
	}
	return &metadata{
		at: p.now(), provider: provider, tellsIss: more.TellsIss, jwks: more.Keys,
		config: oauth2.Config{
			ClientID: p.settings.ClientID, ClientSecret: p.settings.ClientSecret, RedirectURL: p.settings.RedirectURL,
			Scopes: p.settings.Scopes, Endpoint: endpoint,
		},
		verifier: provider.VerifierContext(ctx, &oidc.Config{
			ClientID: p.settings.ClientID, SupportedSigningAlgs: signatureAlgorithms, Now: p.now,
		}),
	}, nil
}

// isHTTPSOrLoopback reports whether address is an https URL, or an http URL of this machine (a
// loopback address). For a URL without a host, or with a user or a fragment, it returns false.
func isHTTPSOrLoopback(address string) bool {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.User != nil || u.Fragment != "" {
		return false
	}
	return u.Scheme == "https" || u.Scheme == "http" && loopback.IsHost(u.Hostname())
}
