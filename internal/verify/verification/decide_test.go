package verification_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"sendcode/internal/base/fault"
	"sendcode/internal/store/sqlite/sqlitetest"
	vtest "sendcode/internal/verify/verification/verificationtest"
	"sendcode/quota"
)

// Each step of a send fails once in a process: the step has no effect, or only its answer is lost.
// The process goes on, or dies after the answer; then other processes take over. The place of a
// send without a row stays taken only if the process dies, and requests with the same key count
// once.
func TestDecideFailsAtAStep(t *testing.T) {
	const down, vague, lost = sqlitetest.Down, sqlitetest.Vague, sqlitetest.Lost
	type after struct{ mails, places int } // 90 s later; places are the taken places of the rule hour in the limiter
	type row struct {
		step              string
		how               sqlitetest.Fault // lost: only the answer is lost
		err               error
		ifAlive, ifKilled after
	}
	rows := map[string]row{
		"the key is not claimed":             {"ClaimIdempotencyKey", down, fault.Unavailable, after{0, 0}, after{0, 0}},
		"the key is claimed":                 {"ClaimIdempotencyKey", lost, fault.Unavailable, after{0, 0}, after{0, 0}},
		"the limiter did not count":          {"Take", down, nil, after{1, 1}, after{2, 1}}, // the database decides alone
		"the limiter counted":                {"Take", lost, nil, after{1, 1}, after{2, 1}},
		"the row is certainly not written":   {"Begin", down, fault.Unavailable, after{0, 0}, after{0, 1}},
		"the row may be written, and is not": {"Begin", vague, fault.Uncertain, after{0, 0}, after{0, 1}},
		"the row is written":                 {"Begin", lost, fault.Uncertain, after{1, 1}, after{1, 1}},
		"the limiter did not refund":         {"Refund", down, nil, after{1, 0}, after{1, 1}}, // the database refused this send
		"the limiter refunded":               {"Refund", lost, nil, after{1, 0}, after{1, 0}},
		"the outcome is not written":         {"Finish", down, nil, after{1, 1}, after{2, 1}},
		"the outcome is written":             {"Finish", lost, nil, after{1, 1}, after{1, 1}},
	}
	for _, dies := range []bool{false, true} {
		vtest.EachInBubble(t, rows, nil, func(r *vtest.Rig, c row) {
			want, others := c.ifAlive, 0
			if c.step == "Refund" { // the limiter has lost Ana's send, and admits another one
				r.SendTo(vtest.Ana)
				r.ReplaceLimiter()
				others = 1
			}
			var failed atomic.Bool
			fails := func(call string) bool { return call == c.step && failed.CompareAndSwap(false, true) }
			db := r.Store.Replica()
			db.SetFault(func(call string) sqlitetest.Fault {
				switch {
				case fails(call):
					return c.how
				case dies && (call == "Finish" || call == "ReleaseIdempotencyKey"):
					return sqlitetest.Down
				}
				return sqlitetest.None
			})
			p := r.ReplicaOn(db, r.MailServer, r.Carrier)
			p.Limiter.Intercept(func(_ context.Context, call string, do func() error) error {
				switch fail := fails(call); {
				case fail && c.how == lost:
					return errors.Join(do(), quota.ErrUnavailable)
				case fail:
					return quota.ErrUnavailable
				}
				return do()
			})
			if dies {
				want = c.ifKilled
			} else {
				defer p.Background()()
			}
			a, err := p.Send(r.Context(), keyed)
			r.WantError(err, c.err)
			r.Want("may have counted", errors.Is(err, fault.Uncertain), c.err == fault.Uncertain)
			r.Sleep(30 * time.Second)
			db.SetFault(nil)
			r.Sleep(time.Minute)
			r.WantMails(want.mails)
			r.WantCounted("places", want.places)
			again := r.Send(keyed)
			vtest.Equal(r, "replayed", again.Replayed, a.Admitted || c.step == "Begin" && c.how == lost)
			r.WantCounted("places after a repetition", 1+others)
		})
	}
}

// If the limiter did not answer, it may have counted a send that this process then refuses. The
// places of that send are given back.
func TestRefundOfUnansweredTake(t *testing.T) {
	app := quota.Rule{Name: "app", Scope: quota.App, Limit: 1, Window: time.Hour}
	vtest.InBubbleWith(t, vtest.AlsoRules(app), func(r *vtest.Rig) {
		r.SendTo(vtest.Ana)
		r.ReplaceLimiter()
		var lost atomic.Bool
		r.Limiter.Intercept(func(_ context.Context, call string, do func() error) error {
			if call == "Take" && lost.CompareAndSwap(false, true) {
				return errors.Join(do(), quota.ErrUnavailable)
			}
			return do()
		})
		r.WantBlockedBy(r.RefuseTo("bob@example.com").Quota, "app", time.Hour)
		r.Sleep(10 * time.Second)
		r.Want("places of the app", r.Counted().Rules[3].Used, 0)
	})
}
