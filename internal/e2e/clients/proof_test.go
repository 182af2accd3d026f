package clients

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"sendcode/internal/app/apptest"
)

func proofIn(s *apptest.Stack, a apptest.Answer) string {
	s.Helper()
	if err := apptest.Conforms(s.SpecRouter(), http.MethodPost, "/v1/verifications/"+a.ID+"/check", a); err != nil {
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
