package sms

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"sendcode/internal/delivery"
)

// Twilio is an account with Twilio Messaging (twilio.com/docs/messaging/api/message-resource).
type Twilio struct {
	Name string
	// Account is its SID, AC and 32 hexadecimal digits.
	Account string
	// Key is an API key's SID, SK…, whose secret Token is; empty: Token is the account's auth token.
	Key   string
	Token string
	// Service is a messaging service's SID, MG…; empty: each message needs a sender.
	Service string
	// Endpoint is https://api.twilio.com; another one is for tests and regions.
	Endpoint string
	// Timeout bounds one attempt: 20 s.
	Timeout time.Duration
}

type twilio struct {
	Twilio
	exchange *exchange
}

var twilioSID = regexp.MustCompile(`^[A-Z]{2}[0-9a-f]{32}$`)

// Check gives everything that is wrong, by its key.
func (t Twilio) Check() map[string]error {
	wrong := map[string]error{}
	sid := func(key, value, prefix string, needed bool) {
		if (value != "" || needed) && (!twilioSID.MatchString(value) || !strings.HasPrefix(value, prefix)) {
			wrong[key] = errors.New("must be " + prefix + " and 32 hexadecimal digits")
		}
	}
	sid("account", t.Account, "AC", true)
	sid("key", t.Key, "SK", false)
	sid("service", t.Service, "MG", false)
	checkCommon(wrong, t.Token, t.Endpoint)
	return wrong
}

// checkCommon is what the carriers with a fixed interface have in common.
func checkCommon(wrong map[string]error, secret, endpoint string) {
	if secret == "" {
		wrong["secret_env"] = errors.New("or secret_file is missing")
	}
	if problem := CheckURL(endpoint); endpoint != "" && problem != "" {
		wrong["endpoint"] = errors.New(problem)
	}
}

// NewTwilio makes a carrier of an account that Check finds nothing in.
func NewTwilio(t Twilio) (Carrier, error) {
	for key, err := range t.Check() {
		return nil, errors.New("sms carrier " + t.Name + ": " + key + " " + err.Error())
	}
	if t.Endpoint == "" {
		t.Endpoint = "https://api.twilio.com"
	}
	return &twilio{t, newExchange(t.Timeout)}, nil
}

// Name implements Carrier.
func (t *twilio) Name() string { return t.Twilio.Name }

// Send implements Carrier. The interface has no idempotency token.
func (t *twilio) Send(ctx context.Context, m Message) (Receipt, error) {
	return t.exchange.carry(ctx, t.Twilio.Name, t.request(m), t.read)
}

// The bounds of ValidityPeriod, in seconds.
const minValidity, maxValidity = 1, 36_000

func (t *twilio) request(m Message) request {
	form := url.Values{"To": {m.To}, "Body": {m.Text}}
	if t.Service != "" {
		form.Set("MessagingServiceSid", t.Service)
	}
	if m.Sender != "" {
		form.Set("From", m.Sender)
	}
	if m.Callback != "" {
		form.Set("StatusCallback", m.Callback)
	}
	if seconds := int(m.Life / time.Second); seconds >= minValidity {
		form.Set("ValidityPeriod", strconv.Itoa(min(seconds, maxValidity)))
	}
	return request{
		method: http.MethodPost, url: strings.TrimSuffix(t.Endpoint, "/") + "/2010-04-01/Accounts/" + t.Account + "/Messages.json",
		header: http.Header{
			"Authorization": {basicAuth(t.user(), t.Token)}, "Content-Type": {contentTypes[FormatForm]}, "Accept": {"application/json"},
		},
		body: []byte(form.Encode()),
	}
}

// user is who logs in.
func (t *twilio) user() string {
	if t.Key != "" {
		return t.Key
	}
	return t.Account
}

// twilioCodes are the codes that say more than their status (twilio.com/docs/api/errors). The vendor says that more of them
// may come: what is not here goes by its status.
var twilioCodes = map[string]verdict{
	"20003": later,    // authentication
	"20429": later,    // too many requests
	"21211": refused,  // To is not a valid number
	"21214": refused,  // To can't be reached
	"21217": refused,  // To does not look valid
	"21265": refused,  // To is a short code
	"21408": later,    // the account may not send to the region: ours to change
	"21602": refused,  // no body
	"21603": later,    // no sender
	"21606": later,    // the sender is not ours, or can't send there
	"21608": later,    // trial account
	"21610": optedOut, // the person wrote STOP
	"21611": later,    // the sender's queue is full
	"21612": later,    // no route from this sender
	"21614": refused,  // To is not a mobile number
	"21617": refused,  // too long
	"21635": refused,  // To is a landline
	"21659": later,    // the sender is not ours
	"21660": later,    // the sender belongs to another account
	"21703": later,    // the messaging service has no sender
	"30450": refused,  // blocked by the vendor's fraud guard
	"30453": refused,
	"63038": later, // the account's daily limit
}

func (t *twilio) read(a answer) (Receipt, *Error) {
	var said struct {
		SID       string          `json:"sid"`
		Status    json.RawMessage `json:"status"` // a word of a message, a number of an error
		ErrorCode json.RawMessage `json:"error_code"`
		Code      json.RawMessage `json:"code"`
	}
	readable := json.Unmarshal(a.body, &said) == nil
	code := number(said.Code)
	if code == "" {
		code = number(said.ErrorCode)
	}
	taken := Receipt{ID: asID(said.SID), Code: delivery.Reply(a.status, asCode(code))}
	v, known := twilioCodes[code]
	switch {
	case readable && known:
		return taken, v.fail(a, code)
	case a.status >= 300 || a.status < 200 || !readable || said.SID == "":
		return taken, byStatus(a, asCode(code))
	case slices.Contains([]string{`"failed"`, `"undelivered"`, `"canceled"`}, string(said.Status)):
		return taken, refused.fail(a, code)
	}
	return taken, nil
}

// number gives a JSON number's digits; "" for everything else.
func number(raw json.RawMessage) string {
	text := string(raw)
	if text == "" || strings.Trim(text, "0123456789") != "" {
		return ""
	}
	return text
}
