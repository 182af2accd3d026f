package feedback

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"strconv"
	"testing"
	"time"

	"sendcode/internal/kit/servertest"
)

var now = time.Unix(1614265330, 0)

const secret = "a secret that both know"

func computeHMAC(key []byte, text string) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(text))
	return mac.Sum(nil)
}

func headers(pairs ...string) http.Header {
	h := http.Header{}
	for i := 0; i+1 < len(pairs); i += 2 {
		h.Set(pairs[i], pairs[i+1])
	}
	return h
}

func (s Source) checks(t *testing.T, name string, h http.Header, body string, at time.Time, want bool) {
	t.Helper()
	servertest.Same(t, name, s.Verify(h, []byte(body), at), want)
}

// The example is from the libraries of the scheme. TestStandardWebhooksVerify tries requests that
// must be refused.
func TestStandardWebhooks(t *testing.T) {
	key, err := base64.StdEncoding.DecodeString("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	servertest.OK(t, err)
	const id, body, right = "msg_p5jXN8AQM9LWM0D4loKWxJek", `{"test": 2432232314}`, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
	s := Source{Auth: Auth{Scheme: SchemeStandardWebhooks, Header: "svix-", Secrets: [][]byte{[]byte("another"), key}}}
	with := func(id, at, signature string) http.Header {
		return headers("svix-id", id, "svix-timestamp", at, "svix-signature", signature)
	}
	stamp := strconv.FormatInt(now.Unix(), 10)
	s.checks(t, "right", with(id, stamp, right), body, now, true)
	s.checks(t, "another body", with(id, stamp, right), body+" ", now, false)
	s.checks(t, "too old", with(id, stamp, right), body, now.Add(MaxAge+1), false)
	s.Auth.Header = "webhook-"
	s.checks(t, "another prefix", with(id, stamp, right), body, now, false)
}

func TestHMAC(t *testing.T) {
	const body = `{"a":1}`
	s := Source{Auth: Auth{Scheme: SchemeHMAC, Header: "X-Signature", Secrets: [][]byte{[]byte(secret)}}}
	right := hex.EncodeToString(computeHMAC([]byte(secret), body))
	base := base64.StdEncoding.EncodeToString(computeHMAC([]byte(secret), body))
	for _, value := range []string{right, base, "sha256=" + right, "sha256=" + base} {
		s.checks(t, value, headers("x-signature", value), body, now, true)
	}
	for name, h := range map[string]http.Header{
		"none": {}, "empty": headers("x-signature", "sha256="),
		"another prefix": headers("x-signature", "sha512="+right),
		"half":           headers("x-signature", right[:32]), "half in base64": headers("x-signature", base[:24]),
		"of another key": headers("x-signature", "sha256="+hex.EncodeToString(computeHMAC([]byte("x"), body))),
	} {
		s.checks(t, name, h, body, now, false)
	}
	s.checks(t, "another body", headers("x-signature", "sha256="+right), `{"a":2}`, now, false)
}

func TestMailgun(t *testing.T) {
	s := Source{Auth: Auth{Scheme: SchemeMailgun, Secrets: [][]byte{[]byte(secret)}}}
	body := func(at, token, signature string) string {
		return `{"signature":{"timestamp":` + at + `,"token":"` + token + `","signature":"` + signature + `"}}`
	}
	right := hex.EncodeToString(computeHMAC([]byte(secret), "1614265330tok"))
	s.checks(t, "right", nil, body("1614265330", "tok", right), now, true)
	for name, b := range map[string]string{
		"another token": body("1614265330", "tok2", right), "another time": body("1614265331", "tok", right),
		"no signature": body("1614265330", "tok", ""), "no JSON": "{", "something else": "[]",
	} {
		s.checks(t, name, nil, b, now, false)
	}
	for at, want := range map[time.Duration]bool{MaxMailgunAge: true, MaxMailgunAge + 1: false, -MaxAge: true, -MaxAge - 1: false} {
		s.checks(t, "after "+at.String(), nil, body("1614265330", "tok", right), now.Add(at), want)
	}
}

func TestSecretHeaderAndBasicAuth(t *testing.T) {
	s := Source{Auth: Auth{Scheme: SchemeSecretHeader, Header: "X-Token", Secrets: [][]byte{[]byte("old one"), []byte(secret)}}}
	s.checks(t, "right", headers("X-Token", "Bearer "+secret), "", now, true)
	s.checks(t, "the other, alone", headers("X-Token", "old one"), "", now, true)
	for _, bad := range []string{"", "Bearer ", "Bearer x", "Bearer Bearer " + secret, "Token " + secret} {
		s.checks(t, bad, headers("X-Token", bad), "", now, false)
	}
	s.Auth.Scheme = schemeBasic
	basic := func(user, password string) http.Header {
		r := &http.Request{Header: http.Header{}}
		r.SetBasicAuth(user, password)
		return r.Header
	}
	s.checks(t, "basic", basic("sendcode", secret), "", now, true)
	s.checks(t, "any user", basic("", secret), "", now, true)
	for name, h := range map[string]http.Header{
		"the secret as the user": basic(secret, "x"), "another password": basic("sendcode", "x"), "none": {},
		"no password": basic("sendcode", ""),
		"a bearer":    headers("Authorization", "Bearer "+secret),
	} {
		s.checks(t, name, h, "", now, false)
	}
	s.Auth.Scheme = SchemeDSN
	s.checks(t, "a mail server's", headers("Authorization", "Bearer "+secret), "", now, true)
	s.checks(t, "a mail server's in another header", headers("X-Token", "Bearer "+secret), "", now, false)
	s.Auth.Scheme = ""
	s.checks(t, "no scheme", basic("sendcode", secret), "", now, false)
	empty := Source{Auth: Auth{Scheme: SchemeSecretHeader, Header: "X-Token", Secrets: [][]byte{{}}}}
	empty.checks(t, "an empty secret", headers("X-Token", ""), "", now, false)
}
