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

// MaxAge is the greatest difference between a signed time and now, in either direction.
const MaxAge = 5 * time.Minute

// Sign returns the signature header of a body, with one signature for each secret. So a receiver
// that knows one of them can verify it while secrets are replaced. id must contain no full stop.
func Sign(secrets [][]byte, id string, at time.Time, body []byte) string {
	signatures := make([]string, len(secrets))
	for i, secret := range secrets {
		signatures[i] = "v1," + base64.StdEncoding.EncodeToString(computeHMAC(secret, id,
			strconv.FormatInt(at.Unix(), 10), body))
	}
	return strings.Join(signatures, " ")
}

// Verify reports whether one of the signatures in the headers that begin with prefix is right by
// one of the secrets, and the time is within MaxAge of now. Signatures are separated by spaces, or
// as Supabase does by a comma and a space. Comparisons take constant time.
func Verify(h http.Header, prefix string, body []byte, secrets [][]byte, now time.Time) bool {
	id, at := h.Get(prefix+"id"), h.Get(prefix+"timestamp")
	if id == "" || !IsRecent(at, now) {
		return false
	}
	right := false
	for signature := range strings.FieldsSeq(h.Get(prefix + "signature")) {
		version, encoded, _ := strings.Cut(strings.TrimSuffix(signature, ","), ",")
		given, err := base64.StdEncoding.DecodeString(encoded)
		if err != nil || version != "v1" {
			continue
		}
		for _, secret := range secrets {
			right = hmac.Equal(computeHMAC(secret, id, at, body), given) || right
		}
	}
	return right
}

func computeHMAC(secret []byte, id, at string, body []byte) []byte {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(id + "." + at + "."))
	mac.Write(body)
	return mac.Sum(nil)
}

// IsRecent reports whether a time, in seconds since 1970, is within MaxAge of now.
func IsRecent(text string, now time.Time) bool {
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil || seconds < 0 || seconds > 1<<40 {
		return false
	}
	return now.Sub(time.Unix(seconds, 0)).Abs() <= MaxAge
}
