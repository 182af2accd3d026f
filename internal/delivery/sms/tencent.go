package sms

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"sendcode/internal/delivery"
)

// Tencent is an account with Tencent Cloud SMS, interface sms 2021-01-11 (cloud.tencent.com/document/product/382/55981).
type Tencent struct {
	Name string
	// SecretID and Secret are the API key.
	SecretID, Secret string
	// App is the SDK app ID of the SMS application.
	App string
	// Sign is the approved signature; mainland China needs one.
	Sign      string
	Templates Approved
	// Params are what the templates take, in order: code, minutes.
	Params []string
	// Region is ap-guangzhou.
	Region string
	// Endpoint is https://sms.tencentcloudapi.com; another one is for tests and regions.
	Endpoint string
	// Timeout bounds one attempt: 20 s.
	Timeout time.Duration
	// Now gives the time that requests are signed with: time.Now.
	Now func() time.Time
}

type tencent struct {
	Tencent
	host     string
	exchange *exchange
}

var (
	tencentApp    = regexp.MustCompile(`^[0-9]{6,20}$`)
	tencentRegion = regexp.MustCompile(`^[a-z]{2}-[a-z0-9-]{2,30}$`)
)

// Check gives everything that is wrong, by its key.
func (c Tencent) Check() map[string]error {
	wrong := map[string]error{}
	if !keyID.MatchString(c.SecretID) {
		wrong["key_id"] = errors.New("is missing, or no secret ID")
	}
	if !tencentApp.MatchString(c.App) {
		wrong["app"] = errors.New("must be the SDK app ID, such as 1400006666")
	}
	if c.Region != "" && !tencentRegion.MatchString(c.Region) {
		wrong["region"] = errors.New("is no region such as ap-guangzhou")
	}
	c.Templates.check(wrong)
	checkParams(c.Params, wrong)
	checkCommon(wrong, c.Secret, c.Endpoint)
	return wrong
}

// NewTencent makes a carrier of an account that Check finds nothing in.
func NewTencent(c Tencent) (Carrier, error) {
	for key, err := range c.Check() {
		return nil, errors.New("sms carrier " + c.Name + ": " + key + " " + err.Error())
	}
	if c.Endpoint == "" {
		c.Endpoint = "https://sms.tencentcloudapi.com"
	}
	if c.Region == "" {
		c.Region = "ap-guangzhou"
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
	return &tencent{c, u.Host, newExchange(c.Timeout)}, nil
}

// Name implements Carrier.
func (c *tencent) Name() string { return c.Tencent.Name }

// Send implements Carrier. The interface has no idempotency token: SessionContext only comes back in the answer.
func (c *tencent) Send(ctx context.Context, m Message) (Receipt, error) {
	body, err := c.body(m)
	if err != nil {
		return unsent(c.Tencent.Name, err)
	}
	return c.exchange.carry(ctx, c.Tencent.Name, c.request("SendSms", body), c.read)
}

func (c *tencent) body(m Message) ([]byte, error) {
	template := c.Templates.find(m.Purpose, m.Language)
	if template == "" {
		return nil, errTemplate
	}
	var params []string
	for _, name := range c.Params {
		params = append(params, m.param(name))
	}
	body := map[string]any{
		"PhoneNumberSet": []string{m.To}, "SmsSdkAppId": c.App, "TemplateId": template, "TemplateParamSet": params, "SessionContext": m.ID,
	}
	if c.Sign != "" {
		body["SignName"] = c.Sign
	}
	if m.Sender != "" && m.Country != "CN" {
		body["SenderId"] = m.Sender
	}
	return json.Marshal(body)
}

const (
	tc3     = "TC3-HMAC-SHA256"
	service = "sms"
)

// request signs an action (cloud.tencent.com/document/api/382/52072).
func (c *tencent) request(action string, body []byte) request {
	now := c.Now().UTC()
	signed := map[string]string{
		"content-type": contentTypes[FormatJSON], "host": c.host, "x-tc-action": strings.ToLower(action),
	}
	return request{
		method: http.MethodPost, url: strings.TrimSuffix(c.Endpoint, "/") + "/", body: body,
		header: http.Header{
			"Authorization": {signTC3(c.SecretID, c.Secret, service, now, http.MethodPost, "", signed, string(body))},
			"Content-Type":  {contentTypes[FormatJSON]}, "X-Tc-Action": {action}, "X-Tc-Version": {"2021-01-11"},
			"X-Tc-Timestamp": {strconv.FormatInt(now.Unix(), 10)}, "X-Tc-Region": {c.Region},
		},
	}
}

// signTC3 gives the Authorization of a request to /; the names of the signed headers are in lower case.
func signTC3(id, secret, service string, at time.Time, method, query string, signed map[string]string, body string) string {
	canonical, list := canonicalRequest(method, query, signed, hexSHA256(body))
	date := at.UTC().Format(time.DateOnly)
	scope := date + "/" + service + "/tc3_request"
	text := strings.Join([]string{tc3, strconv.FormatInt(at.Unix(), 10), scope, hexSHA256(canonical)}, "\n")
	key := hmacSHA256(hmacSHA256(hmacSHA256([]byte("TC3"+secret), date), service), "tc3_request")
	return tc3 + " Credential=" + id + "/" + scope + ", SignedHeaders=" + list + ", Signature=" + hex.EncodeToString(hmacSHA256(key, text))
}

// tencentCodes are those of cloud.tencent.com/document/product/382/55981#6.-错误码; every other one means that the message was
// not taken, for a reason that is ours or theirs and not the recipient's.
var tencentCodes = map[string]verdict{
	"LimitExceeded.PhoneNumberThirtySecondLimit":                limited(30 * time.Second),
	"LimitExceeded.PhoneNumberOneHourLimit":                     limited(time.Hour),
	"LimitExceeded.PhoneNumberDailyLimit":                       limited(24 * time.Hour),
	"LimitExceeded.PhoneNumberSameContentDailyLimit":            limited(24 * time.Hour),
	"LimitExceeded.DeliveryFrequencyLimit":                      limited(30 * time.Second),
	"InvalidParameterValue.IncorrectPhoneNumber":                refused,
	"InvalidParameterValue.ProhibitedUseUrlInTemplateParameter": refused,
	"InvalidParameterValue.TemplateParameterLengthLimit":        refused,
	"FailedOperation.ContainSensitiveWord":                      refused,
	"FailedOperation.PhoneNumberInBlacklist":                    optedOut,
	"InternalError.OtherError":                                  doubtful,
	"InternalError.SendAndRecvFail":                             doubtful,
	"InternalError.Timeout":                                     doubtful,
	"InternalError.UnknownError":                                doubtful,
	"InternalError":                                             doubtful,
}

func (c *tencent) read(a answer) (Receipt, *Error) {
	var said struct {
		Response struct {
			Error         *struct{ Code string }
			SendStatusSet []struct{ SerialNo, Code string }
		}
	}
	code, id := "", ""
	if json.Unmarshal(a.body, &said) == nil {
		switch set := said.Response.SendStatusSet; {
		case said.Response.Error != nil:
			code = said.Response.Error.Code
		case len(set) == 1:
			code, id = set[0].Code, set[0].SerialNo
		}
	}
	taken := Receipt{ID: asID(id), Code: delivery.Reply(a.status, asCode(code))}
	v, known := tencentCodes[code]
	switch {
	case code == "":
		return taken, byStatus(a, "")
	case code == "Ok" && a.status < 300:
		return taken, nil
	case known:
		return taken, v.fail(a, code)
	case a.status >= 500 && a.status != http.StatusServiceUnavailable:
		return taken, doubtful.fail(a, code)
	}
	return taken, later.fail(a, code)
}
