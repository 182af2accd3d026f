package clients

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"sendcode/internal/app/apptest"
)

// A back end believes a proof with nothing but what /.well-known/jwks.json serves, also after the ring was rotated; only
// the right code is given one.
func TestProof(t *testing.T) {
	s := apptest.OnRealParts(t).Start(1)
	a := s.Ask(0, apptest.Ana)
	code := s.CodeIn(s.AwaitMail(apptest.Ana, 1)[0])
	if token := proofIn(s, s.Check(0, a.ID, apptest.Wrong(code))); token != "" {
		t.Error("a wrong code was proven")
	}
	token := proofIn(s, s.Check(0, a.ID, code))
	if again := proofIn(s, s.Check(0, a.ID, code)); again != "" {
		t.Error("proven twice")
	}
	s.Env["SENDCODE_SECRET_KEYS"] = "k2:GdNP2re+4Z5WmZgcWzWZMergtiA9mCDiG5ZlOFP4Adg=," + s.Env["SENDCODE_SECRET_KEYS"]
	s.Start(1)
	for i := range s.Replicas {
		served := s.Do(i, http.MethodGet, "/.well-known/jwks.json", "", func(r *http.Request) { r.Header.Del("Authorization") })
		if err := apptest.Conforms(s.Specification(), http.MethodGet, "/.well-known/jwks.json", served); err != nil {
			t.Error(err)
		}
		claims, err := believed(served.Raw, token)
		if err != nil {
			t.Fatalf("replica %d: %v", i, err)
		}
		if claims["jti"] != a.ID || claims["purpose"] != "default" || claims["channel"] != "email" || len(claims["sub"].(string)) != 32 {
			t.Errorf("%v", claims)
		}
	}
}

func proofIn(s *apptest.Stack, a apptest.Answer) string {
	s.Helper()
	if err := apptest.Conforms(s.Specification(), http.MethodPost, "/v1/verifications/"+a.ID+"/check", a); err != nil {
		s.Error(err)
	}
	var body struct{ Proof string }
	if err := json.Unmarshal(a.Raw, &body); err != nil {
		s.Fatal(err)
	}
	return body.Proof
}

func believed(served []byte, token string) (claims map[string]any, err error) {
	var set jose.JSONWebKeySet
	if err := json.Unmarshal(served, &set); err != nil {
		return nil, err
	}
	parsed, err := jwt.ParseSigned(token, []jose.SignatureAlgorithm{jose.EdDSA})
	if err != nil {
		return nil, err
	}
	var standard jwt.Claims
	if err := parsed.Claims(set, &claims, &standard); err != nil {
		return nil, err
	}
	return claims, standard.Validate(jwt.Expected{Issuer: "sendcode", AnyAudience: jwt.Audience{"default"}, Time: time.Now()})
}
