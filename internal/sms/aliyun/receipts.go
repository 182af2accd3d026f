package aliyun

import (
	"encoding/json"

	"sendcode/internal/sms"
)

// Reports implements Reporter (help.aliyun.com/zh/sms/developer-reference/configure-delivery-receipts-1): a list, at an
// address that the account has and that names no send; out_id is what SendSms was given.
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
