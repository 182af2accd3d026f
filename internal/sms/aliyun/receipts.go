package aliyun

import (
	"encoding/json"

	"sendcode/internal/sms"
)

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
