package feedback_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/base/fault"
	"sendcode/internal/deliver/delivery"
	"sendcode/internal/deliver/feedback"
	"sendcode/internal/deliver/sms"
	"sendcode/internal/store"
	vtest "sendcode/internal/verify/verification/verificationtest"
)

// polledCarrier is a carrier that can be polled for receipts.
type polledCarrier struct {
	mu       sync.Mutex
	queries  []sms.StatusQuery
	answer   func(n int) (sms.Report, bool, error) // returns the answer to the nth poll; n begins at 1
	byID     bool
	noPoller bool
	busy     chan struct{} // polls wait until it is closed; nil: they don't wait
}

func (c *polledCarrier) Poller(string) (sms.Poller, bool) { return c, !c.noPoller }

func (c *polledCarrier) ReportsUseCarrierID(string) bool { return c.byID }

func (c *polledCarrier) PollStatus(ctx context.Context, q sms.StatusQuery) (sms.Report, bool, error) {
	c.mu.Lock()
	c.queries = append(c.queries, q)
	n, busy := len(c.queries), c.busy
	c.mu.Unlock()
	if busy != nil {
		select {
		case <-busy:
		case <-ctx.Done():
			return sms.Report{}, false, ctx.Err()
		}
	}
	if c.answer == nil {
		return sms.Report{}, false, nil
	}
	return c.answer(n)
}

func (c *polledCarrier) polls() []sms.StatusQuery {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]sms.StatusQuery(nil), c.queries...)
}

// withPolledCarrier runs a test with a carrier that is polled half a minute after each message.
func withPolledCarrier(t *testing.T, o *polledCarrier, test func(r *vtest.Rig)) {
	t.Helper()
	vtest.InBubbleWith(t, func(s *vtest.Settings) {
		vtest.ServeCountries("DE")(s)
		s.PollAfter, s.Receipts = 30*time.Second, o
	}, test)
}

// A carrier is polled until it reports the outcome. Then the outcome is recorded for the send, the
// carrier is not polled again, and the send still counts.
func TestReceiptsArePolledUntilAnOutcome(t *testing.T) {
	for delivered, want := range map[bool]string{true: "delivered", false: "undelivered"} {
		o := &polledCarrier{answer: func(n int) (sms.Report, bool, error) {
			switch n {
			case 1:
				return sms.Report{}, false, nil
			case 2:
				return sms.Report{}, false, &delivery.Error{Class: delivery.Temporary, Stage: delivery.StageAnswer, Status: 503}
			}
			return sms.Report{Delivered: delivered}, true, nil
		}}
		withPolledCarrier(t, o, func(r *vtest.Rig) {
			a := r.Send(vtest.TextTo(vtest.Mobile))
			r.Sleep(29 * time.Second)
			r.Want("inquiries at once", len(o.polls()), 0)
			r.Sleep(3 * time.Minute)
			q := o.polls()[0]
			vtest.Equal(r, "an inquiry: Send", q.Send, a.View.Send.ID)
			vtest.Equal(r, "an inquiry: CarrierID", q.CarrierID, "id-1")
			vtest.Equal(r, "an inquiry: To", q.To, vtest.Mobile)
			vtest.Equal(r, "an inquiry: Country", q.Country, "DE")
			r.WantStatus(a, want)
			r.Sleep(10 * time.Minute)
			r.Want("inquiries", len(o.polls()), 3)
			d, err := r.Svc.Quota(r.Context(), vtest.BackEnd, "sms", vtest.Mobile, "")
			r.NoError(err)
			r.Want("places", vtest.Remaining(d.Quota), "[1 4 9]")
		})
	}
}

// A carrier that sent a report is not polled. A carrier that refuses a poll for good is not polled
// again. After an erasure of the recipient, the carrier is not polled.
func TestReceiptsThatAreNotPolled(t *testing.T) {
	o := &polledCarrier{answer: func(int) (sms.Report, bool, error) {
		return sms.Report{}, false, &delivery.Error{Class: delivery.Rejected, Stage: delivery.StagePrepare}
	}}
	withPolledCarrier(t, o, func(r *vtest.Rig) {
		reported := r.Send(vtest.TextTo(vtest.Mobile))
		changed, err := r.Svc.Receipts.RecordByCarrierID(r.Context(), "fake", "id-1", true)
		vtest.Equal(r, "changed", changed, true)
		r.NoError(err)
		vtest.Equal(r, "the send", r.Status(reported), "delivered")
		for _, again := range []bool{true, false} {
			changed, err := r.Svc.Receipts.Record(r.Context(), "fake", uuid.MustParse(reported.View.Send.ID), again)
			vtest.Equal(r, "changed again", changed, false)
			r.NoError(err)
			vtest.Equal(r, "the send", r.Status(reported), "delivered")
		}
		r.WantError(vtest.Err(r.Svc.Receipts.RecordByCarrierID(r.Context(), "fake", "id-1", true)), fault.NotFound)
		r.Sleep(2 * time.Minute)
		r.Want("inquiries about what was told", len(o.polls()), 0)
		quiet := r.Send(vtest.TextTo("+4915123456787"))
		// A replica records the receipt, and dies before it ends the polling.
		r.NoError(vtest.Err(r.Store.RecordReceipt(r.Context(), uuid.MustParse(quiet.View.Send.ID), store.Delivered)))
		r.Sleep(2 * time.Minute)
		r.Want("inquiries about what is known", len(o.polls()), 0)
		r.Send(vtest.TextTo(vtest.OtherMobile))
		r.Sleep(10 * time.Minute)
		r.Want("inquiries of one who refuses", len(o.polls()), 1)
	})
	o = &polledCarrier{}
	withPolledCarrier(t, o, func(r *vtest.Rig) {
		r.Send(vtest.TextTo(vtest.Mobile))
		p, err := r.Svc.Administration.ParseTarget("", "sms", vtest.Mobile, "", "ticket 7")
		r.NoError(err)
		r.NoError(r.Svc.Administration.EraseRecipient(r.Context(), p, vtest.AuditEntry("recipient.erase")))
		r.Sleep(10 * time.Minute)
		r.Want("inquiries about one who was erased", len(o.polls()), 0)
	})
}

// If a carrier did not accept the message, or has not answered yet, it cannot report the message as
// lost. Any carrier may report that the message arrived. The carrier that accepted the message is
// still polled.
func TestReceiptsOfRefusedAttempts(t *testing.T) {
	o := &polledCarrier{answer: func(int) (sms.Report, bool, error) { return sms.Report{}, true, nil }}
	withPolledCarrier(t, o, func(r *vtest.Rig) {
		r.Carrier.Delay = time.Second
		a := r.Send(vtest.TextTo(vtest.Mobile))
		lost := func(carrier string) (bool, error) {
			return r.Svc.Receipts.Record(r.Context(), carrier, uuid.MustParse(a.View.Send.ID), false)
		}
		r.WantError(vtest.Err(lost("fake")), fault.Unavailable)
		r.Sleep(2 * time.Second)
		changed, err := lost("refused")
		vtest.Equal(r, "changed", changed, false)
		r.NoError(err)
		vtest.Equal(r, "the send", r.Status(a), "sent")
		r.Sleep(time.Minute)
		r.WantStatus(a, "undelivered")
		changed, err = r.Svc.Receipts.Record(r.Context(), "refused", uuid.MustParse(a.View.Send.ID), true)
		vtest.Equal(r, "changed", changed, true)
		r.NoError(err)
		vtest.Equal(r, "the send", r.Status(a), "delivered")
	})
}

// If a carrier can't be polled, a message waits for its receipt only if the carrier's reports have
// the carrier's own ID.
func TestReceiptsByCarrierID(t *testing.T) {
	for _, byID := range []bool{true, false} {
		o := &polledCarrier{noPoller: true, byID: byID}
		withPolledCarrier(t, o, func(r *vtest.Rig) {
			r.Send(vtest.TextTo(vtest.Mobile))
			r.Want("a receipt is awaited", vtest.Err(r.Store.SendByMessageID(r.Context(), "fake", "id-1")) == nil, byID)
			r.Sleep(10 * time.Minute)
			r.Want("inquiries", len(o.polls()), 0)
		})
	}
}

// Polls that hang delay no message, and their number stays within its bound. Another replica does
// not make the same polls.
func TestReceiptPollsThatHangDelayNoMessage(t *testing.T) {
	o := &polledCarrier{}
	withPolledCarrier(t, o, func(r *vtest.Rig) {
		o.busy = make(chan struct{})
		_, stop := r.StartReplica(r.MailServer)
		for n := range 30 {
			r.Send(vtest.TextTo(vtest.NthNumber(n)))
		}
		r.Sleep(45 * time.Second)
		got := o.polls()
		r.Want("inquiries at once", len(got), 2*feedback.PollConcurrency)
		seen := map[string]bool{}
		for _, q := range got {
			if seen[q.Send] {
				r.Errorf("%s is asked for twice", q.Send)
			}
			seen[q.Send] = true
		}
		r.WantStatus(r.Send(vtest.TextTo(vtest.Mobile)), "sent")
		close(o.busy)
		r.Sleep(time.Minute)
		stop()
	})
}
