package verification

import (
	"context"
	"errors"

	"sendcode/internal/audit"
	"sendcode/internal/delivery"
	"sendcode/internal/delivery/sms"
)

// errOff ends a text message that waited while the last carrier was taken out of the configuration.
var errOff = errors.New("verification: no carrier is configured")

// handText gives a text message to the carriers.
func (o *outbox) handText(ctx context.Context, w audit.Work, t content) (heard, string, error) {
	if o.Carrier == nil {
		return heard{}, reasonOff, errOff
	}
	text, err := o.Texts.Render(t.request)
	if err != nil {
		return heard{}, reasonTemplate, err
	}
	receipt, err := o.Carrier.Send(ctx, sms.Message{
		ID: w.Send.ID.String(), To: t.to.Address(), Country: t.to.Country(), Text: text.Text, Code: t.request.Data.Code,
		Minutes: t.request.Data.Minutes, Purpose: w.Send.Purpose, Language: text.Language, Life: t.left,
	})
	h := heard{provider: receipt.Carrier, code: receipt.Code, took: receipt.Took}
	if err == nil {
		return h, "", nil
	}
	e := &sms.Error{Class: delivery.Unknown, Stage: "send", Err: err}
	_ = errors.As(err, &e)
	h.code, h.trouble = e.Word(), &trouble{class: e.Class, stage: e.Stage, reason: e.Reason, after: e.RetryAfter}
	return h, "", nil
}
