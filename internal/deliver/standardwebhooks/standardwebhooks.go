// Package standardwebhooks signs and verifies requests by Standard Webhooks: an HMAC-SHA256 over
// ID, time and body.
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

// MaxAge is the greatest difference between a signed time and now, whichever is earlier.
const MaxAge = 5 * time.Minute

// MaxSignatures is the greatest number of signatures in a header that Verify accepts. A sender
// makes one signature for each secret, so two or three.
const MaxSignatures = 8

// Sign returns the signature header of a body, with one signature for each secret. A receiver that
// knows one of the secrets can verify the header, so secrets can be replaced without an
// interruption. id must contain no full stop.
func Sign(secrets [][]byte, id string, at time.Time, body []byte) string {
	signatures := make([]string, len(secrets))
	for i, secret := range secrets {
		signatures[i] = sign(secret, id, strconv.FormatInt(at.Unix(), 10), body)
	}
	return strings.Join(signatures, " ")
}

// Verify reports whether one of the signatures is right by one of the secrets, and the signed time
// is within MaxAge of now. The names of the headers begin with prefix. Signatures are separated by
// spaces, or by a comma and a space (as Supabase does). Verify refuses more than MaxSignatures
// signatures, and computes one MAC for each secret, so a forged request costs no more than another
// one. Comparisons take constant time.
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

// CouldVerify reports whether Verify can return true for these headers and some body: all headers
// are there, and the time is within MaxAge of now. So a request without them is refused before its
// body is read.
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

// IsRecent reports whether a time, in seconds since 1970, is at most oldest ago, and at most MaxAge
// ahead of now.
func IsRecent(text string, now time.Time, oldest time.Duration) bool {
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil || seconds < 0 || seconds > 1<<40 {
		return false
	}
	age := now.Sub(time.Unix(seconds, 0))
	return age <= oldest && age >= -MaxAge
}
