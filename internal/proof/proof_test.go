package proof

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"sendcode/internal/keyring"
)

const (
	k1 = "k1:q83vEjRWeJCrze8SNFZ4kLD3QZxs0lr2uTnVYQ1bXoM="
	k2 = "k2:8mF2hT0cJr4xWq7nZl9sVb3yKd6gPe1uAoXiRtNwQzE="
)

func signer(t *testing.T, keys string) *Signer {
	t.Helper()
	ring, err := keyring.Parse(keys)
	if err != nil {
		t.Fatal(err)
	}
	return New(ring)
}

// What the service reads is what it signed, and nothing else.
func TestOpen(t *testing.T) {
	s := signer(t, k1)
	token, err := s.Sign(facts, now)
	if err != nil {
		t.Fatal(err)
	}
	if f, expires, err := s.Open(token); err != nil || f != facts || !expires.Equal(now.Add(Life).Truncate(time.Second)) {
		t.Errorf("%+v, %v, %v", f, expires, err)
	}
	rotated := signer(t, k2+","+k1)
	if f, _, err := rotated.Open(token); err != nil || f != facts {
		t.Errorf("after a rotation: %+v, %v", f, err)
	}
	parts := strings.Split(token, ".")
	none := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none","kid":"k1"}`))
	for what, token := range map[string]string{
		"empty": "", "no token": "abc", "another key": must(signer(t, k2).Sign(facts, now)), "same name": must(signer(t, "k1:"+strings.TrimPrefix(k2, "k2:")).Sign(facts, now)),
		"no signature": parts[0] + "." + parts[1] + ".", "alg none": none + "." + parts[1] + ".", "cut": token[:len(token)-3],
	} {
		if f, _, err := s.Open(token); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %+v, %v", what, f, err)
		}
	}
}

func must(token string, err error) string {
	if err != nil {
		panic(err)
	}
	return token
}

// verify is what a back end does, with nothing but the served keys.
func verify(t *testing.T, served []byte, token string, at time.Time) (map[string]any, error) {
	t.Helper()
	var set jose.JSONWebKeySet
	if err := json.Unmarshal(served, &set); err != nil {
		t.Fatal(err)
	}
	for _, k := range set.Keys {
		if k.Algorithm != "EdDSA" || k.Use != "sig" || !k.IsPublic() {
			t.Errorf("served: %+v", k)
		}
	}
	parsed, err := jwt.ParseSigned(token, []jose.SignatureAlgorithm{jose.EdDSA})
	if err != nil {
		return nil, err
	}
	var all map[string]any
	var standard jwt.Claims
	if err := parsed.Claims(set, &all, &standard); err != nil {
		return nil, err
	}
	return all, standard.ValidateWithLeeway(jwt.Expected{Issuer: "sendcode", AnyAudience: jwt.Audience{"shop"}, Time: at}, 0)
}

var (
	now   = time.Date(2030, 1, 2, 3, 4, 5, 6, time.UTC)
	facts = Facts{ID: "v1", App: "shop", Recipient: "00ff", Channel: "email", Purpose: "login"}
)

func TestProofIsCheckedWithTheServedKeys(t *testing.T) {
	s := signer(t, k1)
	token, err := s.Sign(facts, now)
	if err != nil {
		t.Fatal(err)
	}
	served, err := s.Keys()
	if err != nil {
		t.Fatal(err)
	}
	c, err := verify(t, served, token, now.Add(Life-time.Second))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]any{
		"iss": "sendcode", "sub": "00ff", "jti": "v1", "channel": "email", "purpose": "login",
		"iat": float64(now.Unix()), "exp": float64(now.Unix() + 300),
	} {
		if c[name] != want {
			t.Errorf("%s is %v, want %v", name, c[name], want)
		}
	}
	if aud, ok := c["aud"].([]any); !ok || len(aud) != 1 || aud[0] != "shop" {
		t.Errorf("aud is %v", c["aud"])
	}
	if _, err := verify(t, served, token, now.Add(Life+time.Second)); !errors.Is(err, jwt.ErrExpired) {
		t.Errorf("after its life: %v", err)
	}
	parts := strings.Split(token, ".")
	forged := base64.RawURLEncoding.EncodeToString([]byte(`{"iss":"sendcode","aud":["shop"],"sub":"else","exp":9999999999}`))
	if _, err := verify(t, served, parts[0]+"."+forged+"."+parts[2], now); !errors.Is(err, jose.ErrCryptoFailure) {
		t.Errorf("forged: %v", err)
	}
	other, err := signer(t, "k1:"+strings.TrimPrefix(k2, "k2:")).Sign(facts, now)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := verify(t, served, other, now); !errors.Is(err, jose.ErrCryptoFailure) {
		t.Errorf("another key under the same id: %v", err)
	}
}

func TestRotationFollowsTheRing(t *testing.T) {
	old, err := signer(t, k1).Sign(facts, now)
	if err != nil {
		t.Fatal(err)
	}
	rotated := signer(t, k2+","+k1)
	fresh, err := rotated.Sign(facts, now)
	if err != nil {
		t.Fatal(err)
	}
	served, err := rotated.Keys()
	if err != nil {
		t.Fatal(err)
	}
	for name, token := range map[string]string{"old": old, "fresh": fresh} {
		if _, err := verify(t, served, token, now); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	parsed, err := jwt.ParseSigned(fresh, []jose.SignatureAlgorithm{jose.EdDSA})
	if err != nil || parsed.Headers[0].KeyID != "k2" {
		t.Errorf("signed with %+v, want the first key; %v", parsed, err)
	}
	served, err = signer(t, k2).Keys()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := verify(t, served, old, now); err == nil {
		t.Error("a proof of a key that left the ring is good")
	}
	if strings.Contains(string(served), `"d"`) {
		t.Error("a private key is served")
	}
}

func TestNoKeyNoProof(t *testing.T) {
	if _, err := New(&keyring.Ring{}).Sign(facts, now); !errors.Is(err, keyring.ErrUnknownKey) {
		t.Errorf("%v", err)
	}
	if keys, err := New(&keyring.Ring{}).Keys(); err != nil || string(keys) != `{"keys":[]}` {
		t.Errorf("%s, %v", keys, err)
	}
}
