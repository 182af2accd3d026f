package mailapi

import (
	"encoding/json"
	"maps"
	"net/http"

	"sendcode/internal/deliver/delivery"
	"sendcode/internal/deliver/providerhttp"
)

// mailRequest returns the request that hands over a mail
// (resend.com/docs/api-reference/emails/send-email).
func (c *Config) mailRequest(mail *delivery.RenderedMail) (providerhttp.Request, *delivery.Error) {
	m, err := mail.Message.WithTexts()
	if err != nil {
		return providerhttp.Request{}, &delivery.Error{
			Class: delivery.Rejected, Stage: delivery.StagePrepare, About: delivery.AboutUs,
			Reason: delivery.ReasonTemplate, Err: providerhttp.ErrIncompleteMessage,
		}
	}
	headers := map[string]string{
		"Message-ID": "<" + m.MessageID + ">", "References": "<thread-" + m.MessageID + ">",
		"X-Entity-Ref-ID": m.MessageID, "Auto-Submitted": "auto-generated", "X-Auto-Response-Suppress": delivery.NoAutoResponses,
	}
	if m.Language != "" {
		headers["Content-Language"] = m.Language
	}
	maps.Copy(headers, m.IDHeaders)
	type tag struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	}
	body, _ := json.Marshal(struct { // texts always encode
		From    string            `json:"from"`
		To      []string          `json:"to"`
		Subject string            `json:"subject"`
		Text    string            `json:"text"`
		HTML    string            `json:"html,omitempty"`
		Headers map[string]string `json:"headers"`
		Tags    []tag             `json:"tags"`
	}{mail.FromHeader(), []string{mail.To}, m.Subject, m.Text, m.HTML, headers, []tag{{"send", sendIDOf(mail)}}})
	request := c.request(http.MethodPost, "/emails")
	request.Body = body
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Idempotency-Key", sendIDOf(mail)+"/"+providerhttp.HexSHA256(string(body))[:32])
	return request, nil
}

// request returns a request with the account's key.
func (c *Config) request(method, path string) providerhttp.Request {
	return providerhttp.Request{Method: method, URL: c.endpoint(path), Header: http.Header{
		// Resend answers 403 without a User-Agent
		"Authorization": {"Bearer " + c.Password}, "User-Agent": {"sendcode"},
	}}
}

// readAnswer reads an answer. The result accepted is true if the answer has Resend's ID of the
// mail. A 2xx answer without an ID does not accept the mail, because a proxy may have sent the
// answer. The results code and words describe a failure. They are empty if the answer does not have
// them.
func readAnswer(a providerhttp.Response) (accepted bool, code, words string) {
	var answer struct{ ID, Name, Message string }
	_ = json.Unmarshal(a.Body, &answer) // if this fails, there is no code, and the status decides
	return answer.ID != "", answer.Name, answer.Message
}

// These are the meanings of a code for a mail that was not accepted.
var (
	meaningRejected = providerhttp.Meaning{Class: delivery.Rejected, About: delivery.AboutMessage}
	// The fault is in our key, sender or request, so another server may accept the mail.
	meaningAccount = providerhttp.Meaning{Class: delivery.Temporary, About: delivery.AboutAccount}
	meaningPace    = providerhttp.Meaning{Class: delivery.Temporary, About: delivery.AboutPace}
	meaningUnknown = providerhttp.Meaning{Class: delivery.Unknown} // the mail may have been accepted
)

// codeMeanings has the codes whose meaning is not that of their HTTP status
// (resend.com/docs/api-reference/errors).
var codeMeanings = map[string]providerhttp.Meaning{
	"invalid_from_address":           meaningAccount,
	"invalid_idempotent_request":     meaningUnknown, // an earlier request had this key, and may have been accepted
	"concurrent_idempotent_requests": meaningUnknown,

	// These mean what their status says, but may also come with status 200. The meaning of
	// validation_error depends on the status, so it is not in this table.
	"missing_required_field": meaningRejected,
	"invalid_parameter":      meaningRejected,
	"missing_api_key":        meaningAccount,
	"restricted_api_key":     meaningAccount,
	"invalid_api_key":        meaningAccount,
	"rate_limit_exceeded":    meaningPace,
	"daily_quota_exceeded":   meaningPace,
}
