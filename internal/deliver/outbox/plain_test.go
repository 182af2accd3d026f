package outbox_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"sendcode/internal/verify/verification"
	vtest "sendcode/internal/verify/verification/verificationtest"
)

// A shop has 900 sign-ins an hour, and three times that rate in its busiest minute. Its back end
// sends neither client_ip nor trust, so all its people are strangers of an unknown network. None of
// them waits longer than 5 s for a connection to the mail server, which takes 50 ms or 2 s for a
// mail.
func TestPeopleOfAPlainBackEndWaitLittle(t *testing.T) {
	for _, c := range []struct {
		conns int
		each  time.Duration
	}{
		{20, 50 * time.Millisecond},
		{20, 2 * time.Second},
		{4, 50 * time.Millisecond},
		{4, 2 * time.Second},
	} {
		t.Run(fmt.Sprint(c.conns, " connections, ", c.each), func(t *testing.T) {
			vtest.InBubbleIdle(t, func(s *vtest.Settings) { s.Workers = 20 }, func(r *vtest.Rig) {
				defer r.Quit()
				r.MailServer.Delay = c.each
				r.Svc = r.ReplicaOn(r.Store, crowded{r.MailServer, make(chan struct{}, c.conns)}, nil)
				r.Start()
				const step = 100 * time.Millisecond
				plain := verification.Caller{App: "shop", Kind: verification.BackEnd}
				random, asked, most, n := rand.New(rand.NewPCG(1, 2)), map[string]time.Time{}, time.Duration(0), 0
				next := time.Now()
				for began := time.Now(); time.Since(began) < 5*time.Minute || len(asked) > 0; r.Sleep(step) {
					at, between := time.Since(began), 4*time.Second
					if at > 2*time.Minute && at < 3*time.Minute {
						between /= 3
					}
					for at < 5*time.Minute && !time.Now().Before(next) {
						n++
						to := fmt.Sprintf("person-%d@n%d.example", n, n%40)
						asked[to] = time.Now()
						r.AskAt(r.Svc, vtest.AskFor(to, vtest.By(plain)), true)
						next = next.Add(time.Duration(random.ExpFloat64() * float64(between)))
					}
					synctest.Wait()
					for _, m := range r.MailServer.Attempts() {
						if since, waits := asked[m.To]; waits {
							most = max(most, time.Since(since))
							delete(asked, m.To)
						}
					}
				}
				if n < 100 || most > 5*time.Second {
					t.Errorf("of %d mails, one is attempted after %v", n, most)
				}
			})
		})
	}
}
