package operators

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"sendcode/internal/app/apptest"
)

// costly is a carrier on loopback that counts what it is asked, and takes everything.
type costly struct {
	*httptest.Server
	mu    sync.Mutex
	asked int
}

func newCostly(t *testing.T) *costly {
	t.Helper()
	c := &costly{}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.asked++
		w.WriteHeader(http.StatusAccepted)
	}))
	t.Cleanup(c.Close)
	return c
}

func (c *costly) requests() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.asked
}

// Forty requests at once over two replicas, with room for three: three leave the machine, the others end with the reason and
// cost nothing, also their recipients.
func TestParallelSendsNeverPassTheCap(t *testing.T) {
	t.Parallel()
	c := newCostly(t)
	s := configured(apptest.OnRealParts(t), `sms:
  countries: [DE]
  carriers: [{name: dear, type: http, url: "`+c.URL+`/", format: form, body: "to={to}&text={text}", prices: {default: 0.075}}]
  spend: [{name: day, scope: global, per: day, limit: 0.25}, {name: apps, scope: app, per: month, limit: 100}]
`)
	s.Start(2)
	ids := make([]string, 40)
	var wg sync.WaitGroup
	for n := range ids {
		wg.Go(func() {
			a := apptest.RetryBusy(func() apptest.Answer { return text(s, n%2, fmt.Sprintf("+49151234567%02d", n)) })
			if a.StatusCode != http.StatusAccepted {
				s.Errorf("%d %s", a.StatusCode, a.Raw)
			}
			ids[n] = a.ID
		})
	}
	wg.Wait()
	sent, capped := 0, 0
	s.Await("every outcome", func() bool {
		sent, capped = 0, 0
		for _, id := range ids {
			switch send := s.Do(0, http.MethodGet, "/v1/verifications/"+id, "").Send; {
			case send.Status == "sent":
				sent++
			case send.Status == "failed" && send.Reason == "spend_cap":
				capped++
			}
		}
		return sent+capped == len(ids)
	})
	if sent != 3 || capped != 37 || c.requests() != 3 {
		t.Errorf("%d sent, %d stopped, and the carrier was asked %d times", sent, capped, c.requests())
	}
	var again apptest.Answer // who was stopped may ask again at once: it is stopped again, and nothing leaves
	for n := range ids {
		if a := s.Do(0, http.MethodGet, "/v1/verifications/"+ids[n], ""); a.Send.Status == "failed" {
			again = text(s, 0, fmt.Sprintf("+49151234567%02d", n))
			break
		}
	}
	if again.StatusCode != http.StatusAccepted {
		t.Errorf("%d %s", again.StatusCode, again.Raw)
	}
	s.Await("its outcome", func() bool {
		return s.Do(0, http.MethodGet, "/v1/verifications/"+again.ID, "").Send.Reason == "spend_cap"
	})
	metrics := string(s.Do(0, http.MethodGet, "/metrics", "").Raw) + string(s.Do(1, http.MethodGet, "/metrics", "").Raw)
	if c.requests() != 3 || !strings.Contains(metrics, `sendcode_sms_carrier_up{carrier="dear",order="1"} 1`) || !strings.Contains(metrics, `sendcode_spend_refused_total{cap="day"}`) || !apptest.Contains(s.Printed, "a spend cap is reached") {
		t.Errorf("the carrier was asked %d times, and there is no alarm", c.requests())
	}
}
