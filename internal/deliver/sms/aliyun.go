package sms

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"sendcode/internal/deliver/delivery"
	"sendcode/internal/deliver/providerhttp"
)

// Aliyun is an account with Alibaba Cloud SMS, interface Dysmsapi 2017-05-25
// (help.aliyun.com/zh/sms/developer-reference/api-dysmsapi-2017-05-25-sendsms).
type Aliyun struct {
	Account `yaml:",inline"`
	// The base URL, for tests and other regions.
	Endpoint string `yaml:"endpoint" default:"https://dysmsapi.aliyuncs.com"`
}

type aliyunCarrier struct {
	aliyunAPI
}

// aliyunAPI holds the code that Aliyun's two interfaces for messages share: the signature of
// requests and the form of reports.
type aliyunAPI struct {
	Account
	Endpoint string
	*Client
}

func (a Aliyun) Check() map[string]error { return checkAliyun(a.Account, a.Endpoint) }

func checkAliyun(a Account, endpoint string) map[string]error {
	wrong := a.CheckAccount()
	if a.Sign == "" {
		wrong["sign"] = errors.New("is missing: give the approved signature")
	}
	noteEndpointProblem(wrong, endpoint)
	return wrong
}

func (a Aliyun) Open(s Setup) Carrier {
	return &aliyunCarrier{aliyunAPI{a.Account, a.Endpoint, NewClient(s)}}
}

// Send implements Carrier. The interface has no idempotency token: OutId only comes back in
// receipts.
func (c *aliyunCarrier) Send(ctx context.Context, m Message) (delivery.Result, *delivery.Error) {
	template, values, fail := c.Template(m)
	if fail != nil {
		return delivery.Result{}, fail
	}
	return c.Attempt(ctx, c.signedRequest("SendSms", map[string]string{
		"PhoneNumbers": FormatNumber(m.To, m.Country), "SignName": c.Sign, "TemplateCode": template,
		"TemplateParam": fillTemplate(c.Params, values),
		"OutId":         m.ID,
	}), parseAliyunAnswer)
}

func fillTemplate(names, values []string) string {
	params := map[string]string{}
	for i, value := range values {
		params[names[i]] = value
	}
	filled, _ := json.Marshal(params) // a map of strings always encodes
	return string(filled)
}

// FormatNumber returns a national number for mainland China, otherwise the full number without a
// plus.
func FormatNumber(number, country string) string {
	digits := strings.TrimPrefix(number, "+")
	if country == "CN" {
		return strings.TrimPrefix(digits, "86")
	}
	return digits
}

const acs3Algorithm = "ACS3-HMAC-SHA256"

// signedRequest follows help.aliyun.com/zh/sdk/product-overview/v3-request-structure-and-signature.
func (a *aliyunAPI) signedRequest(action string, params map[string]string) providerhttp.Request {
	query := CanonicalQuery(params)
	signed := map[string]string{
		"host": providerhttp.Host(a.Endpoint), "x-acs-action": action, "x-acs-version": "2017-05-25",
		"x-acs-date": a.CurrentTime().UTC().Format("2006-01-02T15:04:05Z"), "x-acs-signature-nonce": rand.Text(),
		"x-acs-content-sha256": providerhttp.HexSHA256(""),
	}
	header := http.Header{"Accept": {"application/json"}}
	for name, value := range signed {
		if name != "host" {
			header.Set(name, value)
		}
	}
	header.Set("Authorization", ACS3Authorization(a.KeyID, a.Secret, http.MethodPost, query, signed))
	return providerhttp.Request{
		Method: http.MethodPost, URL: strings.TrimSuffix(a.Endpoint, "/") + "/?" + query,
		Header: header,
	}
}

// ACS3Authorization returns the header Authorization of a request to "/". The names in signed are
// in lower case, and one is x-acs-content-sha256, the hash of the body.
func ACS3Authorization(id, secret, method, query string, signed map[string]string) string {
	canonical, list := providerhttp.CanonicalRequest(method, "/", query, signed, signed["x-acs-content-sha256"])
	signature := hex.EncodeToString(providerhttp.HMACSHA256([]byte(secret), acs3Algorithm+"\n"+providerhttp.HexSHA256(canonical)))
	return acs3Algorithm + " Credential=" + id + ",SignedHeaders=" + list + ",Signature=" + signature
}

// CanonicalQuery sorts the parameters by name and escapes them by RFC 3986.
func CanonicalQuery(params map[string]string) string {
	var pairs []string
	for _, name := range slices.Sorted(maps.Keys(params)) {
		pairs = append(pairs, providerhttp.EscapeURLPart(name)+"="+providerhttp.EscapeURLPart(params[name]))
	}
	return strings.Join(pairs, "&")
}

const (
	recipientLimitErrorCode = "isv.BUSINESS_LIMIT_CONTROL"
	intervalErrorCode       = "biz.FREQUENCY" // of AliyunVerify: two messages to a number within 60 s
)

// limitDuration returns how long a limit on a number lasts, which Aliyun's message shows. If the
// message does not show it, the result is an hour. By default Aliyun accepts 1 message a minute, 5
// an hour, 10 in 24 hours, and 40 in 24 hours from all senders together.
func limitDuration(message string) time.Duration {
	switch {
	case strings.Contains(message, "分钟"), strings.Contains(strings.ToLower(message), "minute"):
		return time.Minute
	case strings.Contains(message, "天"), strings.Contains(message, "日"),
		strings.Contains(strings.ToLower(message), "day"):
		return 24 * time.Hour
	}
	return time.Hour
}

// aliyunAnswer has the fields of the answers to all actions used here.
type aliyunAnswer struct {
	Code, Message, BizId string
	TemplateStatus       json.RawMessage // a number, or a text with the number
	Success              *bool           // only answers to AliyunVerify have Success and Model
	Model                struct{ BizId string }
	SmsSendDetailDTOs    struct {
		SmsSendDetailDTO []struct {
			SendStatus int
			OutID      string `json:"OutId"`
		}
	}
}

func parseAliyunAnswer(a providerhttp.Response) (id, code string, fail *delivery.Error) {
	var answer aliyunAnswer
	switch err := json.Unmarshal(a.Body, &answer); {
	case err != nil || answer.Code == "":
		return "", "", providerhttp.ErrorByStatus(a, "")
	case answer.Code == recipientLimitErrorCode:
		fail = MeaningLimited(limitDuration(answer.Message)).ToError(a, answer.Code)
	case answer.Code == intervalErrorCode:
		fail = MeaningLimited(time.Minute).ToError(a, answer.Code)
	case answer.Code != "OK" || a.Status >= 300 || answer.Success != nil && !*answer.Success:
		fail = errorByCode(a, answer.Code, aliyunMeanings)
	}
	return cmp.Or(answer.BizId, answer.Model.BizId), answer.Code, fail
}

// loginRefused reports whether the access key, or the signature made with it, was refused.
func (a aliyunAnswer) loginRefused() bool {
	family, _, _ := strings.Cut(a.Code, ".")
	return slices.Contains([]string{"SignatureDoesNotMatch", "IncompleteSignature", "InvalidAccessKeyId"}, family)
}

// Aliyun dates messages in UTC+8, such as in SendDate, also for recipients in other countries.
var chinaTimeZone = time.FixedZone("UTC+8", 8*60*60)

// PollStatus implements Poller
// (help.aliyun.com/zh/sms/developer-reference/api-dysmsapi-2017-05-25-querysenddetails). SendStatus
// is 1 if the message is under way, 2 if it failed, and 3 if it was delivered. OutId is that of
// SendSms.
func (c *aliyunCarrier) PollStatus(ctx context.Context, q StatusQuery) (Report, bool, error) {
	a, err := c.Query(ctx, c.signedRequest("QuerySendDetails", map[string]string{
		"PhoneNumber": FormatNumber(q.To, q.Country), "BizId": q.CarrierID, "SendDate": q.At.In(chinaTimeZone).Format("20060102"),
		"PageSize": "50", "CurrentPage": "1",
	}))
	if err != nil {
		return Report{}, false, err
	}
	var answer aliyunAnswer
	if json.Unmarshal(a.Body, &answer) != nil || answer.Code != "OK" {
		return Report{}, false, StatusQueryError(a, answer.Code)
	}
	for _, d := range answer.SmsSendDetailDTOs.SmsSendDetailDTO {
		if r, known := ReportByStatus(q.Send, strconv.Itoa(d.SendStatus), []string{"3"}, []string{"2"}); known &&
			d.OutID == q.Send {
			return r, true, nil
		}
	}
	return Report{}, false, nil
}

// ParseReports implements ReportParser
// (help.aliyun.com/zh/sms/developer-reference/configure-delivery-receipts-1). Aliyun posts a list
// to one address for the whole account; out_id is the OutId of SendSms.
func (a *aliyunAPI) ParseReports(in IncomingRequest, _ string) ([]Report, string, error) {
	var all []struct {
		OutID   string `json:"out_id"`
		Success *bool  `json:"success"`
	}
	if err := json.Unmarshal(in.Body, &all); err != nil {
		return nil, "", ErrUnreadableReport
	}
	var reports []Report
	for _, r := range all {
		if r.Success != nil && r.OutID != "" {
			reports = append(reports, Report{Send: r.OutID, Delivered: *r.Success})
		}
	}
	return reports, `{"code":0,"msg":"OK"}`, nil
}

func (a *aliyunAPI) EndpointURL() string { return a.Endpoint }

// Probe fetches each template, whose status is 1 if it is approved
// (help.aliyun.com/zh/sms/developer-reference/api-dysmsapi-2017-05-25-getsmstemplate).
func (c *aliyunCarrier) Probe(ctx context.Context) (string, error) {
	ids := c.Templates.TemplateIDs()
	for _, id := range ids {
		a, fail := c.Do(ctx, c.signedRequest("GetSmsTemplate", map[string]string{"TemplateCode": id}))
		if fail != nil {
			return "", fail
		}
		var answer aliyunAnswer
		switch err := json.Unmarshal(a.Body, &answer); {
		case err != nil || answer.Code == "":
			return "", ErrUndocumentedAnswer
		case answer.loginRefused():
			return "", ErrLogin
		case answer.Code != "OK":
			return "", fmt.Errorf("template %s: %w: %s", id, ErrUnknownTemplate, providerhttp.SafeErrorCode(answer.Code))
		case strings.Trim(string(answer.TemplateStatus), `"`) != "1":
			return "", fmt.Errorf("template %s: %w", id, ErrUnknownTemplate)
		}
	}
	return templatesKnownNote(ids), nil
}
