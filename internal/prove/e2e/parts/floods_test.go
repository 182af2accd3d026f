//go:build nightly

// Only `make nightly` runs these tests. They extend TestSlowPostgresUnderOverload to other slow
// parts and other distances.

package parts

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"sendcode/internal/deliver/delivery/smtptest"
	"sendcode/internal/run/app/apptest"
)

// These are rates of a flood, in requests a second: the usual one, and ten times as many.
const usualRate, tenfoldRate = 40, 400

// While Redis stalls, or the mail server takes nothing, all but a twentieth of the sends are
// served, refused by the policy, or refused at once. No accepted send is lost, no recipient gets
// more than the policy allows, and in the end nothing is under way.
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
			f.wave(usualRate, time.Second)
			disturb(s)
			f.wave(tenfoldRate, 3*time.Second)
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

// Postgres is 20, 150 and 600 ms away, behind a link that is slower than the machine. The load
// grows until not all requests are served. The capacity is the greatest number of requests served
// in a second. With two and with five times as many requests, at least 80 % of the capacity is
// served, and most of the other requests are refused at once. No accepted send is lost. The test
// prints rates and times. It checks the percentage only on a quiet machine: one on which a second
// run at the capacity serves at least nine tenths of the first.
func TestPostgresAtEachDistanceUnderOverload(t *testing.T) {
	for _, distance := range []time.Duration{20 * time.Millisecond, 150 * time.Millisecond, 600 * time.Millisecond} {
		t.Run(distance.String(), func(t *testing.T) {
			s := apptest.OnOwnPostgres(t).Policy(apptest.LongRules)
			link := s.Through("SENDCODE_DATABASE_URL")
			s.Start(1)
			const toxic = `{"type":%q,"stream":%q,"attributes":{%q:%d}}` // ms of a latency, kB/s of a rate
			for _, add := range []string{
				fmt.Sprintf(toxic, "latency", "upstream", "latency", distance.Milliseconds()/2),
				fmt.Sprintf(toxic, "latency", "downstream", "latency", distance.Milliseconds()/2),
				fmt.Sprintf(toxic, "bandwidth", "upstream", "rate", 60),
			} {
				_, err := link.Toxics.AddToxicJson(strings.NewReader(add))
				apptest.Must(t, err)
			}
			f := newFlood(s)
			served := func(rate float64) float64 { // how many requests are served in a second
				began := time.Now()
				return float64(f.wave(int(rate), 4*time.Second)) / time.Since(began).Seconds()
			}
			capacity := 0.0
			for rate := 10.0; f.Shed.Load() == 0 && rate < 2000; rate *= 1.5 {
				capacity = max(capacity, served(rate))
			}
			if capacity < 1 {
				t.Fatal("nothing was served")
			}
			again := served(capacity)
			quiet := again > 0.9*capacity
			t.Logf("the capacity is %.0f a second; asked for so many, the service accepts %.0f", capacity, again)
			for _, times := range []float64{2, 5} {
				f.shedIn = nil
				got := served(times * capacity)
				slices.Sort(f.shedIn)
				t.Logf("of %.0f times as many, %.0f a second: %.0f %% of the capacity", times, got, 100*got/capacity)
				if n := len(f.shedIn); n > 0 {
					t.Logf("%d refused at once, half of them within %v, all within %v", n, f.shedIn[n/2], f.shedIn[n-1])
				}
				if got < 0.8*capacity && quiet {
					t.Errorf("%.0f of a capacity of %.0f a second were served", got, capacity)
				}
			}
			if n := f.Unserved.Load(); quiet && n > int64(f.sent)/5 || f.Shed.Load() == 0 {
				t.Errorf("of %d requests, %d waited in vain and %d were refused at once", f.sent, n, f.Shed.Load())
			}
			link.Toxics.ResetToxics(t.Context())
			f.nothingIsLost()
		})
	}
}
