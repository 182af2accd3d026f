//go:build nightly

// Only make nightly runs this test: it stands beside TestSlowPostgresUnderOverload with other parts that
// are slow.

package parts

import (
	"fmt"
	"testing"
	"time"

	"sendcode/internal/deliver/delivery/smtptest"
	"sendcode/internal/run/app/apptest"
)

// Rates of a flood, in requests a second: the usual one, and ten times as many.
const usual, ten = 40, 400

// Whatever stands still, a send is served, or refused by the policy, or refused at once: none that
// was accepted is lost, no recipient gets more than the policy, and nothing stays under way.
func TestEachPartIsSlowUnderOverload(t *testing.T) {
	t.Parallel()
	for name, disturb := range map[string]func(s *apptest.Stack){
		"Redis stalls": func(s *apptest.Stack) {
			apptest.Must(s.T, s.RedisClient().Do(s.Context(), "CLIENT", "PAUSE", 4000, "ALL").Err())
		},
		"the mail server takes nothing": func(s *apptest.Stack) {
			s.MailRules(smtptest.Rule{Stage: smtptest.Rcpt, Reply: "452 4.3.1 queue is full"})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := apptest.OnRealParts(t).Policy(apptest.LongRules).Start(1)
			f := newFlood(s)
			f.wave(usual, time.Second)
			disturb(s)
			f.wave(ten, 3*time.Second)
			s.MailRules()
			t.Logf("%d accepted, %d refused by the policy, %d at once, %d not served in time", f.Accepted.Load(),
				f.Limited.Load(), f.Shed.Load(), f.Unserved.Load())
			if n := f.Unserved.Load(); n > int64(f.sent)/20 || f.Accepted.Load() < int64(f.sent)/10 {
				t.Errorf("of %d requests, %d were accepted, and %d waited in vain", f.sent, f.Accepted.Load(), n)
			}
			f.nothingIsLost()
			s.Counts(`sendcode_admission_under_way{class="known",of="sends"`, "0")
			s.Counts(`sendcode_admission_refusals_total{class="unread",of="sends"`, fmt.Sprint(f.Shed.Load()))
		})
	}
}
