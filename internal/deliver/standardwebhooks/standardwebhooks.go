// Package standardwebhooks signs and verifies requests by Standard Webhooks. A signature is an
// HMAC-SHA256 over the ID, the time and the body.
//
// https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
package standardwebhooks

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// HeaderPrefix begins the names of the three headers. Some senders use another prefix.
const HeaderPrefix = "webhook-"

// MaxAge is the greatest allowed difference between the signed time and the current time, in either
// direction.
const MaxAge = 5 * time.Minute

// MaxSignatures is the greatest number of signatures that Verify accepts in a header. A sender
// makes one signature for each secret, and so seldom more than three.
const MaxSignatures = 8

// Sign returns the signature header of a body, with one signature for each secret. A receiver that
// knows one of the secrets can verify the header, so a secret can be replaced without an
// interruption. id must not contain a full stop.
func Sign(secrets [][]byte, id string, at time.Time, body []byte) string {
	signatures := make([]string, len(secrets))
	for i, secret := range secrets {
		signatures[i] = sign(secret, id, strconv.FormatInt(at.Unix(), 10), body)
	}
	return strings.Join(signatures, " ")
}

// Verify reports whether at least one signature was made with one of the secrets, and whether the
// signed time is within MaxAge of now. The names of the headers begin with prefix. Signatures are
// separated by a space, or by a comma and a space (as Supabase does). Verify refuses a header with
// more than MaxSignatures signatures. It computes one MAC for each secret, so a forged request
// costs no more than a genuine request. Comparisons take constant time.
func Verify(h http.Header, prefix string, body []byte, secrets [][]byte, now time.Time) bool {
	if !CouldVerify(h, prefix, now) {
		return false
	}
	id, at, signatures := h.Get(prefix+"id"), h.Get(prefix+"timestamp"), strings.Fields(h.Get(prefix+"signature"))
	right := false
	for _, secret := range secrets {
		want := []byte(sign(secret, id, at, body))
		for _, given := range signatures {
			right = hmac.Equal(want, []byte(strings.TrimSuffix(given, ","))) || right
		}
	}
	return right
}

// CouldVerify reports whether Verify can return true for these headers and some body. It checks
// that all headers are present and that the time is within MaxAge of now. With it, the caller can
// refuse other requests before it reads the body.
func CouldVerify(h http.Header, prefix string, now time.Time) bool {
	signatures := strings.Fields(h.Get(prefix + "signature"))
	return h.Get(prefix+"id") != "" && IsRecent(h.Get(prefix+"timestamp"), now, MaxAge) &&
		len(signatures) > 0 && len(signatures) <= MaxSignatures
}

// sign returns one signature, in the form of the header, with its version.
func sign(secret []byte, id, at string, body []byte) string {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(id + "." + at + "."))
	mac.Write(body)
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

// IsRecent reports whether text, a time in seconds since 1970, is recent. The time must not be
// longer ago than oldest, and not more than MaxAge after now.
func IsRecent(text string, now time.Time, oldest time.Duration) bool {
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil || seconds < 0 || seconds > 1<<40 {
		return false
	}
	age := now.Sub(time.Unix(seconds, 0))
	return age <= oldest && age >= -MaxAge
}

// SecretPrefix begins each secret.
const SecretPrefix = "whsec_"

// DecodeSecret returns the key that a secret of the form "whsec_…" encodes. If the secret encodes
// no key, it returns nil.
func DecodeSecret(secret string) []byte {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, SecretPrefix))
	if err != nil {
		return nil
	}
	return key
}
