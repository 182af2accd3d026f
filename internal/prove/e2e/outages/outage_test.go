//go:build nightly

// Package outages tests the whole service while a part is away, slow or full, and how an operator
// notices it. Only `make nightly` runs these tests: the packages of the service have a test for
// each rule.
package outages

import (
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"sendcode/internal/deliver/delivery/smtptest"
	"sendcode/internal/kit/servertest"
	"sendcode/internal/run/app"
	"sendcode/internal/run/app/apptest"
	"sendcode/internal/run/app/doctor"
)

func TestMain(m *testing.M) { os.Exit(apptest.Main(m, 5, 1)) }

// redisAway is the answer of /readyz while Redis does not answer.
const redisAway = "degraded: redis_away: Redis does not answer or can't write: the database decides for recipients, each process for other rules."

// fullest returns a bucket of Redis that has the most events, and their number.
func fullest(t *testing.T, client *redis.Client) (bucket string, events int64) {
	for _, key := range client.Keys(t.Context(), app.RedisPrefix+"*").Val() {
		if n := client.ZCard(t.Context(), key).Val(); n > events {
			bucket, events = key, n
		}
	}
	return bucket, events
}

// Redis returns to an older snapshot, lacks one event of a bucket, or is replaced by a replica
// without the newest event. No recipient gets a code too many, since the rows of sends count, too.
// The service adds the missing events to Redis again.
func TestRedisLacksEvents(t *testing.T) {
	t.Parallel()
	s := apptest.OnRealParts(t).Policy("    - {name: hour, scope: recipient, limit: 2, window: 1h}\n")
	link := s.Through("SENDCODE_REDIS_URL")
	s.Start(2)
	client := s.Redis.Client(t)
	learns := func() {
		t.Helper()
		s.Await("Redis to learn", func() bool { _, n := fullest(t, client); return n >= 2 })
		s.WantAdmitted(0, 10, apptest.Ana)
	}
	s.Is("a send", s.Ask(0, apptest.Ana), http.StatusAccepted)
	apptest.Must(t, client.Save(t.Context()).Err())
	host, port, err := net.SplitHostPort(s.Redis.Addr())
	apptest.Must(t, err)
	replica := servertest.Redis(t, "--repl-diskless-sync-delay", "0", "--replicaof", host+" "+port).Client(t)
	s.Await("the replica to have it", func() bool { _, n := fullest(t, replica); return n == 1 })
	apptest.Must(t, replica.ReplicaOf(t.Context(), "NO", "ONE").Err())
	s.Is("another one", s.Ask(0, apptest.Ana), http.StatusAccepted)
	s.Redis.Stop()
	apptest.Must(t, s.Redis.Start())
	_, n := fullest(t, client)
	s.Is("a refusal by the rows", s.Ask(1, apptest.Ana), http.StatusTooManyRequests, n < 2)
	learns()
	bucket, _ := fullest(t, client)
	apptest.Must(t, client.ZRemRangeByRank(t.Context(), bucket, 0, 0).Err())
	s.Is("a refusal without one event", s.Ask(0, apptest.Ana), http.StatusTooManyRequests)
	learns()

	link.Stop()
	s.Redis.Stop()
	link.Upstream, client = replica.Options().Addr, replica
	apptest.Must(t, link.Start())
	_, n = fullest(t, client)
	s.Is("a refusal after the replica is promoted", s.Ask(1, apptest.Ana), http.StatusTooManyRequests, n == 1)
	learns()
}

// If Redis answers probes, but decisions fail, the service is degraded. Here all keys of the
// service have another type, as if another program had written them.
func TestRedisFailsTheWorkAlone(t *testing.T) {
	t.Parallel()
	s := apptest.OnRealParts(t).Start(1)
	s.Is("a send", s.Ask(0, apptest.Ana), http.StatusAccepted)
	client := s.Redis.Client(t)
	for _, key := range client.Keys(t.Context(), app.RedisPrefix+"*").Val() {
		apptest.Must(t, client.Set(t.Context(), key, "of another program", 0).Err())
	}
	s.Await("the reason", func() bool {
		s.Ask(0, apptest.Ana)
		_, said := s.Ready(0)
		return said == redisAway && s.Logged("WRONGTYPE")
	})
}

// Without Postgres, sends, checks and reads get 503. Requests that need no database are still
// answered, so /readyz stays 200 and reports the outage.
func TestPostgresAway(t *testing.T) {
	t.Parallel()
	s := apptest.OnOwnPostgres(t).Write("limits: {month: [{name: month, key: user, limit: 3, per: month}]}\n").Start(2)
	first := s.Ask(0, "before@example.com")
	s.AwaitMail("before@example.com", 1)
	s.Postgres.Stop()
	s.Unavailable(s.Ask(0, apptest.Ana))
	s.Unavailable(s.Verification(first.ID))
	s.Unavailable(s.Check(0, first.ID, "123456"))
	for i := range s.Replicas {
		s.AwaitReady(i, http.StatusOK, "degraded: database_away: The database does not answer.")
		s.Is("a limit", s.Do(i, http.MethodPost, "/v1/limits/month/take", `{"keys":{"user":"42"}}`), http.StatusOK)
	}
	s.Counts("sendcode_database_writable ", "0")
	a := s.Ask(0, apptest.Ana)
	s.Is("a send", a, http.StatusServiceUnavailable, strings.Contains(string(a.Raw), `"may_have_counted":`))
	for _, path := range []string{"/livez", "/", "/widget.js"} {
		s.Is(path, s.Get(path), http.StatusOK)
	}
	servertest.Same(t, "mails while nothing could be written", len(s.Mails()), 1)
	apptest.Must(t, s.Postgres.Start())
	s.Await("recovery", func() bool { return s.Ask(0, apptest.Ana).StatusCode == http.StatusAccepted })
	s.AwaitMail(apptest.Ana, 1)
	s.AwaitReady(0, 200, "")
}

// Without its mail server a send waits, and the service is ready. If one of two mail servers is
// away, metrics, console, log and doctor name it, and the other server sends. When the first server
// is back, the metrics show it as up again.
func TestMailServerAway(t *testing.T) {
	t.Parallel()
	s := apptest.OnRealParts(t)
	away, good := smtptest.StartAt(t, servertest.FreePort(t), smtptest.Script{}),
		smtptest.StartAt(t, servertest.FreePort(t), smtptest.Script{})
	s.SMTP = good
	s.Env["SENDCODE_SMTP_URL"] = away.URL() + "," + good.URL()
	away.Stop()
	good.Stop()
	s.Start(1)
	a := s.Ask(0, apptest.Ana)
	s.Await("the first attempt to fail", func() bool { return s.Logged("delivery attempt failed") })
	s.AwaitState(a.ID, "queued") // the send waits between two attempts
	s.AwaitReady(0, 200, "")
	good.Restart()
	s.AwaitState(a.ID, "sent")
	up := func(order, server string) string {
		return s.Metric(0, `sendcode_mail_server_up{order="`+order+`",server="`+server+`"}`)
	}
	s.Await("the server to be set aside", func() bool {
		s.Ask(0, "d"+time.Now().Format("150405.000")+"@example.com", apptest.Patiently)
		return up("1", away.Addr()) == "0" && up("2", good.Addr()) == "1"
	})
	var failing []string
	for _, p := range s.Replicas[0].Status(t.Context()).Parts {
		if !p.Up && !p.Since.IsZero() {
			failing = append(failing, p.Kind+" "+p.Name+" "+p.Why)
		}
	}
	if len(failing) != 1 || !strings.HasPrefix(failing[0], "mail "+away.Addr()+" ") || !strings.Contains(failing[0], "refused") {
		t.Errorf("the console hears %q", failing)
	}
	if !s.Logged(`"msg":"mail server suspended after failures","server":"` + away.Addr() + `","reason":"`) {
		t.Error("the log does not name the server, or not why")
	}
	var out strings.Builder
	err := doctor.Examine(s.Context(), s.Config(), &out)
	if said := out.String(); err == nil || !strings.Contains(said, "✗ mail server 1 of 2: "+away.Addr()+": dial") ||
		!strings.Contains(said, "✓ mail server 2 of 2: "+good.Addr()+" answers") {
		t.Errorf("the doctor says %s: %v", said, err)
	}
	away.Restart()
	s.Await("the preferred server to be back", func() bool {
		s.Ask(0, "e"+time.Now().Format("150405.000")+"@example.com", apptest.Patiently)
		return up("1", away.Addr()) == "1"
	})
}
