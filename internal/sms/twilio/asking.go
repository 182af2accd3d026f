package twilio

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"

	"sendcode/internal/delivery"
	"sendcode/internal/sms"
)

// Ask implements Asker: it fetches the message (twilio.com/docs/messaging/api/message-resource#fetch-a-message-resource).
func (t *carrier) Ask(ctx context.Context, q sms.Inquiry) (sms.Report, bool, error) {
	if !twilioSID.MatchString(q.ID) {
		return sms.Report{}, false, &sms.Error{Class: delivery.Rejected, Stage: sms.StageMessage, Err: sms.ErrMessage}
	}
	a, err := t.Query(ctx, sms.Request{
		Method: http.MethodGet, URL: strings.TrimSuffix(t.Endpoint, "/") + "/2010-04-01/Accounts/" + t.Account + "/Messages/" + q.ID + ".json",
		Header: http.Header{"Authorization": {sms.BasicAuth(t.user(), t.Secret)}, "Accept": {"application/json"}},
	})
	if err != nil {
		return sms.Report{}, false, err
	}
	var said struct {
		SID    string `json:"sid"`
		Status string `json:"status"`
	}
	if json.Unmarshal(a.Body, &said) != nil || said.SID != q.ID {
		return sms.Report{}, false, sms.Unreadable(a, "")
	}
	r, known := sms.FinalReport(q.Send, said.Status, []string{"delivered", "read"}, []string{"undelivered", "failed", "canceled"})
	return r, known, nil
}
