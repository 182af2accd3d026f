package mailapitest

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"sendcode/internal/deliver/delivery"
)

const resendKey = "re_S3cretOfTheAccount"

// fails returns a failure as Resend sends it (resend.com/docs/api-reference/errors).
func fails(status int, name string) Answer {
	body, _ := json.Marshal(map[string]any{"statusCode": status, "name": name, "message": "Invalid recipient ada.lovelace@example.org"})
	return Answer{Status: status, Body: string(body)}
}

// These are answers to a mail that is accepted, that is refused for good, and that should be sent
// again later.
var (
	accepted = Answer{Status: 200, Body: `{"id":"49a3999c-0ce1-4ea6-ab68-afcd6dc2e794"}`}
	Refused  = fails(422, "validation_error")
	Later    = fails(429, "rate_limit_exceeded")
)

// These are answers to the doctor's request. Those in Good show that the login works, and Bad is
// for a wrong login.
var (
	Good = []Answer{{Status: 200, Body: `{"data":[]}`}, fails(401, "restricted_api_key")}
	Bad  = fails(403, "invalid_api_key")
)

// Outcomes are further answers to a mail, by name.
var Outcomes = map[string]Outcome{
	"a field is missing":        {fails(422, "missing_required_field"), delivery.Rejected, "missing_required_field"},
	"the sender is wrong":       {fails(422, "invalid_from_address"), delivery.Temporary, "invalid_from_address"},
	"the domain is not ours":    {fails(403, "validation_error"), delivery.Temporary, "validation_error"},
	"the key is wrong":          {fails(403, "invalid_api_key"), delivery.Temporary, "invalid_api_key"},
	"the day's quota is spent":  {fails(429, "daily_quota_exceeded"), delivery.Temporary, "daily_quota_exceeded"},
	"the key has another body":  {fails(409, "invalid_idempotent_request"), delivery.Unknown, "invalid_idempotent_request"},
	"the key is under way":      {fails(409, "concurrent_idempotent_requests"), delivery.Unknown, "concurrent_idempotent_requests"},
	"refused beside a 200":      {fails(200, "missing_required_field"), delivery.Rejected, "missing_required_field"},
	"it broke":                  {fails(500, "application_error"), delivery.Unknown, "application_error"},
	"the code could be private": {fails(422, "ada lovelace"), delivery.Rejected, ""},
}

// readResend reads a request as Resend documents it.
func readResend(r *http.Request, body []byte) (Mail, error) {
	var m struct {
		From, Subject, Text, HTML string
		To                        []string
		Headers                   map[string]string
		Tags                      []struct{ Name, Value string }
	}
	if err := json.Unmarshal(body, &m); err != nil {
		return Mail{}, err
	}
	if len(m.To) != 1 || len(m.Tags) != 1 {
		return Mail{}, errors.New("not one recipient and one tag")
	}
	key := r.Header.Get("Idempotency-Key")
	if !strings.HasPrefix(key, m.Tags[0].Value+"/") || len(key) > 256 {
		return Mail{}, errors.New("the key does not name the send, or is too long")
	}
	header := map[string]string{}
	for name, value := range m.Headers {
		header[http.CanonicalHeaderKey(name)] = value
	}
	return Mail{m.To[0], m.Tags[0].Value, m.Subject + "\n" + m.Text + "\n" + m.HTML, m.From, header}, errors.Join(
		want("request", r.Method+" "+r.URL.Path, "POST /emails"),
		want("login", r.Header.Get("Authorization"), "Bearer "+resendKey),
		want("type", r.Header.Get("Content-Type"), "application/json"), want("tag", m.Tags[0].Name, "send"),
	)
}
