// Package tencent is the carrier Tencent Cloud SMS: its settings, sending, receipts, asking and probe.
package tencent

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"sendcode/internal/delivery"
	"sendcode/internal/sms"
)

// Config is an account with Tencent Cloud SMS, interface sms 2021-01-11 (cloud.tencent.com/document/product/382/55981).
type Config struct {
	sms.Account `yaml:",inline"`
	// The SDK app ID.
	App string `yaml:"app,omitempty"`
	// The application's region.
	Region string `yaml:"region" default:"ap-guangzhou"`
	// For tests and regions.
	Endpoint string `yaml:"endpoint" default:"https://sms.tencentcloudapi.com"`
}

type carrier struct {
	Config
	*sms.Client
	host string
}

var (
	tencentApp    = regexp.MustCompile(`^[0-9]{6,20}$`)
	tencentRegion = regexp.MustCompile(`^[a-z]{2}-[a-z0-9-]{2,30}$`)
)

// Check gives everything that is wrong, by its key.
func (c Config) Check() map[string]error {
	wrong := c.Wrong()
	if !tencentApp.MatchString(c.App) {
		wrong["app"] = errors.New("must be the SDK app ID, such as 1400006666")
	}
	if c.Region != "" && !tencentRegion.MatchString(c.Region) {
		wrong["region"] = errors.New("is no region such as ap-guangzhou")
	}
	sms.CheckEndpoint(wrong, c.Endpoint)
	return wrong
}

// Open implements Settings.
func (c Config) Open(s sms.Setup) sms.Carrier {
	return &carrier{c, sms.NewClient(s), sms.Host(c.Endpoint)}
}

// Send implements Carrier. The interface has no idempotency token: SessionContext only comes back in the answer.
func (c *carrier) Send(ctx context.Context, m sms.Message) (sms.Receipt, error) {
	body, err := c.body(m)
	if err != nil {
		return c.Unsent(err)
	}
	return c.Attempt(ctx, c.request("SendSms", body), c.read)
}

func (c *carrier) body(m sms.Message) (map[string]any, error) {
	template := c.Templates.Find(m.Purpose, m.Language)
	if template == "" {
		return nil, sms.ErrTemplate
	}
	var params []string
	for _, name := range c.Params {
		params = append(params, m.Param(name))
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
	return body, nil
}

const (
	tc3     = "TC3-HMAC-SHA256"
	service = "sms"
	// tencentJSON is the type of every body, as it is signed.
	tencentJSON = "application/json; charset=utf-8"
)

// request signs an action (cloud.tencent.com/document/api/382/52072).
func (c *carrier) request(action string, content map[string]any) sms.Request {
	body, _ := json.Marshal(content) // texts and numbers always encode
	now := c.Time().UTC()
	signed := map[string]string{
		"content-type": tencentJSON, "host": c.host, "x-tc-action": strings.ToLower(action),
	}
	return sms.Request{
		Method: http.MethodPost, URL: strings.TrimSuffix(c.Endpoint, "/") + "/", Body: body,
		Header: http.Header{
			"Authorization": {signTC3(c.KeyID, c.Secret, service, now, http.MethodPost, "", signed, string(body))},
			"Content-Type":  {tencentJSON}, "X-Tc-Action": {action}, "X-Tc-Version": {"2021-01-11"},
			"X-Tc-Timestamp": {strconv.FormatInt(now.Unix(), 10)}, "X-Tc-Region": {c.Region},
		},
	}
}

// signTC3 gives the Authorization of a request to /; the names of the signed headers are in lower case.
func signTC3(id, secret, service string, at time.Time, method, query string, signed map[string]string, body string) string {
	canonical, list := sms.CanonicalRequest(method, query, signed, sms.HexSHA256(body))
	date := at.UTC().Format(time.DateOnly)
	scope := date + "/" + service + "/tc3_request"
	text := strings.Join([]string{tc3, strconv.FormatInt(at.Unix(), 10), scope, sms.HexSHA256(canonical)}, "\n")
	key := sms.HMACSHA256(sms.HMACSHA256(sms.HMACSHA256([]byte("TC3"+secret), date), service), "tc3_request")
	return tc3 + " Credential=" + id + "/" + scope + ", SignedHeaders=" + list + ", Signature=" + hex.EncodeToString(sms.HMACSHA256(key, text))
}

// codes are those of cloud.tencent.com/document/product/382/55981#6.-错误码; every other one means that the message was
// not taken, for a reason that is ours or theirs and not the recipient's.
var codes = map[string]sms.Verdict{
	"LimitExceeded.PhoneNumberThirtySecondLimit":                sms.Limited(30 * time.Second),
	"LimitExceeded.PhoneNumberOneHourLimit":                     sms.Limited(time.Hour),
	"LimitExceeded.PhoneNumberDailyLimit":                       sms.Limited(24 * time.Hour),
	"LimitExceeded.PhoneNumberSameContentDailyLimit":            sms.Limited(24 * time.Hour),
	"LimitExceeded.DeliveryFrequencyLimit":                      sms.Limited(30 * time.Second),
	"InvalidParameterValue.IncorrectPhoneNumber":                sms.Refused,
	"InvalidParameterValue.ProhibitedUseUrlInTemplateParameter": sms.Refused,
	"InvalidParameterValue.TemplateParameterLengthLimit":        sms.Refused,
	"FailedOperation.ContainSensitiveWord":                      sms.Refused,
	"FailedOperation.PhoneNumberInBlacklist":                    sms.OptedOut,
	"InternalError.OtherError":                                  sms.Doubtful,
	"InternalError.SendAndRecvFail":                             sms.Doubtful,
	"InternalError.Timeout":                                     sms.Doubtful,
	"InternalError.UnknownError":                                sms.Doubtful,
	"InternalError":                                             sms.Doubtful,
}

func (c *carrier) read(a sms.Response) (sms.Receipt, *sms.Error) {
	var said struct {
		Response struct {
			Error         *struct{ Code string }
			SendStatusSet []struct{ SerialNo, Code string }
		}
	}
	code, id := "", ""
	if json.Unmarshal(a.Body, &said) == nil {
		switch set := said.Response.SendStatusSet; {
		case said.Response.Error != nil:
			code = said.Response.Error.Code
		case len(set) == 1:
			code, id = set[0].Code, set[0].SerialNo
		}
	}
	taken := sms.Receipt{ID: sms.SafeID(id), Code: delivery.Reply(a.Status, sms.SafeCode(code))}
	switch {
	case code == "":
		return taken, sms.ErrorByStatus(a, "")
	case code == "Ok" && a.Status < 300:
		return taken, nil
	}
	return taken, sms.ByCode(a, code, codes)
}
