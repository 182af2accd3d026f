package twilio

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"

	"sendcode/internal/delivery"
	"sendcode/internal/sms"
)

// Ask implements Asker: it fetches the message.
func (t *carrier) Ask(ctx context.Context, q sms.Inquiry) (sms.Report, bool, error) {
	if !twilioSID.MatchString(q.ID) {
		return sms.Report{}, false, &sms.Error{Class: delivery.Rejected, Stage: sms.StageMessage, Err: sms.ErrMessage}
	}
	a, err := t.Query(ctx, t.fetch(q.ID))
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

func (t *carrier) Address() string { return t.Endpoint }

// Probe fetches a message that there is not: with the right login that is a 404 (twilio.com/docs/usage/requests-to-twilio).
func (t *carrier) Probe(ctx context.Context) (string, error) {
	a, fail := t.Do(ctx, t.fetch("SM"+strings.Repeat("0", 32)))
	switch {
	case fail != nil:
		return "", fail
	case a.Status == http.StatusNotFound || a.Status == http.StatusOK:
		return ", and takes the login", nil
	case a.Status == http.StatusUnauthorized || a.Status == http.StatusForbidden:
		return "", sms.ErrLogin
	}
	return "", sms.ErrUndocumented
}
