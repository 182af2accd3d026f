package app

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
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
	s := onRealParts(t).configured(`sms:
  countries: [DE]
  carriers: [{name: dear, type: http, url: "` + c.URL + `/", format: form, body: "to={to}&text={text}", prices: {default: 0.075}}]
  spend: [{name: day, scope: global, per: day, limit: 0.25}, {name: apps, scope: app, per: month, limit: 100}]
`)
	s.start(2)
	ids := make([]string, 40)
	var wg sync.WaitGroup
	for n := range ids {
		wg.Go(func() {
			a := unlessBusy(func() answer { return s.text(n%2, fmt.Sprintf("+49151234567%02d", n)) })
			if a.status != http.StatusAccepted {
				s.Errorf("%d %s", a.status, a.raw)
			}
			ids[n] = a.ID
		})
	}
	wg.Wait()
	sent, capped := 0, 0
	s.await("every outcome", func() bool {
		sent, capped = 0, 0
		for _, id := range ids {
			switch send := s.do(0, http.MethodGet, "/v1/verifications/"+id, "").Send; {
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
	var again answer // who was stopped may ask again at once: it is stopped again, and nothing leaves
	for n := range ids {
		if a := s.do(0, http.MethodGet, "/v1/verifications/"+ids[n], ""); a.Send.Status == "failed" {
			again = s.text(0, fmt.Sprintf("+49151234567%02d", n))
			break
		}
	}
	if again.status != http.StatusAccepted {
		t.Errorf("%d %s", again.status, again.raw)
	}
	s.await("its outcome", func() bool {
		return s.do(0, http.MethodGet, "/v1/verifications/"+again.ID, "").Send.Reason == "spend_cap"
	})
	metrics := string(s.do(0, http.MethodGet, "/metrics", "").raw) + string(s.do(1, http.MethodGet, "/metrics", "").raw)
	if c.requests() != 3 || !strings.Contains(metrics, `sendcode_sms_carrier_up{carrier="dear",order="1"} 1`) || !strings.Contains(metrics, `sendcode_spend_refused_total{cap="day"}`) || !contains(s.printed, "a spend cap is reached") {
		t.Errorf("the carrier was asked %d times, and nobody is alarmed", c.requests())
	}
}
