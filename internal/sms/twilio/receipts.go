package twilio

import (
	"crypto/hmac"
	"crypto/sha1"
	"encoding/base64"
	"maps"
	"net/url"
	"slices"
	"strings"

	"sendcode/internal/sms"
)

// Reports implements Reporter (twilio.com/docs/messaging/guides/outbound-message-status-in-status-callbacks). With an API key
// the account's token, which signs, is not known here: then the token in the address alone tells that it is Twilio.
func (t *carrier) Reports(in sms.Incoming, send string) ([]sms.Report, string, error) {
	form, err := url.ParseQuery(string(in.Body))
	if err != nil || send == "" {
		return nil, "", sms.ErrReport
	}
	if t.Key == "" && !hmac.Equal([]byte(in.Header.Get("X-Twilio-Signature")), []byte(sign(t.Secret, in.URL, form))) {
		return nil, "", sms.ErrForged
	}
	switch form.Get("MessageStatus") {
	case "delivered", "read":
		return []sms.Report{{Send: send, Delivered: true}}, "", nil
	case "undelivered", "failed":
		return []sms.Report{{Send: send}}, "", nil
	case "":
		return nil, "", sms.ErrReport
	}
	return nil, "", nil
}

// sign is X-Twilio-Signature (twilio.com/docs/usage/security#validating-requests): of the exact URL, and each
// parameter of the form after its name, sorted.
func sign(token, address string, form url.Values) string {
	var text strings.Builder
	text.WriteString(address)
	for _, name := range slices.Sorted(maps.Keys(form)) {
		for _, value := range slices.Compact(slices.Sorted(slices.Values(form[name]))) {
			text.WriteString(name + value)
		}
	}
	mac := hmac.New(sha1.New, []byte(token))
	mac.Write([]byte(text.String()))
	return base64.StdEncoding.EncodeToString(mac.Sum(nil))
}
