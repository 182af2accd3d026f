//go:build nightly

package outages

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/jackc/pgx/v5"

	"sendcode/internal/deliver/delivery/smtptest"
	"sendcode/internal/kit/servertest"
	"sendcode/internal/run/app/apptest"
	"sendcode/internal/run/app/doctor"
	"sendcode/internal/run/config"
	"sendcode/internal/store/sqlite"
)

// failure is one way in which a part fails. It has the answers that requests then get, and the
// reports about the failure.
type failure struct {
	begin, fail func(s *apptest.Stack, disk *servertest.Disk) // called before the start, and after it; may be nil
	disk        bool                                          // the database is on a small disk
	send        string                                        // the expected status of a request, or of its send
	ready       string                                        // the word in /readyz
	doctor      string                                        // how the doctor's line begins
	gauge       string                                        // how a line of /metrics begins
	value       string                                        // how this line ends; "": with any value but 0
}

const (
	writable  = "sendcode_database_writable "
	limiter   = "sendcode_limiter_up "
	mailUp    = "sendcode_mail_server_up{"
	carrierUp = "sendcode_sms_carrier_up{"
	refused   = `sendcode_delivery_attempt_seconds_count{channel="email",class="rejected"`
	deferred  = `sendcode_delivery_attempt_seconds_count{channel="email",class="temporary"`
	theFile   = "file "
	theTexts  = "texts "
	stalls    = `{"name":"stalls","type":"timeout","stream":"upstream","attributes":{"timeout":0}}`
)

// asAdmin runs statements as the superuser, on a connection that stays open until the test ends.
func asAdmin(statements ...string) func(*apptest.Stack, *servertest.Disk) {
	return func(s *apptest.Stack, _ *servertest.Disk) {
		conn, err := pgx.Connect(s.Context(), s.Postgres.AdminURL())
		apptest.Must(s.T, err)
		s.Cleanup(func() { _ = conn.Close(context.Background()) })
		for _, statement := range statements {
			_, err := conn.Exec(s.Context(), statement)
			apptest.Must(s.T, err)
		}
	}
}

func redisSays(args ...any) func(*apptest.Stack, *servertest.Disk) {
	return func(s *apptest.Stack, _ *servertest.Disk) {
		apptest.Must(s.T, s.Redis.Client(s.T).Do(s.Context(), args...).Err())
	}
}

func mails(rule smtptest.Rule) func(*apptest.Stack, *servertest.Disk) {
	return func(s *apptest.Stack, _ *servertest.Disk) { s.MailRules(rule) }
}

// carrier configures a carrier that answers with the status and the body. With status 0 the carrier
// does not answer.
func carrier(status int, body string) func(*apptest.Stack, *servertest.Disk) {
	return func(s *apptest.Stack, _ *servertest.Disk) {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			if status == 0 {
				<-r.Context().Done()
				return
			}
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		}))
		s.Cleanup(server.Close)
		s.Write(`sms:
  countries: [DE]
  carriers: [{name: rest, type: http, url: "` + server.URL + `/", body: "to={to}&text={text}", prices: {default: 0.05}}]
  spend: [{scope: global, per: day, limit: 1000}]
`)
	}
}

// recipients returns a failure in which the mail server answers each RCPT with reply.
func recipients(reply, send, gauge string) failure {
	return failure{
		fail: mails(smtptest.Rule{Stage: smtptest.Rcpt, Reply: reply}), send: send,
		ready: "mails_refused", doctor: "✗ service: degraded: mails_refused", gauge: gauge,
	}
}

// texts returns a failure in which a carrier answers with the status and the body.
func texts(status int, body, send, ready, up string) failure {
	return failure{begin: carrier(status, body), send: send, ready: ready, doctor: "✗ service: degraded: " + ready, gauge: carrierUp, value: up}
}

// For each failure of a part, the answers to requests, /readyz, the doctor and the metrics of the
// alerts agree.
func TestHealthReportsAgreeWithRequests(t *testing.T) {
	fill := func(s *apptest.Stack, disk *servertest.Disk) { apptest.Must(s.T, disk.Fill()) }
	var link *toxiproxy.Proxy
	for name, c := range map[string]failure{
		"Postgres is down": {
			fail: func(s *apptest.Stack, _ *servertest.Disk) { s.Postgres.Stop() },
			send: "503", ready: "database_away", doctor: "✗ database: ", gauge: writable, value: "0",
		},
		"Postgres is read-only": {
			fail: asAdmin(`ALTER SYSTEM SET default_transaction_read_only = on`, `SELECT pg_reload_conf()`),
			send: "503", ready: "database_read_only", doctor: "✗ database: unavailable: store: the database is read-only", gauge: writable, value: "0",
		},
		"a right is lost": {
			fail: asAdmin(`ALTER TABLE sends OWNER TO postgres`),
			send: "503", ready: "database_no_permission", doctor: "✗ database: store: a right on the tables is missing", gauge: writable, value: "0",
		},
		"the disk of Postgres is full": {
			disk: true, fail: fill,
			send: "503", ready: "database_full", doctor: "✗ database: ", gauge: writable, value: "0",
		},
		"Postgres stalls": {
			begin: func(s *apptest.Stack, _ *servertest.Disk) { link = s.Through("SENDCODE_DATABASE_URL") },
			fail:  func(*apptest.Stack, *servertest.Disk) { _, _ = link.Toxics.AddToxicJson(strings.NewReader(stalls)) },
			send:  "503", ready: "database_away", doctor: "✗ database: ", gauge: writable, value: "0",
		},
		"a table that sends read is locked": {
			fail: asAdmin(`BEGIN`, `LOCK TABLE suppressions`),
			send: "503", ready: "database_away", doctor: "✗ database: ", gauge: writable, value: "0",
		},
		"a synchronous standby is away": {
			fail: asAdmin(`ALTER SYSTEM SET synchronous_standby_names = 'b'`, `SELECT pg_reload_conf()`),
			send: "503", ready: "database_standby_away", doctor: "✗ database: store: each commit waits for a synchronous standby", gauge: writable, value: "0",
		},
		theFile + "is on a full disk": {
			disk: true, fail: fill,
			send: "503", ready: "database_full", doctor: "✗ database: nothing can be written", gauge: writable, value: "0",
		},
		theFile + "is locked": {
			fail: func(s *apptest.Stack, _ *servertest.Disk) {
				db, err := sqlite.OpenPool("file:"+filepath.Join(s.Env["SENDCODE_DATA_DIR"], config.DatabaseFile), 1)
				apptest.Must(s.T, err)
				s.Cleanup(func() { _ = db.Close() })
				_, err = db.Exec(`PRAGMA busy_timeout = 5000; BEGIN IMMEDIATE`) // begins after the service's write has ended
				apptest.Must(s.T, err)
			},
			send: "503", ready: "database_away", doctor: "✗ service: degraded: database_away", gauge: writable, value: "0",
		},
		"Redis is down": {
			fail: func(s *apptest.Stack, _ *servertest.Disk) { s.Redis.Stop() },
			send: "sent", ready: "redis_away", doctor: "✗ redis: ", gauge: limiter, value: "0",
		},
		"Redis stalls": {
			fail: func(s *apptest.Stack, _ *servertest.Disk) {
				apptest.Must(s.T, s.Redis.Pause())
				s.Cleanup(func() { _ = s.Redis.Resume() })
			},
			send: "sent", ready: "redis_away", doctor: "✗ redis: ", gauge: limiter, value: "0",
		},
		"Redis has no memory left": {
			fail: redisSays("CONFIG", "SET", "maxmemory", "1"),
			send: "sent", ready: "redis_away", doctor: "✗ redis: quota: limiter is unavailable: OOM", gauge: limiter, value: "0",
		},
		"Redis is a replica": {
			fail: redisSays("REPLICAOF", "127.0.0.1", "1"),
			send: "sent", ready: "redis_away", doctor: "✗ redis: quota: limiter is unavailable: READONLY", gauge: limiter, value: "0",
		},
		"Redis wants another password": {
			begin: redisSays("CONFIG", "SET", "requirepass", "another"),
			send:  "sent", ready: "redis_away", doctor: "✗ redis: quota: limiter is unavailable: NOAUTH", gauge: limiter, value: "0",
		},
		"the user of Redis lacks a right": {
			fail: redisSays("ACL", "SETUSER", "default", "-zadd"),
			send: "sent", ready: "redis_no_permission", doctor: "✗ redis: ", gauge: limiter, value: "0",
		},
		"Redis evicts": {
			fail: redisSays("CONFIG", "SET", "maxmemory-policy", "allkeys-lru"),
			send: "sent", ready: "ok", doctor: "! redis: Redis setting maxmemory-policy is allkeys-lru", gauge: limiter, value: "1",
		},
		"no Sentinel knows the master's name": {
			begin: func(s *apptest.Stack, _ *servertest.Disk) {
				servertest.Redis(s.T, "--repl-diskless-sync-delay", "0", "--replicaof", "127.0.0.1",
					s.Redis.Addr()[strings.LastIndex(s.Redis.Addr(), ":")+1:])
				s.Env["SENDCODE_REDIS_URL"] = strings.Replace(servertest.Sentinel(s.T, s.Redis.Addr()).URL(), "/main/", "/another/", 1)
			},
			send: "sent", ready: "redis_away", doctor: "✗ redis: quota: limiter is unavailable: no Sentinel knows a master \"another\"", gauge: limiter, value: "0",
		},
		"the mail server is down": {
			fail: func(s *apptest.Stack, _ *servertest.Disk) { s.SMTP.Stop() },
			send: "queued", ready: "mail_servers_suspended", doctor: "✗ mail server: ", gauge: mailUp, value: "0",
		},
		"the login is refused": {
			begin: mails(smtptest.Rule{Stage: smtptest.Auth, Reply: "535 5.7.8 no"}),
			send:  "queued", ready: "mail_servers_suspended", doctor: "✗ mail server: ", gauge: mailUp, value: "0",
		},
		"the mail server closes": {
			begin: mails(smtptest.Rule{Stage: smtptest.Greet, Close: true}),
			send:  "queued", ready: "mail_servers_suspended", doctor: "✗ mail server: ", gauge: mailUp, value: "0",
		},
		"the mail server stalls": {
			begin: mails(smtptest.Rule{Stage: smtptest.Greet, Stall: true}),
			send:  "queued", ready: "mail_servers_suspended", doctor: "✗ mail server: ", gauge: mailUp, value: "0",
		},
		"the mail server stalls at the end of mails": {
			begin: mails(smtptest.Rule{Stage: smtptest.Dot, Stall: true}),
			send:  "503", ready: "mails_slow", doctor: "✗ service: degraded: mails_slow", gauge: "sendcode_delivery_refusals_total{",
		},
		"each recipient is unknown":  recipients("550 5.1.1 no such user", "failed", refused),
		"each recipient is refused":  recipients("554 5.7.1 relay access denied", "failed", refused),
		"each recipient is deferred": recipients("451 4.3.0 later", "queued", deferred),
		"the sender is refused": {
			fail: mails(smtptest.Rule{Stage: smtptest.Mail, Reply: "550 5.7.60 not this sender"}),
			send: "failed", ready: "mails_refused", doctor: "✗ mail server: ", gauge: refused,
		},
		theTexts + "with a login that is refused": texts(401, `{}`, "queued", "carriers_suspended", "0"),
		theTexts + "without money":                texts(402, `{"code": 30002}`, "queued", "carriers_suspended", "0"),
		theTexts + "by a carrier that fails":      texts(500, "oops", "unknown", "carriers_suspended", "0"),
		theTexts + "by a carrier that stalls":     texts(0, "", "503", "carriers_suspended", "0"),
		theTexts + "that are refused":             texts(429, "", "queued", "texts_refused", "1"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			open := apptest.OnOwnPostgres
			if strings.HasPrefix(name, theFile) {
				open = apptest.Embedded
			}
			if c.disk {
				servertest.OnSmallDisk(t, 32<<20, func(disk *servertest.Disk) { c.wantReported(open(t).PutOn(disk), disk, "email") })
				return
			}
			channel := "email"
			if strings.HasPrefix(name, theTexts) {
				channel = "sms"
			}
			c.wantReported(open(t), nil, channel)
		})
	}
}

// wantReported waits until requests, /readyz, metrics and doctor all show the failure. If one of
// them is still wrong at the end, the test prints what each of them reported.
func (f failure) wantReported(s *apptest.Stack, disk *servertest.Disk, channel string) {
	if f.begin != nil {
		f.begin(s, disk)
	}
	cfg := s.Config()
	cfg.StartWait = 0
	a, err := s.New(cfg)
	apptest.Must(s.T, err)
	s.Serve(a)
	s.Env["SENDCODE_ADDR"] = a.Addr() // the doctor asks the service at this address
	if f.fail != nil {
		f.fail(s, disk)
	}
	var ids []string
	var seen string
	defer func() {
		if s.Failed() {
			s.Log(seen)
		}
	}()
	n := 0
	s.Await("all to say it", func() bool {
		to := fmt.Sprintf("person%d@example%d.com", n, n)
		if channel == "sms" {
			to = fmt.Sprintf("+49151123%05d", n)
		}
		n++
		answer := s.Post("/v1/verifications", fmt.Sprintf(`{"channel":%q,"to":%q,"trust":"known"}`, channel, to))
		met := answer.StatusCode == http.StatusServiceUnavailable && f.send == "503"
		seen = fmt.Sprint("requests: ", answer.StatusCode)
		if ids = append(ids, answer.ID); answer.StatusCode == http.StatusAccepted {
			for _, id := range ids[max(0, len(ids)-30):] {
				if id != "" {
					status := s.Verification(id).Send.Status
					met = met || status == f.send
					seen += " " + status
				}
			}
		}
		_, ready := s.Ready(0)
		value := s.Metric(0, f.gauge)
		seen += fmt.Sprint("\n/readyz: ", ready, "\n", f.gauge, value)
		if !met || !strings.Contains(" "+ready+":", " "+f.ready+":") || value == "" ||
			f.value != "" && value != f.value || f.value == "" && value == "0" {
			return false
		}
		var out strings.Builder
		_ = doctor.Examine(s.Context(), s.Config(), &out)
		seen += "\n" + out.String()
		return strings.Contains("\n"+out.String(), "\n"+f.doctor)
	})
}

// If a carrier refuses each message, it stays suspended while messages wait, although a probe finds
// that it answers.
func TestASuspendedCarrierStaysSoWhileMessagesWait(t *testing.T) {
	t.Parallel()
	s := apptest.OnRealParts(t)
	carrier(401, `{}`)(s, nil)
	s.Start(1)
	for n := range 4 {
		s.Is("a send", s.Post("/v1/verifications", fmt.Sprintf(`{"channel":"sms","to":"+4915112300%03d"}`, n)), http.StatusAccepted)
	}
	s.Await("the carrier to be suspended", func() bool { return s.Metric(0, carrierUp) == "0" })
	ticks := time.NewTicker(time.Second)
	defer ticks.Stop()
	for n := range 70 {
		<-ticks.C
		if s.Metric(0, carrierUp) != "0" {
			t.Fatalf("it is well after %d s", n)
		}
	}
}
