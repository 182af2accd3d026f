package proof

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

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

// verify is what a back end does, with nothing but the served keys.
func verify(t *testing.T, served []byte, token string, at time.Time) (*jwt.Token, error) {
	t.Helper()
	var set struct {
		Keys []struct{ Kty, Crv, Alg, Use, Kid, X string }
	}
	if err := json.Unmarshal(served, &set); err != nil {
		t.Fatal(err)
	}
	return jwt.Parse(token, func(tok *jwt.Token) (any, error) {
		for _, k := range set.Keys {
			if k.Kid == tok.Header["kid"] && k.Kty == "OKP" && k.Crv == "Ed25519" && k.Alg == "EdDSA" && k.Use == "sig" {
				x, err := base64.RawURLEncoding.DecodeString(k.X)
				return ed25519.PublicKey(x), err
			}
		}
		return nil, errors.New("no such key")
	}, jwt.WithValidMethods([]string{"EdDSA"}), jwt.WithIssuer("sendcode"), jwt.WithAudience("shop"), jwt.WithExpirationRequired(),
		jwt.WithIssuedAt(), jwt.WithTimeFunc(func() time.Time { return at }))
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
	tok, err := verify(t, served, token, now.Add(Life-time.Second))
	if err != nil {
		t.Fatal(err)
	}
	c := tok.Claims.(jwt.MapClaims)
	for name, want := range map[string]any{
		"iss": "sendcode", "sub": "00ff", "jti": "v1", "channel": "email", "purpose": "login",
		"iat": float64(now.Unix()), "exp": float64(now.Unix() + 300),
	} {
		if c[name] != want {
			t.Errorf("%s is %v, want %v", name, c[name], want)
		}
	}
	if _, err := verify(t, served, token, now.Add(Life+time.Second)); !errors.Is(err, jwt.ErrTokenExpired) {
		t.Errorf("after its life: %v", err)
	}
	parts := strings.Split(token, ".")
	forged := base64.RawURLEncoding.EncodeToString([]byte(`{"iss":"sendcode","aud":["shop"],"sub":"else","exp":9999999999}`))
	if _, err := verify(t, served, parts[0]+"."+forged+"."+parts[2], now); !errors.Is(err, jwt.ErrTokenSignatureInvalid) {
		t.Errorf("forged: %v", err)
	}
	other, err := signer(t, "k1:"+strings.TrimPrefix(k2, "k2:")).Sign(facts, now)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := verify(t, served, other, now); !errors.Is(err, jwt.ErrTokenSignatureInvalid) {
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
	tok, err := verify(t, served, fresh, now)
	if err != nil || tok.Header["kid"] != "k2" {
		t.Errorf("signed with %v, want the first key; %v", tok.Header["kid"], err)
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
