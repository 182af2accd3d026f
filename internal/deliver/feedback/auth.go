package feedback

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"sendcode/internal/deliver/standardwebhooks"
)

// authScheme is how a provider authenticates a request.
type authScheme string

// The schemes header, basic and dsn send the secret itself with each request, and don't protect the
// body. Use them only over TLS, and only if the provider offers nothing stronger.
const (
	SchemeStandardWebhooks authScheme = "standard_webhooks" // https://www.standardwebhooks.com: HMAC over ID, time and body
	SchemeHMAC             authScheme = "hmac"              // HMAC-SHA256 over the body, in a header
	SchemeMailgun          authScheme = "mailgun"           // HMAC-SHA256 over a time and a token, all three in the body
	SchemeSecretHeader     authScheme = "header"            // the secret itself in a header
	schemeBasic            authScheme = "basic"             // the secret as the password of HTTP's basic authentication
	// messages of an Amazon SNS topic, which package sns verifies; Source.Verify returns false
	SchemeSNS authScheme = "sns"
	SchemeDSN authScheme = "dsn" // bounce mails, posted with the secret as a bearer token
)

// MaxAge is how far a signed time may differ from the current time, in the past or in the future.
// In Mailgun's scheme, the signed time may be as old as MaxMailgunAge: for 8 hours Mailgun repeats
// a request that was not answered with 200, each time with the time of the first request
// (documentation.mailgun.com/docs/mailgun/user-manual/webhooks/webhook-retries).
const (
	MaxAge        = standardwebhooks.MaxAge
	MaxMailgunAge = 9 * time.Hour
)

// Auth says how a source's requests are authenticated. Any one of the secrets is enough, so that
// secrets can be replaced without an interruption.
type Auth struct {
	// `standard_webhooks` ([signature](https://www.standardwebhooks.com) over ID, time and body),
	// `hmac` (HMAC-SHA256 of the body in a header), `mailgun` (HMAC-SHA256 of members of the body),
	// `sns` (Amazon SNS), `header` (the secret in a header), `basic` (the secret as password of any
	// user), `dsn` (bounce mails that a mail server [passes on](mail-servers.md#bounce-mails), with
	// the secret as a bearer token). Use the last three over TLS or on one machine only. All but
	// `dsn` need `type`, `outcomes` and `message`.
	Scheme  authScheme `yaml:"scheme" required:"yes" oneof:"standard_webhooks hmac mailgun sns header basic dsn"`
	Secrets [][]byte   `yaml:"-"`
	// For `hmac` and `header`, this is the name of the header, whose value may begin with `sha256=`
	// or `Bearer`. For `standard_webhooks`, this is how the names of its headers begin, `webhook-`
	// by default.
	Header string `yaml:"header,omitempty" check:"header"`
	// For `sns`, this is the topic's ARN.
	Topic string `yaml:"topic,omitempty"`
}

// Verify reports whether the request comes from the provider. A signed time must be recent (MaxAge,
// MaxMailgunAge). Comparisons take constant time.
func (s Source) Verify(h http.Header, body []byte, now time.Time) bool {
	a := s.Auth
	switch a.Scheme {
	case SchemeStandardWebhooks:
		return standardwebhooks.Verify(h, a.Header, body, a.Secrets, now)
	case SchemeHMAC:
		return a.verifyHMAC(strings.TrimPrefix(h.Get(a.Header), "sha256="), body)
	case SchemeMailgun:
		return a.verifyMailgun(body, now)
	case SchemeSecretHeader:
		return a.matchesSecret([]byte(strings.TrimPrefix(h.Get(a.Header), "Bearer ")))
	case SchemeDSN:
		return a.matchesSecret([]byte(strings.TrimPrefix(h.Get("Authorization"), "Bearer ")))
	case schemeBasic:
		_, password, ok := (&http.Request{Header: h}).BasicAuth()
		return a.matchesSecret([]byte(password)) && ok
	}
	return false
}

// CouldVerify reports whether Verify may return true for these headers and some body. If the
// headers contain the secret itself, CouldVerify returns the result of Verify.
func (s Source) CouldVerify(h http.Header, now time.Time) bool {
	switch s.Auth.Scheme {
	case SchemeStandardWebhooks:
		return standardwebhooks.CouldVerify(h, s.Auth.Header, now)
	case SchemeHMAC:
		return h.Get(s.Auth.Header) != ""
	case SchemeSecretHeader, SchemeDSN, schemeBasic:
		return s.Verify(h, nil, now)
	}
	return true // mailgun and sns sign within the body
}

func (a Auth) verifyMailgun(body []byte, now time.Time) bool {
	s := parseMailgunSignature(body)
	return standardwebhooks.IsRecent(s.time, now, MaxMailgunAge) && a.verifyHMAC(s.signature, []byte(s.time+s.token))
}

// mailgunSignature has the members that sign a request of Mailgun
// (documentation.mailgun.com/docs/mailgun/user-manual/webhooks/securing-webhooks).
type mailgunSignature struct {
	time             string // seconds since 1970
	token, signature string
}

// parseMailgunSignature decodes only the members of the signature, because the sender is not
// authenticated yet. For a body that is not JSON it returns the zero value.
func parseMailgunSignature(body []byte) mailgunSignature {
	var given struct {
		Signature struct{ Timestamp, Token, Signature json.RawMessage }
	}
	if json.Unmarshal(body, &given) != nil {
		return mailgunSignature{}
	}
	text := func(member json.RawMessage) string {
		value, _ := decodeJSON(member)
		return asText(value)
	}
	s := given.Signature
	return mailgunSignature{time: text(s.Timestamp), token: text(s.Token), signature: text(s.Signature)}
}

// ReplayKey returns a hash of the signed members of a verified request from Mailgun, and "" for
// other schemes. Mailgun doesn't sign the events, so an attacker could send an old signature with
// other events. Both requests then have the same hash, so the caller can recognize the second one.
func (s Source) ReplayKey(body []byte) string {
	if s.Auth.Scheme != SchemeMailgun {
		return ""
	}
	signed := parseMailgunSignature(body)
	sum := sha256.Sum256([]byte(signed.time + signed.token))
	return hex.EncodeToString(sum[:])
}

// verifyHMAC accepts hex and base64. They differ in length, so neither is mistaken for the other.
func (a Auth) verifyHMAC(signature string, message []byte) bool {
	given, err := hex.DecodeString(signature)
	if err != nil {
		given, err = base64.StdEncoding.DecodeString(signature)
	}
	return err == nil && a.matchesHMAC(given, message)
}

func (a Auth) matchesHMAC(given, message []byte) bool {
	right := false
	for _, secret := range a.Secrets {
		mac := hmac.New(sha256.New, secret)
		mac.Write(message)
		right = hmac.Equal(mac.Sum(nil), given) || right
	}
	return right
}

// matchesSecret compares hashes, so that the time doesn't depend on the length.
func (a Auth) matchesSecret(given []byte) bool {
	sum, right := sha256.Sum256(given), false
	for _, secret := range a.Secrets {
		known := sha256.Sum256(secret)
		right = subtle.ConstantTimeCompare(known[:], sum[:]) == 1 || right
	}
	return right && len(given) > 0
}
