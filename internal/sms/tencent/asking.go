package tencent

import (
	"context"
	"encoding/json"
	"time"

	"sendcode/internal/sms"
)

// ReportsByID says that reports name messages by the SerialNo that SendSms answered.
func (c *carrier) ReportsByID() bool { return true }

// Ask implements Asker (tencentcloud.com/document/product/382/40518, PullSmsSendStatusByPhoneNumber): by number and time, and
// not PullSmsSendStatus, which hands each status out once, to the first of the account that asks, and has to be applied for.
func (c *carrier) Ask(ctx context.Context, q sms.Inquiry) (sms.Report, bool, error) {
	a, err := c.Query(ctx, c.request("PullSmsSendStatusByPhoneNumber", map[string]any{
		"BeginTime": q.At.Add(-tencentSlack).Unix(), "EndTime": c.Time().Unix(), "Offset": 0, "Limit": 100,
		"PhoneNumber": q.To, "SmsSdkAppId": c.App,
	}))
	if err != nil {
		return sms.Report{}, false, err
	}
	var said struct {
		Response struct {
			Error                *struct{ Code string }
			PullSmsSendStatusSet []struct{ SerialNo, ReportStatus string }
		}
	}
	if json.Unmarshal(a.Body, &said) != nil {
		return sms.Report{}, false, sms.Unreadable(a, "")
	}
	if said.Response.Error != nil {
		return sms.Report{}, false, sms.Unreadable(a, said.Response.Error.Code)
	}
	for _, s := range said.Response.PullSmsSendStatusSet {
		if r, known := sms.FinalReport(q.Send, s.ReportStatus, tencentDelivered, tencentLost); known && s.SerialNo == q.ID {
			return r, true, nil
		}
	}
	return sms.Report{}, false, nil
}

// tencentSlack is how far their clock may be from ours.
const tencentSlack = time.Minute

// The words for what became of a message.
var (
	tencentDelivered = []string{"SUCCESS"}
	tencentLost      = []string{"FAIL"}
)

// Reports implements Reporter (tencentcloud.com/document/product/382/43547): a list, at an address that the application has
// and that names no send; sid is the SerialNo that SendSms answered. Nothing is signed.
func (c *carrier) Reports(in sms.Incoming, _ string) ([]sms.Report, string, error) {
	var all []struct {
		SID    string `json:"sid"`
		Status string `json:"report_status"`
	}
	if err := json.Unmarshal(in.Body, &all); err != nil {
		return nil, "", sms.ErrReport
	}
	var reports []sms.Report
	for _, r := range all {
		if report, known := sms.FinalReport("", r.Status, tencentDelivered, tencentLost); known && sms.SafeID(r.SID) != "" {
			report.ID = r.SID
			reports = append(reports, report)
		}
	}
	return reports, `{"result":0,"errmsg":"OK"}`, nil
}
