package aliyun

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"sendcode/internal/sms"
)

// Aliyun keeps the days of mainland China, for whatever country.
var china = time.FixedZone("UTC+8", 8*60*60)

// Ask implements Asker (help.aliyun.com/zh/sms/developer-reference/api-dysmsapi-2017-05-25-querysenddetails): SendStatus 1 is
// under way, 2 failed, 3 delivered; OutId is what SendSms was given.
func (c *carrier) Ask(ctx context.Context, q sms.Inquiry) (sms.Report, bool, error) {
	a, err := c.Query(ctx, c.request("QuerySendDetails", map[string]string{
		"PhoneNumber": aliyunNumber(sms.Message{To: q.To, Country: q.Country}), "BizId": q.ID, "SendDate": q.At.In(china).Format("20060102"),
		"PageSize": "50", "CurrentPage": "1",
	}))
	if err != nil {
		return sms.Report{}, false, err
	}
	var said struct {
		Code              string
		SmsSendDetailDTOs struct {
			SmsSendDetailDTO []struct {
				SendStatus int
				OutID      string `json:"OutId"`
			}
		}
	}
	if json.Unmarshal(a.Body, &said) != nil || said.Code != "OK" {
		return sms.Report{}, false, sms.Unreadable(a, said.Code)
	}
	for _, d := range said.SmsSendDetailDTOs.SmsSendDetailDTO {
		if r, known := sms.FinalReport(q.Send, strconv.Itoa(d.SendStatus), []string{"3"}, []string{"2"}); known && d.OutID == q.Send {
			return r, true, nil
		}
	}
	return sms.Report{}, false, nil
}

// Reports implements Reporter (help.aliyun.com/zh/sms/developer-reference/configure-delivery-receipts-1): the account posts a list to
// one address; out_id names the send, as in SendSms.
func (c *carrier) Reports(in sms.Incoming, _ string) ([]sms.Report, string, error) {
	var all []struct {
		OutID   string `json:"out_id"`
		Success *bool  `json:"success"`
	}
	if err := json.Unmarshal(in.Body, &all); err != nil {
		return nil, "", sms.ErrReport
	}
	var reports []sms.Report
	for _, r := range all {
		if r.Success != nil && r.OutID != "" {
			reports = append(reports, sms.Report{Send: r.OutID, Delivered: *r.Success})
		}
	}
	return reports, `{"code":0,"msg":"OK"}`, nil
}

func (c *carrier) Address() string { return c.Endpoint }

// Probe asks for each template (help.aliyun.com/zh/sms/developer-reference/api-dysmsapi-2017-05-25-getsmstemplate): status 1 is
// approved.
func (c *carrier) Probe(ctx context.Context) (string, error) {
	ids := c.Templates.All()
	for _, id := range ids {
		a, fail := c.Do(ctx, c.request("GetSmsTemplate", map[string]string{"TemplateCode": id}))
		if fail != nil {
			return "", fail
		}
		var said struct {
			Code           string
			TemplateStatus json.RawMessage // a number or a text with it
		}
		switch err := json.Unmarshal(a.Body, &said); {
		case err != nil || said.Code == "":
			return "", sms.ErrUndocumented
		case strings.HasPrefix(said.Code, "SignatureDoesNotMatch"), strings.HasPrefix(said.Code, "IncompleteSignature"),
			strings.HasPrefix(said.Code, "InvalidAccessKeyId"):
			return "", sms.ErrLogin
		case said.Code != "OK":
			return "", fmt.Errorf("template %s: %w: %s", id, sms.ErrUnknownTemplate, sms.SafeCode(said.Code))
		case strings.Trim(string(said.TemplateStatus), `"`) != "1":
			return "", fmt.Errorf("template %s: %w", id, sms.ErrUnknownTemplate)
		}
	}
	return sms.KnownTemplates(ids), nil
}
