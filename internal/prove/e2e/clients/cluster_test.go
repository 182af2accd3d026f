//go:build nightly

// Only `make nightly` runs these tests: they need a Redis Cluster.

package clients

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"sendcode/internal/kit/servertest"
	"sendcode/internal/run/app/apptest"
	"sendcode/internal/run/app/doctor"
)

// One of the three masters of a Redis Cluster is killed. Then each process decides for the buckets
// of that master without Redis, and only for these. No recipient gets more codes than the policy
// allows.
func TestClusterMasterIsKilled(t *testing.T) {
	t.Parallel()
	s := apptest.OnRealParts(t).Write(`limits: {calls: [{name: calls, key: user, limit: 100, window: 300s}]}
policies: {default: [{name: short, scope: recipient, limit: 1, window: 300s}, {name: shop, scope: app, limit: 100, window: 60s}]}
`)
	cluster := servertest.Cluster(t)
	s.Env["SENDCODE_REDIS_URL"] = cluster.URL() + servertest.LongTimeouts
	s.Start(2)
	s.WantAdmitted(1, 10, apptest.Ana)
	s.AwaitReady(0, 200, "ok")

	cluster.Nodes[1].Stop()
	const part = "degraded: redis_part_away: A part of the Redis Cluster is away: the database decides for its keys."
	s.AwaitReady(0, 200, part)
	alone := func() (of string) { // returns for the buckets of 20 users whether the process alone decides
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
	s.WantAdmitted(0, 30, apptest.Ana)
	for i := range 6 { // their buckets are spread over the masters
		if n := s.Burst(10, fmt.Sprintf("two-%d@example.com", i)); n > 1 {
			t.Errorf("%d let in of one recipient, without a master", n)
		}
	}
	apptest.Must(t, cluster.Nodes[1].Start())
	s.AwaitReady(0, 200, "ok")
	s.WantAdmitted(0, 20, apptest.Ana)
}

// If a node of a Redis Cluster is behind a redis:// URL, the start and the doctor refuse it. They
// name the correct URL, without the password. If a server becomes such a node while the service
// runs, the service is degraded.
func TestANodeOfAClusterIsNamed(t *testing.T) {
	t.Parallel()
	s := apptest.OnRealParts(t)
	link := s.Through("SENDCODE_REDIS_URL")
	s.Start(1)
	s.AwaitReady(0, 200, "ok")
	node := servertest.Cluster(t).Nodes[0]
	link.Stop()
	link.Upstream = node.Addr()
	apptest.Must(t, link.Start())
	const become = "degraded: redis_cluster_node: Redis is a node of a Cluster: " +
		"begin SENDCODE_REDIS_URL with redis+cluster:// or rediss+cluster://."
	s.AwaitReady(0, 200, become)
	s.Is("a send", s.Ask(0, apptest.Ana), http.StatusAccepted)
	s.AwaitReady(0, 200, become)
	s.Counts("sendcode_limiter_up", "0")

	s.Env["SENDCODE_REDIS_URL"] = "redis://default:hidden@" + node.Addr() + "/0"
	apptest.Must(t, node.Client(t).ConfigSet(t.Context(), "requirepass", "hidden").Err())
	_, err := s.New(s.Config())
	var said strings.Builder
	for what, text := range map[string]string{
		"the start":  fmt.Sprint(err),
		"the doctor": fmt.Sprint(doctor.Examine(t.Context(), s.Config(), &said), said.String()),
	} {
		if !strings.Contains(text, "write redis+cluster://default:***@"+node.Addr()) || strings.Contains(text, "hidden") {
			t.Errorf("%s: %s", what, text)
		}
	}
}
