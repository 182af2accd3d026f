package proof_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"sendcode/internal/codes/keys"
	"sendcode/internal/kit/servertest"
	"sendcode/internal/store/storetest"
	"sendcode/internal/verify/proof"
)

// notAProof is the error for every text that is not a proof.
const notAProof = "proof: this is not a proof of this service"

const (
	proofKey1 = "k1:q83vEjRWeJCrze8SNFZ4kLD3QZxs0lr2uTnVYQ1bXoM="
	proofKey2 = "k2:8mF2hT0cJr4xWq7nZl9sVb3yKd6gPe1uAoXiRtNwQzE="
)

func proofSigner(t *testing.T, entries string) *proof.Signer {
	t.Helper()
	return proof.New(storetest.Must(keys.Parse(entries))(t))
}

// verifyProof checks a proof as a back end does, with only the served keys.
func verifyProof(t *testing.T, keys *proof.Signer, token string, at time.Time) (all map[string]any, err error) {
	t.Helper()
	served, err := keys.KeySet()
	var set jose.JSONWebKeySet
	if err != nil || json.Unmarshal(served, &set) != nil || strings.Contains(string(served), `"d"`) {
		t.Fatalf("%s, %v", served, err)
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
	var standard jwt.Claims
	if err := parsed.Claims(set, &all, &standard); err != nil {
		return nil, err
	}
	return all, standard.ValidateWithLeeway(jwt.Expected{Issuer: "sendcode", AnyAudience: jwt.Audience{"shop"}, Time: at}, 0)
}

var (
	proofNow   = time.Date(2030, 1, 2, 3, 4, 5, 6, time.UTC)
	proofFacts = proof.Claims{ID: "v1", App: "shop", RecipientHash: "00ff", Channel: "email", Purpose: "login"}
)

func signProof(t *testing.T, s *proof.Signer) string {
	t.Helper()
	return storetest.Must(s.Sign(proofFacts, proofNow))(t)
}

func TestProofIsCheckedWithTheServedKeys(t *testing.T) {
	s := proofSigner(t, proofKey1)
	token := signProof(t, s)
	c := storetest.Must(verifyProof(t, s, token, proofNow.Add(proof.Life-time.Second)))(t)
	want := map[string]any{
		"iss": "sendcode", "sub": "00ff", "jti": "v1", "channel": "email", "purpose": "login", "aud": []any{"shop"},
		"iat": float64(proofNow.Unix()), "exp": float64(proofNow.Unix() + 1800),
	}
	if !reflect.DeepEqual(c, want) {
		t.Errorf("%v, want %v", c, want)
	}
	if _, err := verifyProof(t, s, token, proofNow.Add(proof.Life+time.Second)); !errors.Is(err, jwt.ErrExpired) {
		t.Errorf("after its life: %v", err)
	}
}

// Neither the service nor a back end accepts a proof that the service has not signed.
func TestForgedProofs(t *testing.T) {
	s := proofSigner(t, proofKey1)
	token := signProof(t, s)
	if f, expires, err := s.VerifySignature(token); err != nil || f != proofFacts ||
		!expires.Equal(proofNow.Add(proof.Life).Truncate(time.Second)) {
		t.Errorf("%+v, %v, %v", f, expires, err)
	}
	parts := strings.Split(token, ".")
	none := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none","kid":"k1"}`))
	claims := base64.RawURLEncoding.EncodeToString([]byte(`{"iss":"sendcode","aud":["shop"],"sub":"else","exp":9999999999}`))
	for what, token := range map[string]string{
		"empty": "", "no token": "abc", "another key": signProof(t, proofSigner(t, proofKey2)),
		"another key under the same ID": signProof(t, proofSigner(t, "k1:"+strings.TrimPrefix(proofKey2, "k2:"))),
		"no signature":                  parts[0] + "." + parts[1] + ".", "alg none": none + "." + parts[1] + ".",
		"cut":          token[:len(token)-3],
		"other claims": parts[0] + "." + claims + "." + parts[2],
	} {
		_, _, err := s.VerifySignature(token)
		servertest.Same(t, what, fmt.Sprint(err), notAProof)
		if c, err := verifyProof(t, s, token, proofNow); err == nil {
			t.Errorf("%s: a back end reads %v", what, c)
		}
	}
}

func TestRotationFollowsTheRing(t *testing.T) {
	old, rotated := signProof(t, proofSigner(t, proofKey1)), proofSigner(t, proofKey2+","+proofKey1)
	fresh := signProof(t, rotated)
	for name, token := range map[string]string{"old": old, "fresh": fresh} {
		if _, err := verifyProof(t, rotated, token, proofNow); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if f, _, err := rotated.VerifySignature(token); err != nil || f != proofFacts {
			t.Errorf("%s: %+v, %v", name, f, err)
		}
	}
	parsed, err := jwt.ParseSigned(fresh, []jose.SignatureAlgorithm{jose.EdDSA})
	if err != nil || parsed.Headers[0].KeyID != "k2" {
		t.Errorf("signed with %+v, want the first key; %v", parsed, err)
	}
	if _, err := verifyProof(t, proofSigner(t, proofKey2), old, proofNow); err == nil {
		t.Error("a proof of a key that left the ring is good")
	}
}

// A proof has only one valid text, so a back end that remembers texts instead of IDs recognizes a
// repetition.
func TestAProofHasOneText(t *testing.T) {
	s := proofSigner(t, proofKey1)
	token := signProof(t, s)
	if _, _, err := s.VerifySignature(token); err != nil {
		t.Fatal(err)
	}
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	parts := strings.Split(token, ".")
	others := []string{token + "=", token + "\n", token[:9] + "\r\n" + token[9:], token + "."}
	for n, part := range parts {
		for _, last := range alphabet {
			changed := slices.Clone(parts)
			if changed[n] = part[:len(part)-1] + string(last); changed[n] != part {
				others = append(others, strings.Join(changed, "."))
			}
		}
	}
	for _, other := range others {
		_, _, err := s.VerifySignature(other)
		servertest.Same(t, other, fmt.Sprint(err), notAProof)
	}
}
