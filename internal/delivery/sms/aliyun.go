package sms

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"sendcode/internal/delivery"
)

// Aliyun is an account with Alibaba Cloud SMS, interface Dysmsapi 2017-05-25
// (help.aliyun.com/zh/sms/developer-reference/api-dysmsapi-2017-05-25-sendsms).
type Aliyun struct {
	Name string
	// KeyID is the access key's ID, Secret its secret.
	KeyID, Secret string
	// Sign is the approved signature, which stands before the text.
	Sign      string
	Templates Approved
	// Params are what the templates take: code and minutes.
	Params []string
	// Endpoint is https://dysmsapi.aliyuncs.com; another one is for tests and regions.
	Endpoint string
	// Timeout bounds one attempt: 20 s.
	Timeout time.Duration
	// Now gives the time that requests are signed with: time.Now.
	Now func() time.Time
}

type aliyun struct {
	Aliyun
	host     string
	exchange *exchange
}

var keyID = regexp.MustCompile(`^[A-Za-z0-9]{4,128}$`)

// Check gives everything that is wrong, by its key.
func (c Aliyun) Check() map[string]error {
	wrong := map[string]error{}
	if !keyID.MatchString(c.KeyID) {
		wrong["key_id"] = errors.New("is missing, or no access key ID")
	}
	if c.Sign == "" {
		wrong["sign"] = errors.New("is missing: the approved signature")
	}
	c.Templates.check(wrong)
	checkParams(c.Params, wrong)
	checkCommon(wrong, c.Secret, c.Endpoint)
	return wrong
}

// NewAliyun makes a carrier of an account that Check finds nothing in.
func NewAliyun(c Aliyun) (Carrier, error) {
	for key, err := range c.Check() {
		return nil, errors.New("sms carrier " + c.Name + ": " + key + " " + err.Error())
	}
	if c.Endpoint == "" {
		c.Endpoint = "https://dysmsapi.aliyuncs.com"
	}
	if len(c.Params) == 0 {
		c.Params = defaultParams
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	u, err := url.Parse(c.Endpoint)
	if err != nil {
		return nil, errMessage
	}
	return &aliyun{c, u.Host, newExchange(c.Timeout)}, nil
}

// Name implements Carrier.
func (c *aliyun) Name() string { return c.Aliyun.Name }

// Send implements Carrier. The interface has no idempotency token: OutId only comes back in receipts.
func (c *aliyun) Send(ctx context.Context, m Message) (Receipt, error) {
	params, err := c.params(m)
	if err != nil {
		return unsent(c.Aliyun.Name, err)
	}
	return c.exchange.carry(ctx, c.Aliyun.Name, c.request("SendSms", params), c.read)
}

func (c *aliyun) params(m Message) (map[string]string, error) {
	template := c.Templates.find(m.Purpose, m.Language)
	if template == "" {
		return nil, errTemplate
	}
	values := map[string]string{}
	for _, name := range c.Params {
		values[name] = m.param(name)
	}
	filled, err := json.Marshal(values)
	if err != nil {
		return nil, errMessage
	}
	return map[string]string{
		"PhoneNumbers": aliyunNumber(m), "SignName": c.Sign, "TemplateCode": template, "TemplateParam": string(filled), "OutId": m.ID,
	}, nil
}

// aliyunNumber is the national number for mainland China, else country code and number without a plus.
func aliyunNumber(m Message) string {
	digits := strings.TrimPrefix(m.To, "+")
	if m.Country == "CN" {
		return strings.TrimPrefix(digits, "86")
	}
	return digits
}

const acs3 = "ACS3-HMAC-SHA256"

// request signs an action (help.aliyun.com/zh/sdk/product-overview/v3-request-structure-and-signature).
func (c *aliyun) request(action string, params map[string]string) request {
	query := canonicalQuery(params)
	signed := map[string]string{
		"host": c.host, "x-acs-action": action, "x-acs-version": "2017-05-25",
		"x-acs-date": c.Now().UTC().Format("2006-01-02T15:04:05Z"), "x-acs-signature-nonce": rand.Text(),
		"x-acs-content-sha256": hexSHA256(""),
	}
	header := http.Header{"Accept": {"application/json"}}
	for name, value := range signed {
		if name != "host" {
			header.Set(name, value)
		}
	}
	header.Set("Authorization", signACS3(c.KeyID, c.Secret, http.MethodPost, query, signed))
	return request{method: http.MethodPost, url: strings.TrimSuffix(c.Endpoint, "/") + "/?" + query, header: header}
}

// signACS3 gives the Authorization of a request to / whose body's hash stands among the signed headers, in lower case.
func signACS3(id, secret, method, query string, signed map[string]string) string {
	canonical, list := canonicalRequest(method, query, signed, signed["x-acs-content-sha256"])
	signature := hex.EncodeToString(hmacSHA256([]byte(secret), acs3+"\n"+hexSHA256(canonical)))
	return acs3 + " Credential=" + id + ",SignedHeaders=" + list + ",Signature=" + signature
}

// canonicalRequest is what Aliyun and Tencent Cloud have signed of a request to /, and the list of its signed headers.
func canonicalRequest(method, query string, signed map[string]string, bodyHash string) (text, list string) {
	names := slices.Sorted(maps.Keys(signed))
	var headers strings.Builder
	for _, name := range names {
		headers.WriteString(name + ":" + strings.TrimSpace(signed[name]) + "\n")
	}
	list = strings.Join(names, ";")
	return strings.Join([]string{method, "/", query, headers.String(), list, bodyHash}, "\n"), list
}

// canonicalQuery is sorted, and escaped as RFC 3986 has it.
func canonicalQuery(params map[string]string) string {
	var pairs []string
	for _, name := range slices.Sorted(maps.Keys(params)) {
		pairs = append(pairs, forURL(name)+"="+forURL(params[name]))
	}
	return strings.Join(pairs, "&")
}

func hexSHA256(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

func hmacSHA256(key []byte, text string) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(text))
	return mac.Sum(nil)
}

// aliyunCodes are those of help.aliyun.com/zh/sms/developer-reference/api-error-codes; every other one means that the message
// was not taken, for a reason that is ours or theirs and not the recipient's.
var aliyunCodes = map[string]verdict{
	"isv.MOBILE_NUMBER_ILLEGAL":         refused,
	"isv.MOBILE_COUNT_OVER_LIMIT":       refused,
	"isv.BLACK_KEY_CONTROL_LIMIT":       refused,
	"isv.PARAM_LENGTH_LIMIT":            refused,
	"isv.PARAM_NOT_SUPPORT_URL":         refused,
	"isv.DOMESTIC_NUMBER_NOT_SUPPORTED": later,
	"isv.DAY_LIMIT_CONTROL":             later, // ours for the day: the account's or the signature's
	"isv.AMOUNT_NOT_ENOUGH":             later,
	"isv.OUT_OF_SERVICE":                later,
	"isp.SYSTEM_ERROR":                  doubtful, // theirs, whatever they had done by then
	"isp.GATEWAY_ERROR":                 doubtful,
}

const aliyunLimit = "isv.BUSINESS_LIMIT_CONTROL"

// aliyunHold reads which of the limits on a number was met: 1 a minute, 5 an hour, 10 in 24 hours by default, and 40 in 24
// hours over all senders. An unknown one holds for an hour.
func aliyunHold(message string) time.Duration {
	switch {
	case strings.Contains(message, "分钟"), strings.Contains(strings.ToLower(message), "minute"):
		return time.Minute
	case strings.Contains(message, "天"), strings.Contains(message, "日"), strings.Contains(strings.ToLower(message), "day"):
		return 24 * time.Hour
	}
	return time.Hour
}

func (c *aliyun) read(a answer) (Receipt, *Error) {
	var said struct{ Code, Message, BizId string }
	if json.Unmarshal(a.body, &said) != nil || said.Code == "" {
		taken := Receipt{Code: delivery.Reply(a.status, "")}
		return taken, byStatus(a, "")
	}
	taken := Receipt{ID: asID(said.BizId), Code: delivery.Reply(a.status, asCode(said.Code))}
	v, known := aliyunCodes[said.Code]
	switch {
	case said.Code == "OK" && a.status < 300:
		return taken, nil
	case said.Code == aliyunLimit:
		return taken, limited(aliyunHold(said.Message)).fail(a, said.Code)
	case known:
		return taken, v.fail(a, said.Code)
	case a.status >= 500 && a.status != http.StatusServiceUnavailable:
		return taken, doubtful.fail(a, said.Code)
	}
	return taken, later.fail(a, said.Code)
}
