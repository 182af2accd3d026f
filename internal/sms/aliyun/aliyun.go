// Package aliyun is the carrier Alibaba Cloud SMS: its settings, sending, receipts, asking and probe.
package aliyun

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"sendcode/internal/delivery"
	"sendcode/internal/sms"
)

// Config is an account with Alibaba Cloud SMS, interface Dysmsapi 2017-05-25
// (help.aliyun.com/zh/sms/developer-reference/api-dysmsapi-2017-05-25-sendsms).
type Config struct {
	sms.Account `yaml:",inline"`
	// For tests and regions.
	Endpoint string `yaml:"endpoint" default:"https://dysmsapi.aliyuncs.com"`
}

type carrier struct {
	Config
	*sms.Client
	host string
}

// Check gives everything that is wrong, by its key.
func (c Config) Check() map[string]error {
	wrong := c.Wrong()
	if c.Sign == "" {
		wrong["sign"] = errors.New("is missing: the approved signature")
	}
	sms.CheckEndpoint(wrong, c.Endpoint)
	return wrong
}

// Open implements Settings.
func (c Config) Open(s sms.Setup) sms.Carrier {
	return &carrier{c, sms.NewClient(s), sms.Host(c.Endpoint)}
}

// Send implements Carrier. The interface has no idempotency token: OutId only comes back in receipts.
func (c *carrier) Send(ctx context.Context, m sms.Message) (sms.Receipt, error) {
	params, err := c.params(m)
	if err != nil {
		return c.Unsent(err)
	}
	return c.Attempt(ctx, c.request("SendSms", params), c.read)
}

func (c *carrier) params(m sms.Message) (map[string]string, error) {
	template := c.Templates.Find(m.Purpose, m.Language)
	if template == "" {
		return nil, sms.ErrTemplate
	}
	values := map[string]string{}
	for _, name := range c.Params {
		values[name] = m.Param(name)
	}
	filled, _ := json.Marshal(values) // texts always encode
	return map[string]string{
		"PhoneNumbers": aliyunNumber(m), "SignName": c.Sign, "TemplateCode": template, "TemplateParam": string(filled), "OutId": m.ID,
	}, nil
}

// aliyunNumber is the national number for mainland China, else country code and number without a plus.
func aliyunNumber(m sms.Message) string {
	digits := strings.TrimPrefix(m.To, "+")
	if m.Country == "CN" {
		return strings.TrimPrefix(digits, "86")
	}
	return digits
}

const acs3 = "ACS3-HMAC-SHA256"

// request signs an action (help.aliyun.com/zh/sdk/product-overview/v3-request-structure-and-signature).
func (c *carrier) request(action string, params map[string]string) sms.Request {
	query := canonicalQuery(params)
	signed := map[string]string{
		"host": c.host, "x-acs-action": action, "x-acs-version": "2017-05-25",
		"x-acs-date": c.Time().UTC().Format("2006-01-02T15:04:05Z"), "x-acs-signature-nonce": rand.Text(),
		"x-acs-content-sha256": sms.HexSHA256(""),
	}
	header := http.Header{"Accept": {"application/json"}}
	for name, value := range signed {
		if name != "host" {
			header.Set(name, value)
		}
	}
	header.Set("Authorization", signACS3(c.KeyID, c.Secret, http.MethodPost, query, signed))
	return sms.Request{Method: http.MethodPost, URL: strings.TrimSuffix(c.Endpoint, "/") + "/?" + query, Header: header}
}

// signACS3 gives the Authorization of a request to / whose body's hash stands among the signed headers, in lower case.
func signACS3(id, secret, method, query string, signed map[string]string) string {
	canonical, list := sms.CanonicalRequest(method, query, signed, signed["x-acs-content-sha256"])
	signature := hex.EncodeToString(sms.HMACSHA256([]byte(secret), acs3+"\n"+sms.HexSHA256(canonical)))
	return acs3 + " Credential=" + id + ",SignedHeaders=" + list + ",Signature=" + signature
}

// canonicalQuery is sorted, and escaped as RFC 3986 has it.
func canonicalQuery(params map[string]string) string {
	var pairs []string
	for _, name := range slices.Sorted(maps.Keys(params)) {
		pairs = append(pairs, sms.EscapeURL(name)+"="+sms.EscapeURL(params[name]))
	}
	return strings.Join(pairs, "&")
}

// codes are those of help.aliyun.com/zh/sms/developer-reference/api-error-codes; every other one means that the message
// was not taken, for a reason that is ours or theirs and not the recipient's.
var codes = map[string]sms.Verdict{
	"isv.MOBILE_NUMBER_ILLEGAL":         sms.Refused,
	"isv.MOBILE_COUNT_OVER_LIMIT":       sms.Refused,
	"isv.BLACK_KEY_CONTROL_LIMIT":       sms.Refused,
	"isv.PARAM_LENGTH_LIMIT":            sms.Refused,
	"isv.PARAM_NOT_SUPPORT_URL":         sms.Refused,
	"isv.DOMESTIC_NUMBER_NOT_SUPPORTED": sms.Later,
	"isv.DAY_LIMIT_CONTROL":             sms.Later, // ours for the day: the account's or the signature's
	"isv.AMOUNT_NOT_ENOUGH":             sms.Later,
	"isv.OUT_OF_SERVICE":                sms.Later,
	"isp.SYSTEM_ERROR":                  sms.Doubtful, // theirs, whatever they had done by then
	"isp.GATEWAY_ERROR":                 sms.Doubtful,
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

func (c *carrier) read(a sms.Response) (sms.Receipt, *sms.Error) {
	var said struct{ Code, Message, BizId string }
	if json.Unmarshal(a.Body, &said) != nil || said.Code == "" {
		taken := sms.Receipt{Code: delivery.Reply(a.Status, "")}
		return taken, sms.ErrorByStatus(a, "")
	}
	taken := sms.Receipt{ID: sms.SafeID(said.BizId), Code: delivery.Reply(a.Status, sms.SafeCode(said.Code))}
	switch {
	case said.Code == "OK" && a.Status < 300:
		return taken, nil
	case said.Code == aliyunLimit:
		return taken, sms.Limited(aliyunHold(said.Message)).Fail(a, said.Code)
	}
	return taken, sms.ByCode(a, said.Code, codes)
}
