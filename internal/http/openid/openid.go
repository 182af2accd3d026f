// Package openid logs people in through an OpenID Connect provider, with the authorization code
// flow and PKCE.
//
// The console uses this package as an alternative to passwords. The console sends a browser to the
// URL of Begin, stores the LoginAttempt for that browser, and passes the provider's answer to
// Finish. An Identity has only a name and role values. The console decides what the person may do.
//
// The package accepts only claims for this client and this attempt, signed with the provider's
// current keys. An Error has only fixed words, never a text from the provider, so that it can be
// shown and logged.
package openid

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
)

// Settings are the provider's and the client's settings.
type Settings struct {
	Issuer       string // https://…, as the provider writes it
	ClientID     string
	ClientSecret string   // empty: a public client, which only PKCE protects
	RedirectURL  string   // the exact address that browsers come back to
	Scopes       []string // "openid" is among them
	// NameClaim is the claim that names a person. The claim "email" is accepted only if the
	// provider has verified the address. RoleClaim is a claim whose values may give roles. If
	// RoleClaim is empty, no claim gives roles. If a name contains dots and no claim has that name,
	// the name is a path into objects, such as "realm_access.roles".
	NameClaim, RoleClaim string
}

// Provider is a client of one provider. Safe for concurrent use.
type Provider struct {
	settings Settings
	client   *http.Client
	now      func() time.Time

	turn  chan struct{} // locks the field known; a channel, so that a waiting login can give up
	known *metadata
}

// metadata is the provider's metadata from discovery.
type metadata struct {
	at       time.Time
	config   oauth2.Config
	provider *oidc.Provider
	verifier *oidc.IDTokenVerifier
	jwks     string
	tellsIss bool // each answer of the provider has its issuer (RFC 9207)
}

// metadataLife is how long the metadata are cached. Keys are fetched again whenever a token names
// an unknown key.
const metadataLife = time.Hour

// New makes a Provider. The Provider connects at the first login, so that the process can start
// even if the provider is unavailable.
func New(s Settings, now func() time.Time) *Provider {
	return &Provider{settings: s, client: newClient(), now: now, turn: make(chan struct{}, 1)}
}

// LoginAttempt has the secrets of one login attempt. Keep it secret, bind it to one browser, and
// use it only once.
type LoginAttempt struct {
	State    string `json:"s"`
	Nonce    string `json:"n"`
	Verifier string `json:"v"` // of PKCE (RFC 7636)
}

// Identity is a person as the provider knows them.
type Identity struct {
	Name       string   // the value of NameClaim
	RoleValues []string // the values of RoleClaim
}

// Begin starts an attempt and returns the URL to which the caller must send the browser. Each error
// is an *Error.
func (p *Provider) Begin(ctx context.Context) (authURL string, attempt LoginAttempt, err error) {
	m, err := p.discover(ctx)
	if err != nil {
		return "", LoginAttempt{}, err
	}
	a := LoginAttempt{State: rand.Text(), Nonce: rand.Text(), Verifier: oauth2.GenerateVerifier()}
	return m.config.AuthCodeURL(a.State, oidc.Nonce(a.Nonce), oauth2.S256ChallengeOption(a.Verifier)), a, nil
}

// Finish checks the answer that the browser brought back from the provider, exchanges the answer's
// code for an ID token, and verifies the token. If the login fails, Finish returns an *Error.
func (p *Provider) Finish(ctx context.Context, a LoginAttempt, answer url.Values) (Identity, error) {
	m, err := p.discover(ctx)
	if err != nil {
		return Identity{}, err
	}
	code, err := m.checkedCode(p.settings.Issuer, a, answer)
	if err != nil {
		return Identity{}, err
	}
	ctx = oidc.ClientContext(ctx, p.client)
	token, err := m.config.Exchange(ctx, code, oauth2.VerifierOption(a.Verifier))
	if err != nil {
		return Identity{}, exchangeError(err)
	}
	raw, _ := token.Extra("id_token").(string)
	if raw == "" {
		return Identity{}, untrustedError("no_id_token")
	}
	id, err := m.verifier.Verify(ctx, raw)
	if err != nil {
		return Identity{}, verifyError(err)
	}
	if err := p.checkIDToken(id, a, token.AccessToken); err != nil {
		return Identity{}, err
	}
	claims, err := p.claims(ctx, m.provider, id, token)
	if err != nil {
		return Identity{}, err
	}
	return p.personFromClaims(claims)
}

// checkedCode returns the authorization code of an answer. It first checks that the answer
// belongs to the attempt. It also checks this for an answer with an error. Without this check,
// other people could end the attempt with a forged error.
func (m *metadata) checkedCode(issuer string, a LoginAttempt, answer url.Values) (string, error) {
	if a.State == "" || !givenOnce(answer, "state") ||
		subtle.ConstantTimeCompare([]byte(answer.Get("state")), []byte(a.State)) != 1 {
		return "", untrustedError("state")
	}
	// Never send a code of another provider to this provider (RFC 9207 section 2.4).
	if answer.Has("iss") && answer.Get("iss") != issuer || m.tellsIss && !givenOnce(answer, "iss") {
		return "", untrustedError("other_issuer")
	}
	if answer.Has("error") {
		why := answer.Get("error")
		if !slices.Contains(loggableErrors, why) {
			why = "" // the error could be any text, and texts of the provider are not logged
		}
		return "", &Error{Kind: Refused, Why: why}
	}
	if !givenOnce(answer, "code") || answer.Get("code") == "" {
		return "", untrustedError("no_code")
	}
	return answer.Get("code"), nil
}

// givenOnce reports whether a parameter is given exactly once. Duplicates are ambiguous.
func givenOnce(answer url.Values, name string) bool { return len(answer[name]) == 1 }

// checkIDToken makes the checks of an ID token that the library leaves to its callers (OpenID
// Connect Core 1.0, section 3.1.3.7).
func (p *Provider) checkIDToken(id *oidc.IDToken, a LoginAttempt, accessToken string) error {
	if a.Nonce == "" || subtle.ConstantTimeCompare([]byte(id.Nonce), []byte(a.Nonce)) != 1 {
		return untrustedError("nonce")
	}
	var more struct {
		AuthorizedParty string `json:"azp"`
	}
	if id.Claims(&more) != nil {
		return untrustedError("claims")
	}
	others := slices.ContainsFunc(id.Audience, func(s string) bool { return s != p.settings.ClientID })
	if more.AuthorizedParty != "" && more.AuthorizedParty != p.settings.ClientID ||
		others && more.AuthorizedParty == "" {
		return untrustedError("other_party")
	}
	if id.IssuedAt.After(p.now().Add(maxClockLead)) {
		return untrustedError("future")
	}
	if id.AccessTokenHash != "" && id.VerifyAccessToken(accessToken) != nil {
		return untrustedError("access_token")
	}
	return nil
}

// maxClockLead is how far the provider's clock may be ahead of this process's.
const maxClockLead = 5 * time.Minute
