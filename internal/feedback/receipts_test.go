package feedback_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/delivery"
	"sendcode/internal/feedback"
	"sendcode/internal/parts"
	"sendcode/internal/sms"
	"sendcode/internal/store"
	"sendcode/internal/verification/rig"
)

// oracle is a carrier that is asked what became of messages.
type oracle struct {
	mu     sync.Mutex
	asked  []sms.Inquiry
	answer func(n int) (sms.Report, bool, error) // of the nth inquiry, from 1 on
	byID   bool
	mute   bool
	busy   chan struct{} // that an inquiry waits for; nil: none does
}

func (o *oracle) Asker(string) (sms.Asker, bool) { return o, !o.mute }

func (o *oracle) ToldByID(string) bool { return o.byID }

func (o *oracle) Ask(ctx context.Context, q sms.Inquiry) (sms.Report, bool, error) {
	o.mu.Lock()
	o.asked = append(o.asked, q)
	n, busy := len(o.asked), o.busy
	o.mu.Unlock()
	if busy != nil {
		select {
		case <-busy:
		case <-ctx.Done():
			return sms.Report{}, false, ctx.Err()
		}
	}
	if o.answer == nil {
		return sms.Report{}, false, nil
	}
	return o.answer(n)
}

func (o *oracle) inquiries() []sms.Inquiry {
	o.mu.Lock()
	defer o.mu.Unlock()
	return append([]sms.Inquiry(nil), o.asked...)
}

// inquiring runs a test with a carrier that is asked from half a minute on.
func inquiring(t *testing.T, o *oracle, test func(r *rig.Rig)) {
	t.Helper()
	parts.Bubble(t, func(t *testing.T) {
		r := rig.NewRig(t, func(s *rig.Settings) { rig.ToNumbers("DE")(s); s.AskAfter, s.Receipts = 30*time.Second, o })
		r.Start()
		test(r)
		r.Quit()
		r.NoLeak()
	})
}

// Asked until it knows: then the send says so, it is not asked again, and the place stays spent.
func TestCarriersAreAskedForReceipts(t *testing.T) {
	for delivered, want := range map[bool]string{true: "delivered", false: "undelivered"} {
		o := &oracle{answer: func(n int) (sms.Report, bool, error) {
			switch n {
			case 1:
				return sms.Report{}, false, nil
			case 2:
				return sms.Report{}, false, &sms.Error{Class: delivery.Temporary, Stage: sms.StageAnswer, Status: 503}
			}
			return sms.Report{Delivered: delivered}, true, nil
		}}
		inquiring(t, o, func(r *rig.Rig) {
			a := r.Send(rig.TextTo(rig.Mobile))
			rig.Waited(29 * time.Second)
			if n := len(o.inquiries()); n != 0 {
				r.Errorf("%d inquiries at once", n)
			}
			rig.Waited(3 * rig.Minute)
			got := o.inquiries()
			if len(got) != 3 || got[0].Send != a.View.Send.ID || got[0].ID != "id-1" || got[0].To != rig.Mobile || got[0].Country != "DE" {
				r.Fatalf("%+v", got)
			}
			if s := r.Status(a); s != want {
				r.Errorf("%s", s)
			}
			rig.Waited(time.Hour)
			if n := len(o.inquiries()); n != 3 {
				r.Errorf("%d inquiries", n)
			}
			if d, err := r.Svc.Quota(r.Context(), rig.BackEnd, "sms", rig.Mobile, ""); err != nil || d.Quota.Rules[1].Used != 1 &&
				d.Quota.Rules[2].Used != 1 {
				r.Errorf("a receipt gave a place back: %+v, %v", d.Quota, err)
			}
		})
	}
}

// A carrier that told by itself is not asked; one that refuses for good, or whose recipient was erased, is asked no more.
func TestWhoIsNotAsked(t *testing.T) {
	o := &oracle{answer: func(int) (sms.Report, bool, error) {
		return sms.Report{}, false, &sms.Error{Class: delivery.Rejected, Stage: sms.StageMessage}
	}}
	inquiring(t, o, func(r *rig.Rig) {
		told := r.Send(rig.TextTo(rig.Mobile))
		if changed, err := r.Svc.Receipts.RecordByCarrierID(r.Context(), "fake", "id-1", true); err != nil || !changed ||
			r.Status(told) != "delivered" {
			r.Errorf("%v, %v, %s", changed, err, r.Status(told))
		}
		for _, again := range []bool{true, false} {
			if changed, err := r.Svc.Receipts.Record(r.Context(), uuid.MustParse(told.View.Send.ID), again); err != nil || changed ||
				r.Status(told) != "delivered" {
				r.Errorf("again %v: %v, %v, %s", again, changed, err, r.Status(told))
			}
		}
		if _, err := r.Svc.Receipts.RecordByCarrierID(r.Context(), "fake", "id-1", true); !errors.Is(err, store.ErrNotFound) {
			r.Errorf("%v", err)
		}
		rig.Waited(2 * rig.Minute)
		if n := len(o.inquiries()); n != 0 {
			r.Errorf("%d inquiries about what was told", n)
		}
		quiet := r.Send(rig.TextTo("+4915123456787"))
		// by a replica that died then
		if _, err := r.Store.Receive(r.Context(), uuid.MustParse(quiet.View.Send.ID), store.Delivered); err != nil {
			r.Error(err)
		}
		rig.Waited(2 * rig.Minute)
		if n := len(o.inquiries()); n != 0 {
			r.Errorf("%d inquiries about what is known", n)
		}
		r.Send(rig.TextTo(rig.OtherMobile))
		rig.Waited(10 * rig.Minute)
		if n := len(o.inquiries()); n != 1 {
			r.Errorf("%d inquiries of one who refuses", n)
		}
	})
	o = &oracle{}
	inquiring(t, o, func(r *rig.Rig) {
		r.Send(rig.TextTo(rig.Mobile))
		p, err := r.Svc.Desk.Person("", "sms", rig.Mobile, "", "ticket 7")
		if err != nil {
			r.Fatal(err)
		}
		act := store.AuditEntry{ID: uuid.UUID{1, 6: 0x70, 8: 0x80}, Who: "mei", Role: "owner", What: "recipient.erase", Reason: "ticket 7",
			Outcome: store.AuditDone}
		if err := r.Svc.Desk.Erase(r.Context(), p, act); err != nil {
			r.Fatal(err)
		}
		rig.Waited(10 * rig.Minute)
		if n := len(o.inquiries()); n != 0 {
			r.Errorf("%d inquiries about one who was erased", n)
		}
	})
}

// One that can't be asked but tells by its own ID is noted for that; another is not.
func TestNotedForWhoTellsByItsOwnID(t *testing.T) {
	for _, byID := range []bool{true, false} {
		o := &oracle{mute: true, byID: byID}
		inquiring(t, o, func(r *rig.Rig) {
			r.Send(rig.TextTo(rig.Mobile))
			if _, err := r.Store.SendAwaiting(r.Context(), "fake", "id-1"); (err == nil) != byID {
				r.Errorf("%v: %v", byID, err)
			}
			rig.Waited(time.Hour)
			if n := len(o.inquiries()); n != 0 {
				r.Errorf("%d inquiries", n)
			}
		})
	}
}

// DuePolls that hang hold up no message, and never are more than their bound; another replica does not ask the same.
func TestHangingInquiriesHoldUpNothing(t *testing.T) {
	o := &oracle{}
	inquiring(t, o, func(r *rig.Rig) {
		o.busy = make(chan struct{})
		other := &rig.Rig{T: r.T, Store: r.Store, Limiter: r.Limiter, Post: r.Post, Handset: r.Handset, Printed: r.Printed, Settings: r.Settings,
			Renderer: r.Renderer}
		other.Svc = other.Replica(r.Post)
		other.Start()
		for n := range 30 {
			r.Handset.Mu.Lock()
			r.Handset.ID = strings.Repeat("i", n+1)
			r.Handset.Mu.Unlock()
			r.Send(rig.TextTo(rig.NthNumber(n)))
		}
		rig.Waited(45 * time.Second)
		got := o.inquiries()
		if len(got) != 2*feedback.PollConcurrency {
			r.Errorf("%d inquiries at once", len(got))
		}
		seen := map[string]bool{}
		for _, q := range got {
			if seen[q.Send] {
				r.Errorf("%s is asked for twice", q.Send)
			}
			seen[q.Send] = true
		}
		if s := r.Status(r.Send(rig.TextTo(rig.Mobile))); s != "sent" {
			r.Errorf("%s", s)
		}
		close(o.busy)
		rig.Waited(rig.Minute)
		other.Quit()
	})
}
