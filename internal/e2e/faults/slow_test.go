package faults

import (
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"sendcode/internal/app/apptest"
	"sendcode/internal/delivery/smtptest"
	"sendcode/internal/store"
)

// A receiver that takes a second for each mail changes no answer: hundreds of requests are answered while it has taken
// a few, each with 202 and a send that is on its way; and in the end every mail arrives once.
func TestSlowReceiver(t *testing.T) {
	for name, stack := range map[string]func(*testing.T) *apptest.Stack{"with nothing but Go": apptest.Embedded, "on real parts": apptest.OnRealParts} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := stack(t)
			s.SMTP = smtptest.Start(t, smtptest.Script{Rules: []smtptest.Rule{{Stage: smtptest.Rcpt, Delay: time.Second}}})
			s.Env["SENDCODE_SMTP_URL"] = s.SMTP.URL()
			s.Start(1)
			const n, callers = 250, 10
			var asking sync.WaitGroup
			for c := range callers {
				asking.Go(func() {
					for i := c; i < n; i += callers {
						a := s.Ask(0, fmt.Sprintf("person-%d@example.com", i))
						if a.StatusCode != http.StatusAccepted || a.Send.Status != "queued" && a.Send.Status != "sending" {
							t.Errorf("%d %s", a.StatusCode, a.Raw)
						}
					}
				})
			}
			asking.Wait()
			// Had they waited for their mails, it would be all of them: four connections take over a minute for that.
			if through := len(s.SMTP.Messages()); through > n*9/10 {
				t.Errorf("%d mails were through when the last answer came", through)
			}
			s.SMTP.SetScript(smtptest.Script{})
			s.Await("every send to end", func() bool {
				h := s.History()
				return len(h) == n && !slices.ContainsFunc(h, func(r store.Send) bool { return r.Status != store.Sent })
			})
			for id, times := range s.SMTP.ByID() {
				if times != 1 {
					t.Errorf("%s arrived %d times", id, times)
				}
			}
			if got := len(s.SMTP.ByID()); got != n {
				t.Errorf("%d mails for %d sends", got, n)
			}
		})
	}
}
