package aliyun

import (
	"context"
	"encoding/json"
	"strconv"
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
