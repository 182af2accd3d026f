package verification

import (
	"context"
	"errors"
	"time"

	"sendcode/internal/delivery"
	"sendcode/internal/delivery/sms"
	"sendcode/internal/recipient"
	"sendcode/internal/store"
	"sendcode/quota"
)

// errOff ends a text message that waited while the last carrier was taken out of the configuration.
var errOff = errors.New("verification: no carrier is configured")

// handText gives a text message to the carriers.
func (o *outbox) handText(ctx context.Context, w store.Work, t content) (heard, string, error) {
	if o.Carrier == nil {
		return heard{}, reasonOff, errOff
	}
	text, err := o.Texts.Render(t.request)
	if err != nil {
		return heard{}, reasonTemplate, err
	}
	receipt, err := o.Carrier.Send(ctx, sms.Message{
		ID: w.Send.ID.String(), App: w.Send.App, Segments: text.Segments, To: t.to.Address(), Country: t.to.Country(), Text: text.Text, Code: t.request.Data.Code,
		Minutes: t.request.Data.Minutes, Purpose: w.Send.Purpose, Language: text.Language, Life: t.left,
	})
	h := heard{provider: receipt.Carrier, code: receipt.Code, took: receipt.Took}
	if err == nil {
		o.await(ctx, w, receipt)
		return h, "", nil
	}
	e := &sms.Error{Class: delivery.Unknown, Stage: "send", Err: err}
	_ = errors.As(err, &e)
	h.code, h.trouble = e.Word(), &trouble{class: e.Class, stage: e.Stage, reason: e.Reason, after: e.RetryAfter}
	if e.Hold >= time.Second {
		o.insist(func(ctx context.Context) (bool, error) {
			return true, o.Log.HoldBack(ctx, recipient.SMS, w.Send.Recipient, e.Hold)
		})
	}
	return h, "", nil
}

// CarrierRule is what a carrier's own limit is called among the rules of an answer.
const CarrierRule = "carrier"

// embargo is what a carrier said of the recipient, as a rule: until it ends, asking the carrier again would be of no use. It
// is in the log alone, so that all replicas know it, and no flush of the limiter ends it.
func (s *Service) embargo(ctx context.Context, ch recipient.Channel, h recipient.Hash) (quota.State, bool, error) {
	if ch != recipient.SMS || s.Carrier == nil {
		return quota.State{}, false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, logTimeout)
	defer cancel()
	e, err := s.Log.HeldBack(ctx, ch, h)
	if err != nil || e.Left <= 0 {
		return quota.State{}, false, err
	}
	rule := quota.Rule{Name: CarrierRule, Scope: quota.Recipient, Limit: 1, Window: max(e.Whole, quota.MinWindow)}
	return quota.State{Rule: rule, Used: 1, ResetAfter: e.Left, RetryAfter: e.Left}, true, nil
}
