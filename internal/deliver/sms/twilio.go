package sms

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha1"
	"encoding/base64"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"sendcode/internal/deliver/delivery"
	"sendcode/internal/deliver/providerhttp"
)

// Twilio is an account with Twilio Messaging (twilio.com/docs/messaging/api/message-resource).
type Twilio struct {
	// The SID of the account, `AC…`.
	Account string `yaml:"account,omitempty"`
	// The SID of an API key, `SK…`, if the secret belongs to that key.
	Key string `yaml:"key,omitempty"`
	// The SID of a messaging service, `MG…`. Without one, each message needs a sender.
	Service string `yaml:"service,omitempty"`
	// The base URL, for tests and other regions.
	Endpoint string `yaml:"endpoint" default:"https://api.twilio.com"`
}

type twilioCarrier struct {
	Twilio
	*Client
}

var sidPattern = regexp.MustCompile(`^[A-Z]{2}[0-9a-f]{32}$`)

func (t Twilio) Check() map[string]error {
	wrong := map[string]error{}
	sid := func(key, value, prefix string, needed bool) {
		if (value != "" || needed) && (!sidPattern.MatchString(value) || !strings.HasPrefix(value, prefix)) {
			wrong[key] = errors.New("must be " + prefix + " and 32 hexadecimal digits")
		}
	}
	sid("account", t.Account, "AC", true)
	sid("key", t.Key, "SK", false)
	sid("service", t.Service, "MG", false)
	noteEndpointProblem(wrong, t.Endpoint)
	return wrong
}

func (t Twilio) NeedsSecret() bool { return true }

func (t Twilio) CanBePolled() bool { return true }

func (t Twilio) NeedsSender() bool { return t.Service == "" }

func (t Twilio) Open(s Setup) Carrier {
	return &twilioCarrier{t, NewClient(s)}
}

// Send implements Carrier. The interface has no idempotency token.
func (t *twilioCarrier) Send(ctx context.Context, m Message) (delivery.Result, *delivery.Error) {
	return t.Attempt(ctx, t.newRequest(http.MethodPost, "/Messages", t.messageForm(m)), parseTwilioAnswer)
}

const minValiditySeconds, maxValiditySeconds = 1, 36_000 // the bounds of ValidityPeriod

func (t *twilioCarrier) messageForm(m Message) url.Values {
	form := url.Values{"To": {m.To}, "Body": {m.Text}}
	for name, value := range map[string]string{
		"MessagingServiceSid": t.Service, "From": m.Sender,
		"StatusCallback": m.CallbackURL,
	} {
		if value != "" {
			form.Set(name, value)
		}
	}
	if seconds := int(m.Life / time.Second); seconds >= minValiditySeconds {
		form.Set("ValidityPeriod", strconv.Itoa(min(seconds, maxValiditySeconds)))
	}
	return form
}

// newRequest returns a request for a resource of the account. A GET has no form.
func (t *twilioCarrier) newRequest(method, resource string, form url.Values) providerhttp.Request {
	r := providerhttp.Request{
		Method: method, URL: strings.TrimSuffix(t.Endpoint, "/") + "/2010-04-01/Accounts/" + t.Account +
			resource + ".json",
		Header: http.Header{
			"Authorization": {providerhttp.BasicAuth(cmp.Or(t.Key, t.Account), t.Secret)},
			"Accept":        {"application/json"},
		},
	}
	if form != nil {
		r.Body = []byte(form.Encode())
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	return r
}

// statusRequest returns a request for the state of a message
// (twilio.com/docs/messaging/api/message-resource#fetch-a-message-resource).
func (t *twilioCarrier) statusRequest(sid string) providerhttp.Request {
	return t.newRequest(http.MethodGet, "/Messages/"+sid, nil)
}

func parseTwilioAnswer(a providerhttp.Response) (id, code string, fail *delivery.Error) {
	var answer struct {
		SID       string          `json:"sid"`
		Status    json.RawMessage `json:"status"` // a message's state as a word, or an error's HTTP status as a number
		ErrorCode json.RawMessage `json:"error_code"`
		Code      json.RawMessage `json:"code"`
	}
	readable := json.Unmarshal(a.Body, &answer) == nil
	code = cmp.Or(numberDigits(answer.Code), numberDigits(answer.ErrorCode))
	created := readable && answer.SID != "" && a.Status >= 200 && a.Status < 300
	failed := slices.Contains([]string{`"failed"`, `"undelivered"`, `"canceled"`}, string(answer.Status))
	switch {
	case created && failed, readable && a.Status >= 400 && code != "":
		fail = errorByCode(a, code, twilioMeanings)
	case !created:
		fail = providerhttp.ErrorByStatus(a, code)
	}
	return answer.SID, code, fail
}

// numberDigits returns a JSON number that has only digits, otherwise "".
func numberDigits(raw json.RawMessage) string {
	text := string(raw)
	if text == "" || strings.Trim(text, "0123456789") != "" {
		return ""
	}
	return text
}

// ParseReports implements ReportParser
// (twilio.com/docs/messaging/guides/outbound-message-status-in-status-callbacks). Twilio signs with
// the account's auth token. With an API key in its place, the signature can't be checked, and only
// the token in the callback URL shows that the receipt is Twilio's.
func (t *twilioCarrier) ParseReports(in IncomingRequest, send string) ([]Report, string, error) {
	form, err := url.ParseQuery(string(in.Body))
	if err != nil || send == "" {
		return nil, "", ErrUnreadableReport
	}
	if t.Key == "" && !t.hasSigned(in, form) {
		return nil, "", ErrForged
	}
	switch form.Get("MessageStatus") {
	case "delivered", "read":
		return []Report{{Send: send, Delivered: true}}, "", nil
	case "undelivered", "failed":
		return []Report{{Send: send}}, "", nil
	case "":
		return nil, "", ErrUnreadableReport
	}
	return nil, "", nil
}

// hasSigned tries the URL with and without its port, as Twilio's own libraries do: Twilio may sign
// either.
func (t *twilioCarrier) hasSigned(in IncomingRequest, form url.Values) bool {
	addresses := []string{in.URL}
	if u, err := url.Parse(in.URL); err == nil {
		if u.Port() != "" {
			u.Host = strings.TrimSuffix(u.Host, ":"+u.Port())
		} else {
			u.Host += map[string]string{"https": ":443", "http": ":80"}[u.Scheme]
		}
		addresses = append(addresses, u.String())
	}
	given := []byte(in.Header.Get("X-Twilio-Signature"))
	return slices.ContainsFunc(addresses, func(address string) bool {
		return hmac.Equal(given, []byte(WebhookSignature(t.Secret, address, form)))
	})
}

// WebhookSignature returns the expected X-Twilio-Signature
// (twilio.com/docs/usage/security#validating-requests): the HMAC-SHA1 of the exact URL, followed by
// names and values of the form, sorted by name and value, equal pairs once.
func WebhookSignature(token, address string, form url.Values) string {
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

func (t *twilioCarrier) PollStatus(ctx context.Context, q StatusQuery) (Report, bool, error) {
	if !sidPattern.MatchString(q.CarrierID) {
		return Report{}, false, &delivery.Error{
			Class: delivery.Rejected, Stage: delivery.StagePrepare, About: delivery.AboutUs,
			Err: providerhttp.ErrIncompleteMessage,
		}
	}
	a, err := t.Query(ctx, t.statusRequest(q.CarrierID))
	if err != nil {
		return Report{}, false, err
	}
	var answer struct {
		SID    string `json:"sid"`
		Status string `json:"status"`
	}
	if json.Unmarshal(a.Body, &answer) != nil || answer.SID != q.CarrierID {
		return Report{}, false, StatusQueryError(a, "")
	}
	r, known := ReportByStatus(q.Send, answer.Status, []string{"delivered", "read"},
		[]string{"undelivered", "failed", "canceled"})
	return r, known, nil
}

func (t *twilioCarrier) EndpointURL() string { return t.Endpoint }

// Probe fetches a message that doesn't exist: with the right login the answer is 404
// (twilio.com/docs/usage/requests-to-twilio).
func (t *twilioCarrier) Probe(ctx context.Context) (string, error) {
	a, fail := t.Do(ctx, t.statusRequest("SM"+strings.Repeat("0", 32)))
	switch {
	case fail != nil:
		return "", fail
	case a.Status == http.StatusNotFound || a.Status == http.StatusOK:
		return ", and takes the login", nil
	case a.Status == http.StatusUnauthorized || a.Status == http.StatusForbidden:
		return "", ErrLogin
	}
	return "", ErrUndocumentedAnswer
}
