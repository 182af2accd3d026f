package verification

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"sendcode/quota"
)

// One address of a browser gets a hundred codes an hour, for whomever; a back end's own address is nobody's.
func TestBrowsersAreLimitedByAddress(t *testing.T) {
	inBubble(t, func(r *rig) {
		from := func(c Caller, n int, ip string) Ask {
			a := askFor(fmt.Sprintf("a%d@example.com", n))
			a.Caller = c
			a.IP = netip.MustParseAddr(ip)
			return a
		}
		for n := range 100 {
			r.send(from(browser, n, "192.0.2.1"))
		}
		a := r.refuse(from(browser, 100, "192.0.2.1"))
		if worst, _ := a.Quota.Blocking(); worst.Name != "client" || a.Quota.RetryAfter() != time.Hour {
			t.Errorf("%+v", a.Quota)
		}
		r.send(from(browser, 101, "192.0.2.2"))
		for n := range 100 {
			r.send(from(backEnd, 200+n, "192.0.2.1"))
		}
		for n := range 899 {
			r.send(from(browser, 1000+n, fmt.Sprintf("192.0.2.%d", 10+n%100)))
		}
		a = r.refuse(from(browser, 5000, "192.0.2.250"))
		if worst, _ := a.Quota.Blocking(); worst.Name != "network" {
			t.Errorf("%+v", a.Quota)
		}
		waited(time.Hour)
		r.send(from(browser, 5000, "192.0.2.250"))
	})
}

// A back end's send without the client's address is counted for no network and has none in its row; with the address the
// rules hold, and a browser whose address is not known is refused, not let through.
func TestRulesOfNetworksNeedAnAddress(t *testing.T) {
	change := func(s *Settings) {
		p := s.Purposes["default"]
		p.Policy.Rules = []quota.Rule{
			{Name: "day", Scope: quota.Recipient, Limit: 10, Window: 24 * time.Hour},
			{Name: "address", Scope: quota.IP, Limit: 1, Window: time.Hour},
			{Name: "wider", Scope: quota.Network, Limit: 2, Window: time.Hour},
		}
		s.Purposes["default"] = p
	}
	inBubbleWith(t, change, func(r *rig) {
		from := func(c Caller, n int, ip string) Ask {
			a := askFor(fmt.Sprintf("a%d@example.com", n))
			a.Caller, a.IP = c, netip.Addr{}
			if ip != "" {
				a.IP = netip.MustParseAddr(ip)
			}
			return a
		}
		for n := range 5 {
			a := r.send(from(backEnd, n, ""))
			if len(a.Quota.Rules) != 1 || len(a.Policy.Rules) != 1 {
				t.Errorf("%+v", a.Quota)
			}
			story, err := r.log.Story(r.Context(), uuid.MustParse(a.View.Send.ID))
			if err != nil || story.Send.IP != "" {
				t.Errorf("the row has the address %q, %v", story.Send.IP, err)
			}
		}
		r.send(from(backEnd, 10, "192.0.2.1"))
		a := r.refuse(from(backEnd, 11, "192.0.2.1"))
		if worst, _ := a.Quota.Blocking(); worst.Name != "address" {
			t.Errorf("%+v", a.Quota)
		}
		r.send(from(backEnd, 12, "192.0.2.2"))
		r.refuse(from(backEnd, 13, "192.0.2.3"))
		if a, err := r.svc.Send(r.Context(), from(browser, 14, "")); err == nil {
			t.Errorf("a browser of no known address: %+v", a)
		}
		r.lose()
		for n := range 5 {
			r.send(from(backEnd, 20+n, ""))
		}
	})
}

func TestRulesForBrowsers(t *testing.T) {
	own := quota.Rule{Name: "minute", Scope: quota.Recipient, Limit: 1, Window: time.Minute}
	net := quota.Rule{Name: "client", Scope: quota.Network, Limit: 5, Window: time.Minute}
	office := quota.Rule{Name: "office", Scope: quota.IP, Limit: 5, Window: time.Minute, Observe: true}
	for _, c := range []struct {
		rules []quota.Rule
		want  []string
	}{
		{[]quota.Rule{own}, []string{"minute", "client", "network"}},
		{[]quota.Rule{own, office}, []string{"minute", "office", "network"}},
		{[]quota.Rule{own, net}, []string{"minute", "client", "client_"}},
		{[]quota.Rule{own, net, office}, []string{"minute", "client", "office"}},
	} {
		var got []string
		for _, r := range forBrowsers(c.rules, quota.Rule{}) {
			got = append(got, r.Name)
		}
		if fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%v, want %v", got, c.want)
		}
	}
	if err := quota.Validate(forBrowsers([]quota.Rule{own}, quota.Rule{})); err != nil {
		t.Error(err)
	}
}

// The breaker counts every send of every app and policy, also while the limiter is away, and calls for somebody once.
func TestBreaker(t *testing.T) {
	change := func(s *Settings) {
		s.Breaker = quota.Rule{Name: BreakerName, Scope: Everything, Limit: 3, Window: time.Minute}
		gift := s.Purposes["login"]
		gift.Name, gift.Policy.Name, gift.Shares = "gift", "gift", []string{"gift"}
		s.Purposes["gift"] = gift
	}
	inBubbleWith(t, change, func(r *rig) {
		ask := func(app, purpose, to string) Ask {
			a := askFor(to)
			a.App, a.Purpose = app, purpose
			return a
		}
		fill := func() {
			r.send(ask("shop", "default", "a@example.com"))
			r.send(ask("bank", "default", "a@example.com"))
			r.send(ask("shop", "gift", "a@example.com"))
		}
		fill()
		for range 5 {
			a := r.refuse(ask("shop", "default", "b@example.com"))
			if worst, _ := a.Quota.Blocking(); worst.Name != BreakerName || a.Quota.RetryAfter() != time.Minute {
				t.Errorf("%+v", a.Quota)
			}
		}
		if n := strings.Count(r.printed.String(), "the breaker refuses"); n != 1 {
			t.Errorf("called %d times", n)
		}
		waited(time.Minute)
		r.lose()
		fill()
		r.refuse(ask("bank", "default", "b@example.com"))
		if n := strings.Count(r.printed.String(), "the breaker refuses"); n != 2 {
			t.Errorf("called %d times", n)
		}
	})
}
