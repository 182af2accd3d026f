package app

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// A back end believes a proof with nothing but what /.well-known/jwks.json serves, also after the ring was rotated; only
// the right code is given one.
func TestProof(t *testing.T) {
	s := onRealParts(t).start(1)
	a := s.ask(0, ana)
	code := s.codeIn(s.awaitMail(ana, 1)[0])
	if token := s.proofIn(s.check(0, a.ID, wrong(code))); token != "" {
		t.Error("a wrong code was proven")
	}
	token := s.proofIn(s.check(0, a.ID, code))
	if again := s.proofIn(s.check(0, a.ID, code)); again != "" {
		t.Error("proven twice")
	}
	s.env["SENDCODE_SECRET_KEYS"] = "k2:GdNP2re+4Z5WmZgcWzWZMergtiA9mCDiG5ZlOFP4Adg=," + s.env["SENDCODE_SECRET_KEYS"]
	s.start(1)
	for i := range s.replicas {
		served := s.do(i, http.MethodGet, "/.well-known/jwks.json", "", func(r *http.Request) { r.Header.Del("Authorization") })
		if err := conforms(s.specification(), http.MethodGet, "/.well-known/jwks.json", served); err != nil {
			t.Error(err)
		}
		claims, err := believed(served.raw, token)
		if err != nil {
			t.Fatalf("replica %d: %v", i, err)
		}
		if claims["jti"] != a.ID || claims["purpose"] != "default" || claims["channel"] != "email" || len(claims["sub"].(string)) != 32 {
			t.Errorf("%v", claims)
		}
	}
}

func (s *stack) proofIn(a answer) string {
	s.Helper()
	if err := conforms(s.specification(), http.MethodPost, "/v1/verifications/"+a.ID+"/check", a); err != nil {
		s.Error(err)
	}
	var body struct{ Proof string }
	if err := json.Unmarshal(a.raw, &body); err != nil {
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
