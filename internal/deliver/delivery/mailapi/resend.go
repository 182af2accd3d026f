package mailapi

import (
	"cmp"
	"encoding/json"
	"maps"
	"net/http"

	"sendcode/internal/deliver/delivery"
	"sendcode/internal/deliver/providerhttp"
)

// resendAPI is the API of Resend (resend.com/docs/api-reference/emails/send-email).
type resendAPI struct{ *Config }

func openResend(c *Config) (providerAPI, error) {
	if c.Username != "" || c.Password == "" {
		return nil, delivery.SafeError("must be resend://:key@api.resend.com, with the API key as the password")
	}
	c.Host = cmp.Or(c.Host, "api.resend.com")
	return resendAPI{c}, nil
}

func (r resendAPI) buildRequest(mail *delivery.RenderedMail) (providerhttp.Request, *delivery.Error) {
	m, err := mail.Message.WithTexts()
	if err != nil {
		return providerhttp.Request{}, &delivery.Error{
			Class: delivery.Rejected, Stage: delivery.StagePrepare, About: delivery.AboutUs,
			Reason: delivery.ReasonTemplate, Err: providerhttp.ErrIncompleteMessage,
		}
	}
	headers := map[string]string{
		"Message-ID": "<" + m.MessageID + ">", "References": "<thread-" + m.MessageID + ">",
		"X-Entity-Ref-ID": m.MessageID, "Auto-Submitted": "auto-generated", "X-Auto-Response-Suppress": "All",
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
	request := r.authorizedRequest(http.MethodPost, "/emails")
	request.Body = body
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Idempotency-Key", sendIDOf(mail)+"/"+providerhttp.HexSHA256(string(body))[:32])
	return request, nil
}

func (r resendAPI) authorizedRequest(method, path string) providerhttp.Request {
	return providerhttp.Request{Method: method, URL: r.endpoint(path), Header: http.Header{
		// Resend answers 403 without a User-Agent
		"Authorization": {"Bearer " + r.Password}, "User-Agent": {"sendcode"},
	}}
}

func (r resendAPI) readAnswer(a providerhttp.Response) (accepted bool, code, words string) {
	var said struct{ ID, Name, Message string }
	_ = json.Unmarshal(a.Body, &said) // if it fails, there is no code, and the status counts
	return said.ID != "", said.Name, said.Message
}

// codeMeanings has the codes that mean something else than their HTTP status
// (resend.com/docs/api-reference/errors).
func (r resendAPI) codeMeanings() map[string]providerhttp.Meaning {
	return map[string]providerhttp.Meaning{
		"invalid_from_address":           meansAccount,
		"invalid_idempotent_request":     meansUnknown, // an earlier request had this key, and may have been accepted
		"concurrent_idempotent_requests": meansUnknown,

		// as their status says, but also with a 200; validation_error has several
		"missing_required_field": meansRejected,
		"invalid_parameter":      meansRejected,
		"missing_api_key":        meansAccount,
		"restricted_api_key":     meansAccount,
		"invalid_api_key":        meansAccount,
		"rate_limit_exceeded":    meansPace,
		"daily_quota_exceeded":   meansPace,
	}
}

// probeRequest lists the domains. Resend answers restricted_api_key to a key that may only send,
// which is a good key.
func (r resendAPI) probeRequest() (providerhttp.Request, func(int, string) bool) {
	return r.authorizedRequest(http.MethodGet, "/domains"), func(status int, code string) bool {
		return status == http.StatusOK || code == "restricted_api_key"
	}
}
