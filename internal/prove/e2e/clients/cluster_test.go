//go:build nightly

// Only make nightly runs these tests: they need a Redis Cluster.

package clients

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"sendcode/internal/kit/servertest"
	"sendcode/internal/run/app/apptest"
)

// Redis Cluster, with a bucket of each scope somewhere on three masters: a send, refusals by each
// scope, and a master killed.
func TestOnACluster(t *testing.T) {
	t.Parallel()
	s := apptest.OnRealParts(t).Write(`limits: {calls: [{name: calls, key: user, limit: 100, window: 300s}]}
policies:
  default:
    - {name: short, scope: recipient, limit: 1, window: 300s}
    - {name: office, scope: ip, limit: 4, window: 300s}
    - {name: purpose, scope: purpose, limit: 100, window: 60s}
    - {name: shop, scope: app, limit: 100, window: 60s}
`)
	cluster := servertest.Cluster(t)
	s.Env["SENDCODE_REDIS_URL"] = cluster.URL() + servertest.Patiently
	s.Start(2)
	ask := func(i int, to string) apptest.Answer {
		return s.Do(i, http.MethodPost, "/v1/verifications",
			fmt.Sprintf(`{"channel":"email","to":%q,"locale":"en","client_ip":"192.0.2.7"}`, to))
	}
	sent := ask(0, apptest.Ana)
	s.Is("a send", sent, http.StatusAccepted, sent.Quota.BlockedBy == "short", len(sent.Quota.Rules) == 4 &&
		sent.Quota.Rules[1].Remaining == 3)
	s.AwaitMail(apptest.Ana, 1)
	refused := ask(1, apptest.Ana)
	s.Is("a second one", refused, http.StatusTooManyRequests,
		slices.Equal(refused.Violated, []string{"short"}), refused.Quota.Rules[1].Remaining == 3)
	for i := range 3 {
		s.Is("a send", ask(i%2, fmt.Sprintf("one-%d@example.com", i)), http.StatusAccepted)
	}
	refused = ask(0, "one-more@example.com")
	rules := refused.Quota.Rules
	s.Is("a fifth of the network", refused, http.StatusTooManyRequests,
		slices.Equal(refused.Violated, []string{"office"}), rules[0].Remaining == 1, rules[3].Remaining == 96)
	s.AwaitReady(0, 200, "ok")

	cluster.Nodes[1].Stop()
	const part = "degraded: redis_part_away: A part of the Redis Cluster is away: the database decides for its keys."
	s.AwaitReady(0, 200, part)
	alone := func() (of string) { // whether the buckets of 20 users are decided by the process alone
		for user := range 20 {
			a := s.Post("/v1/limits/calls/take", fmt.Sprintf(`{"keys":{"user":"%d"}}`, user))
			s.Is("a limit", a, http.StatusOK)
			of += strconv.FormatBool(strings.Contains(string(a.Raw), `"degraded":true`))
		}
		return of
	}
	before := alone()
	if !strings.Contains(before, "true") || !strings.Contains(before, "false") {
		t.Errorf("not the buckets of one master alone: %s", before)
	}
	for range 10 {
		if now := alone(); now != before {
			t.Errorf("%s, then %s", before, now)
		}
		if status, body := s.Ready(0); status != http.StatusOK || body != part {
			t.Errorf("readiness flaps: %d %s", status, body)
		}
	}
	if s.Logged("Redis away") {
		t.Error("all of the limiter was given up")
	}
	s.Admits(0, 30, apptest.Ana)
	for i := range 6 { // their buckets are on any of the masters
		if n := s.Burst(10, fmt.Sprintf("two-%d@example.com", i)); n > 1 {
			t.Errorf("%d let in of one recipient, without a master", n)
		}
	}
	apptest.Must(t, cluster.Nodes[1].Start())
	s.AwaitReady(0, 200, "ok")
	s.Admits(0, 20, apptest.Ana)
}
