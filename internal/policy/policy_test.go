package policy

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"sendcode/internal/store"
	"sendcode/quota"
)

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

// The reserve lessens the limits of one request's copy, not those of the policy in force.
func TestReserveChangesNoPolicy(t *testing.T) {
	p := Purpose{Reserve: map[string]int{"hour": 2}, Policy: quota.Policy{Rules: []quota.Rule{{Name: "hour", Limit: 5}, {Name: "day", Limit: 5}}}}
	for range 2 {
		less := Set{}.WithLimits(p, "shop", store.UnknownBrowser).Policy.Rules
		if less[0].Limit != 3 || less[1].Limit != 5 || p.Policy.Rules[0].Limit != 5 {
			t.Errorf("limits %d and %d, of %d", less[0].Limit, less[1].Limit, p.Policy.Rules[0].Limit)
		}
	}
}

// A subscriber of IPv6 has a /64; a /48 is 65,536 of them.
func TestClientsAndNetworks(t *testing.T) {
	for _, c := range []struct{ ip, client, network string }{
		{"2001:db8:1:ffff::1", "2001:db8:1:ffff::/64", "2001:db8:1::/48"}, {"2001:db8:2:0:ffff::9", "2001:db8:2::/64", "2001:db8:2::/48"},
		{"fe80::1%eth0", "fe80::/64", "fe80::/48"}, {"192.0.2.255", "192.0.2.255/32", "192.0.2.0/24"},
		{"::ffff:192.0.2.1", "192.0.2.1/32", "192.0.2.0/24"},
	} {
		ip := netip.MustParseAddr(c.ip)
		if client, network := ClientPrefix(ip), NetworkPrefix(ip); client != c.client || network != c.network {
			t.Errorf("%s is of the client %s in %s, want %s in %s", c.ip, client, network, c.client, c.network)
		}
	}
}
