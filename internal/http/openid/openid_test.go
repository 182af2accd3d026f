package openid

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"sendcode/internal/http/openid/openidtest"
	"sendcode/internal/kit/servertest"
)

const redirect = "http://console.example/admin/oidc/callback"

func settings(p *openidtest.Provider) Settings {
	return Settings{
		Issuer: p.URL, ClientID: openidtest.ClientID, ClientSecret: openidtest.ClientSecret, RedirectURL: redirect,
		Scopes: []string{"openid", "email"}, NameClaim: "sub", RoleClaim: "groups",
	}
}

// open starts a provider and returns it with a client.
func open(t *testing.T) (*openidtest.Provider, *Provider) {
	t.Helper()
	server := openidtest.New(t, redirect)
	return server, New(settings(server), time.Now)
}

func begin(t *testing.T, p *Provider) (url.Values, LoginAttempt) {
	t.Helper()
	address, attempt, err := p.Begin(t.Context())
	servertest.OK(t, err)
	return openidtest.Visit(t, address).Query(), attempt
}

// login begins a login, applies the changes, and finishes the login.
func login(t *testing.T, p *Provider, changes ...func()) (Identity, error) {
	t.Helper()
	answer, attempt := begin(t, p)
	for _, change := range changes {
		change()
	}
	return p.Finish(t.Context(), attempt, answer)
}

// refused checks that err is an Error with this kind and word.
func refused(t *testing.T, what string, err error, kind ErrorKind, why string) {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) || e.Kind != kind || e.Why != why {
		t.Errorf("%s: %v, want %s %s", what, err, kind, why)
	}
}

func TestLogin(t *testing.T) {
	server, p := open(t)
	server.Claims = map[string]any{"sub": "ana-1", "groups": []any{"staff", 7, "", "on-call"}}
	answer, attempt := begin(t, p)
	person, err := p.Finish(t.Context(), attempt, answer)
	servertest.OK(t, err)
	servertest.Same(t, "name", person.Name, "ana-1")
	servertest.Same(t, "roles", strings.Join(person.RoleValues, ", "), "staff, on-call")
	_, err = p.Finish(t.Context(), attempt, answer)
	refused(t, "the code once more", err, Untrusted, "invalid_grant")
	servertest.Same(t, "discoveries", server.Seen("/.well-known/openid-configuration"), 1)
	_, other := begin(t, p)
	if other.State == attempt.State || other.Nonce == attempt.Nonce || other.Verifier == attempt.Verifier || len(other.State) < 26 ||
		len(other.Verifier) < 43 {
		t.Errorf("%+v after %+v", other, attempt)
	}
}

// The state, issuer and code that a browser brings must belong to the attempt.
func TestFinishRefusesAnswersOfOthers(t *testing.T) {
	_, p := open(t)
	answer, attempt := begin(t, p)
	for what, c := range map[string]struct {
		change func(url.Values)
		kind   ErrorKind
		why    string
	}{
		"another state":      {func(v url.Values) { v.Set("state", "x") }, Untrusted, "state"},
		"no state":           {func(v url.Values) { v.Del("state") }, Untrusted, "state"},
		"two states":         {func(v url.Values) { v.Add("state", v.Get("state")) }, Untrusted, "state"},
		"no code":            {func(v url.Values) { v.Del("code") }, Untrusted, "no_code"},
		"two codes":          {func(v url.Values) { v.Add("code", "x") }, Untrusted, "no_code"},
		"a mix-up":           {func(v url.Values) { v.Set("iss", "https://evil.example") }, Untrusted, "other_issuer"},
		"no issuer":          {func(v url.Values) { v.Del("iss") }, Untrusted, "other_issuer"},
		"denied":             {func(v url.Values) { v.Set("error", "access_denied") }, Refused, "access_denied"},
		"an error of theirs": {func(v url.Values) { v.Set("error", "<script>") }, Refused, ""},
		"denied by another":  {func(v url.Values) { v.Set("error", "access_denied"); v.Set("state", "x") }, Untrusted, "state"},
		"another code":       {func(v url.Values) { v.Set("code", "x") }, Untrusted, "invalid_grant"},
	} {
		changed, _ := url.ParseQuery(answer.Encode())
		c.change(changed)
		_, err := p.Finish(t.Context(), attempt, changed)
		refused(t, what, err, c.kind, c.why)
	}
	_, err := p.Finish(t.Context(), LoginAttempt{}, url.Values{"state": {""}, "code": answer["code"], "iss": answer["iss"]})
	refused(t, "no attempt", err, Untrusted, "state")
	// None of these has used up the code.
	if _, err := p.Finish(t.Context(), attempt, answer); err != nil {
		t.Error(err)
	}
	// A code that was taken from another browser can't be used in this browser.
	stolen, _ := begin(t, p)
	_, mine := begin(t, p)
	stolen.Set("state", mine.State)
	_, err = p.Finish(t.Context(), mine, stolen)
	refused(t, "a stolen code", err, Untrusted, "invalid_grant")
}

// with returns a change to a provider: it sets one claim of its tokens, or removes the claim if
// value is nil.
func with(name string, value any) func(p *openidtest.Provider) {
	return func(p *openidtest.Provider) {
		p.Token = func(claims map[string]any) string {
			if claims[name] = value; value == nil {
				delete(claims, name)
			}
			return p.Signed(claims)
		}
	}
}

func TestFinishRefusesBadTokens(t *testing.T) {
	now := time.Now()
	for what, c := range map[string]struct {
		wrong func(p *openidtest.Provider)
		why   string
	}{
		"another's nonce":    {with("nonce", "x"), "nonce"},
		"no nonce":           {with("nonce", nil), "nonce"},
		"another's audience": {with("aud", "shop"), "id_token"},
		"two audiences":      {with("aud", []string{openidtest.ClientID, "shop"}), "other_party"},
		"another's party":    {with("azp", "shop"), "other_party"},
		"another issuer":     {with("iss", "https://evil.example"), "id_token"},
		"expired":            {with("exp", now.Add(-time.Second).Unix()), "expired"},
		"of the future":      {with("iat", now.Add(time.Hour).Unix()), "future"},
		"another token":      {with("at_hash", "AAAAAAAAAAAAAAAAAAAAAA"), "access_token"},
		"unsigned": {func(p *openidtest.Provider) {
			p.Token = func(claims map[string]any) string {
				return "eyJhbGciOiJub25lIn0." + strings.Split(p.Signed(claims), ".")[1] + "." // {"alg":"none"}
			}
		}, "id_token"},
		"signed with the public key": {func(p *openidtest.Provider) {
			key, _ := p.PublicKey().MarshalJSON()
			p.Token = func(claims map[string]any) string {
				return p.SignedBy(jose.SigningKey{Algorithm: jose.HS256, Key: key}, claims)
			}
		}, "id_token"},
		"another's key":   {func(p *openidtest.Provider) { p.Token = openidtest.New(t, redirect).Signed }, "id_token"},
		"no token at all": {func(p *openidtest.Provider) { p.Token = func(map[string]any) string { return "" } }, "no_id_token"},
	} {
		server, p := open(t)
		person, err := login(t, p, func() { server.Do(func() { c.wrong(server) }) })
		refused(t, what, err, Untrusted, c.why)
		servertest.Same(t, what, person.Name, "")
	}
	server, p := open(t)
	server.Claims = map[string]any{"sub": "ana", "aud": []string{openidtest.ClientID, "shop"}, "azp": openidtest.ClientID}
	if _, err := login(t, p); err != nil {
		t.Errorf("for two, asked for by us: %v", err)
	}
}

func TestTextClaims(t *testing.T) {
	server := openidtest.New(t, redirect)
	for _, c := range []struct {
		claim  string
		claims map[string]any
		name   string
		why    string
	}{
		{"email", map[string]any{"email": "ana@example.com", "email_verified": true}, "ana@example.com", ""},
		{"email", map[string]any{"email": "ana@example.com", "email_verified": "true"}, "ana@example.com", ""},
		{"email", map[string]any{"email": "ana@example.com", "email_verified": false}, "", "unverified"},
		{"email", map[string]any{"email": "ana@example.com"}, "", "unverified"},
		{"preferred_username", map[string]any{"preferred_username": "ana"}, "ana", ""},
		{"preferred_username", map[string]any{"preferred_username": ""}, "", "claim"},
		{"preferred_username", map[string]any{"preferred_username": 7}, "", "claim"},
		{"preferred_username", map[string]any{"preferred_username": "ana\nowner"}, "", "claim"},
		{"preferred_username", map[string]any{"preferred_username": "ana lee"}, "", "claim"},
		{"preferred_username", map[string]any{"preferred_username": strings.Repeat("a", 201)}, "", "claim"},
		{"", map[string]any{}, "", "claim"},
	} {
		server.Do(func() { server.Claims = c.claims })
		s := settings(server)
		s.NameClaim = c.claim
		person, err := login(t, New(s, time.Now))
		if c.why != "" {
			refused(t, fmt.Sprint(c.claims), err, Nameless, c.why)
		} else if err != nil || person.Name != c.name {
			t.Errorf("%v: %v, %v", c.claims, person, err)
		}
	}
	for raw, want := range map[string]string{
		`"staff"`: "[staff]", `null`: "[]", `7`: "[]", `{"staff":true}`: "[]",
		`["a",["b"],"c"]`: "[a c]", ``: "[]",
	} {
		servertest.Same(t, raw, fmt.Sprint(textClaims(json.RawMessage(raw))), want)
	}
}

// Claims that the ID token lacks come from the userinfo endpoint, if its answer is about the same
// person.
func TestClaimsOfUserInfo(t *testing.T) {
	type outcome struct {
		name, roles string // of the identity
		kind        ErrorKind
		why         string
	}
	for what, c := range map[string]struct {
		name, role string
		token      map[string]any
		info       map[string]any
		want       outcome
	}{
		"groups": {
			"sub", "groups", map[string]any{}, map[string]any{"groups": []string{"staff"}}, outcome{name: "1", roles: "staff"},
		},
		"groups in the token": {
			"sub", "groups", map[string]any{"groups": "a"}, map[string]any{"groups": "b"}, outcome{name: "1", roles: "a"},
		},
		"nobody has groups": {"sub", "groups", map[string]any{}, map[string]any{}, outcome{name: "1"}},
		"no endpoint":       {"sub", "groups", map[string]any{}, nil, outcome{name: "1"}},
		"name": {
			"preferred_username", "", map[string]any{}, map[string]any{"preferred_username": "ana"}, outcome{name: "ana"},
		},
		"address": {
			"email", "groups", map[string]any{"groups": "a"},
			map[string]any{"email": "ana@x.example", "email_verified": true}, outcome{name: "ana@x.example", roles: "a"},
		},
		"verified there": {
			"email", "", map[string]any{"email": "ana@x.example"},
			map[string]any{"email": "ana@x.example", "email_verified": true}, outcome{name: "ana@x.example"},
		},
		"another address is verified": {
			"email", "", map[string]any{"email": "ana@x.example"},
			map[string]any{"email": "eva@x.example", "email_verified": true}, outcome{kind: Nameless, why: "unverified"},
		},
		"not verified there": {
			"email", "", map[string]any{},
			map[string]any{"email": "ana@x.example", "email_verified": false}, outcome{kind: Nameless, why: "unverified"},
		},
		"another person": {
			"sub", "groups", map[string]any{}, map[string]any{"sub": "2", "groups": "staff"}, outcome{kind: Untrusted, why: "userinfo"},
		},
		"nested": {
			"sub", "realm_access.roles", map[string]any{"realm_access": map[string]any{"roles": []string{"a"}}}, nil,
			outcome{name: "1", roles: "a"},
		},
		"nested there": {
			"sub", "a.b.c", map[string]any{}, map[string]any{"a": map[string]any{"b": map[string]any{"c": "x"}}},
			outcome{name: "1", roles: "x"},
		},
		"a name with stops": {
			"sub", "https://x.example/roles", map[string]any{"https://x.example/roles": "a"}, nil, outcome{name: "1", roles: "a"},
		},
		"nothing within": {"sub", "groups.x", map[string]any{"groups": []string{"x"}}, nil, outcome{name: "1"}},
	} {
		server, _ := open(t)
		s := settings(server)
		s.NameClaim, s.RoleClaim = c.name, c.role
		c.token["sub"] = "1"
		server.Claims = c.token
		if server.UserInfo = c.info; c.info != nil && c.info["sub"] == nil {
			c.info["sub"] = "1"
		}
		person, err := login(t, New(s, time.Now))
		got := outcome{name: person.Name, roles: strings.Join(person.RoleValues, ", ")}
		if e, ok := errors.AsType[*Error](err); ok {
			got.kind, got.why = e.Kind, e.Why
		}
		servertest.Same(t, what, got, c.want)
	}
	server, _ := open(t)
	server.UserInfo = map[string]any{}
	server.At("/userinfo", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) })
	_, err := login(t, New(settings(server), time.Now))
	refused(t, "userinfo that is away", err, Unavailable, "userinfo")
}
