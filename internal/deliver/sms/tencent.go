package sms

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"sendcode/internal/deliver/delivery"
	"sendcode/internal/deliver/providerhttp"
)

// Tencent is an account with Tencent Cloud SMS, interface sms 2021-01-11
// (cloud.tencent.com/document/product/382/55981).
type Tencent struct {
	Account `yaml:",inline"`
	// The ID of the SDK app.
	App string `yaml:"app,omitempty"`
	// The application's region.
	Region string `yaml:"region" default:"ap-guangzhou"`
	// The base URL, for tests and other regions.
	Endpoint string `yaml:"endpoint" default:"https://sms.tencentcloudapi.com"`
}

type tencentCarrier struct {
	Tencent
	*Client
}

var (
	appPattern    = regexp.MustCompile(`^[0-9]{6,20}$`)
	regionPattern = regexp.MustCompile(`^[a-z]{2}-[a-z0-9-]{2,30}$`)
)

func (t Tencent) Check() map[string]error {
	wrong := t.CheckAccount()
	if !appPattern.MatchString(t.App) {
		wrong["app"] = errors.New("must be the SDK app ID, such as 1400006666")
	}
	if t.Region != "" && !regionPattern.MatchString(t.Region) {
		wrong["region"] = errors.New("is not a region such as ap-guangzhou")
	}
	noteEndpointProblem(wrong, t.Endpoint)
	return wrong
}

func (t Tencent) Open(s Setup) Carrier {
	return &tencentCarrier{t, NewClient(s)}
}

// Send implements Carrier. The API has no idempotency token: SessionContext only comes back in the
// answer.
func (c *tencentCarrier) Send(ctx context.Context, m Message) (delivery.Result, *delivery.Error) {
	template, params, fail := c.Template(m)
	if fail != nil {
		return delivery.Result{}, fail
	}
	body := map[string]any{
		"PhoneNumberSet": []string{m.To}, "SmsSdkAppId": c.App, "TemplateId": template, "TemplateParamSet": params,
		"SessionContext": m.ID,
	}
	if c.Sign != "" {
		body["SignName"] = c.Sign
	}
	if m.Sender != "" && m.Country != "CN" {
		body["SenderId"] = m.Sender
	}
	return c.Attempt(ctx, c.signedRequest("SendSms", body), parseTencentAnswer)
}

const (
	tc3Algorithm = "TC3-HMAC-SHA256"
	tc3Service   = "sms"
	// contentType is the type of every body, and part of the signature.
	contentType = "application/json; charset=utf-8"
)

// signedRequest follows cloud.tencent.com/document/api/382/52072.
func (c *tencentCarrier) signedRequest(action string, content map[string]any) providerhttp.Request {
	body, _ := json.Marshal(content) // texts and numbers always encode
	now := c.CurrentTime().UTC()
	signed := map[string]string{
		"content-type": contentType, "host": providerhttp.Host(c.Endpoint), "x-tc-action": strings.ToLower(action),
	}
	return providerhttp.Request{
		Method: http.MethodPost, URL: strings.TrimSuffix(c.Endpoint, "/") + "/", Body: body,
		Header: http.Header{
			"Authorization": {TC3Authorization(c.KeyID, c.Secret, tc3Service, now, http.MethodPost, "", signed, string(body))},
			"Content-Type":  {contentType}, "X-Tc-Action": {action}, "X-Tc-Version": {"2021-01-11"},
			"X-Tc-Timestamp": {strconv.FormatInt(now.Unix(), 10)}, "X-Tc-Region": {c.Region},
		},
	}
}

// TC3Authorization returns the header Authorization of a request to "/". The names in signed are in
// lower case.
func TC3Authorization(id, secret, service string, at time.Time, method, query string, signed map[string]string,
	body string,
) string {
	canonical, list := providerhttp.CanonicalRequest(method, "/", query, signed, providerhttp.HexSHA256(body))
	date := at.UTC().Format(time.DateOnly)
	scope := date + "/" + service + "/tc3_request"
	text := strings.Join([]string{tc3Algorithm, strconv.FormatInt(at.Unix(), 10), scope, providerhttp.HexSHA256(canonical)}, "\n")
	key := providerhttp.HMACSHA256(providerhttp.HMACSHA256(providerhttp.HMACSHA256([]byte("TC3"+secret), date), service),
		"tc3_request")
	return tc3Algorithm + " Credential=" + id + "/" + scope + ", SignedHeaders=" + list + ", Signature=" +
		hex.EncodeToString(providerhttp.HMACSHA256(key, text))
}

// tencentAnswer has the fields of the answers to all actions used here. Each answer fills one list.
type tencentAnswer struct {
	Response struct {
		Error                     struct{ Code string }
		SendStatusSet             []struct{ SerialNo, Code string }
		PullSmsSendStatusSet      []struct{ SerialNo, ReportStatus string }
		DescribeTemplateStatusSet []struct{ TemplateID, StatusCode int }
	}
}

func parseTencentAnswer(a providerhttp.Response) (id, code string, fail *delivery.Error) {
	var answer tencentAnswer
	if json.Unmarshal(a.Body, &answer) == nil {
		code = answer.Response.Error.Code
		if set := answer.Response.SendStatusSet; code == "" && len(set) == 1 {
			code, id = set[0].Code, set[0].SerialNo
		}
	}
	switch {
	case code == "":
		fail = providerhttp.ErrorByStatus(a, "")
	case code != "Ok" || a.Status >= 300:
		fail = errorByCode(a, code, tencentMeanings)
	}
	return id, code, fail
}

// ReportsUseCarrierID returns true: a report names its message by the SerialNo in the answer to
// SendSms.
func (c *tencentCarrier) ReportsUseCarrierID() bool { return true }

// PollStatus implements Poller by PullSmsSendStatusByPhoneNumber
// (tencentcloud.com/document/product/382/40518). PullSmsSendStatus won't do: it returns each status
// once, to the account's first client that asks, and an account must apply for it.
func (c *tencentCarrier) PollStatus(ctx context.Context, q StatusQuery) (Report, bool, error) {
	a, err := c.Query(ctx, c.signedRequest("PullSmsSendStatusByPhoneNumber", map[string]any{
		"BeginTime": q.At.Add(-maxClockDifference).Unix(), "EndTime": c.CurrentTime().Unix(), "Offset": 0, "Limit": 100,
		"PhoneNumber": q.To, "SmsSdkAppId": c.App,
	}))
	if err != nil {
		return Report{}, false, err
	}
	var answer tencentAnswer
	if json.Unmarshal(a.Body, &answer) != nil || answer.Response.Error.Code != "" {
		return Report{}, false, StatusQueryError(a, answer.Response.Error.Code)
	}
	for _, s := range answer.Response.PullSmsSendStatusSet {
		if r, known := ReportByStatus(q.Send, s.ReportStatus, statusDelivered, statusFailed); known &&
			s.SerialNo == q.CarrierID {
			return r, true, nil
		}
	}
	return Report{}, false, nil
}

const maxClockDifference = time.Minute // how far Tencent's clock may be behind ours

// These are Tencent's values of report_status.
var (
	statusDelivered = []string{"SUCCESS"}
	statusFailed    = []string{"FAIL"}
)

// ParseReports implements ReportParser (tencentcloud.com/document/product/382/43547). Tencent posts
// a list, unsigned, to one address for the whole application; sid is the SerialNo in the answer to
// SendSms.
func (c *tencentCarrier) ParseReports(in IncomingRequest, _ string) ([]Report, string, error) {
	var all []struct {
		SID    string `json:"sid"`
		Status string `json:"report_status"`
	}
	if err := json.Unmarshal(in.Body, &all); err != nil {
		return nil, "", ErrUnreadableReport
	}
	var reports []Report
	for _, r := range all {
		if report, known := ReportByStatus("", r.Status, statusDelivered, statusFailed); known &&
			providerhttp.SafeIDOrEmpty(r.SID) != "" {
			report.CarrierID = r.SID
			reports = append(reports, report)
		}
	}
	return reports, `{"result":0,"errmsg":"OK"}`, nil
}

func (c *tencentCarrier) EndpointURL() string { return c.Endpoint }

// Probe asks for the status of the templates, first those for mainland China, then the
// international ones (tencentcloud.com/document/product/382/40524). Status 0 means approved.
func (c *tencentCarrier) Probe(ctx context.Context) (string, error) {
	ids := c.Templates.TemplateIDs()
	var numbers []int
	for _, id := range ids {
		n, err := strconv.Atoi(id)
		if err != nil {
			return "", fmt.Errorf("template %s: %w", id, ErrUnknownTemplate)
		}
		numbers = append(numbers, n)
	}
	approved := map[int]bool{}
	for international := range 2 {
		if err := c.fetchApproved(ctx, international, numbers, approved); err != nil {
			return "", err
		}
	}
	for i, n := range numbers {
		if !approved[n] {
			return "", fmt.Errorf("template %s: %w", ids[i], ErrUnknownTemplate)
		}
	}
	return templatesKnownNote(ids), nil
}

func (c *tencentCarrier) fetchApproved(ctx context.Context, international int, ids []int, approved map[int]bool) error {
	a, fail := c.Do(ctx, c.signedRequest("DescribeSmsTemplateList",
		map[string]any{"International": international, "TemplateIdSet": ids}))
	if fail != nil {
		return fail
	}
	var answer tencentAnswer
	if json.Unmarshal(a.Body, &answer) != nil {
		return ErrUndocumentedAnswer
	}
	switch code := answer.Response.Error.Code; {
	case strings.HasPrefix(code, "AuthFailure"):
		return ErrLogin
	case code != "":
		return &delivery.Error{
			Class: delivery.Temporary, Stage: delivery.StageAnswer, Status: a.Status,
			Code: providerhttp.SafeErrorCode(code),
		}
	}
	for _, t := range answer.Response.DescribeTemplateStatusSet {
		approved[t.TemplateID] = approved[t.TemplateID] || t.StatusCode == 0
	}
	return nil
}
