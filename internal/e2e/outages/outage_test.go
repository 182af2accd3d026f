// Package outages tests the whole while a part is away, slow or full, and how an operator sees it.
// There is no load as in package faults.
package outages

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sendcode/internal/app/apptest"
	"sendcode/internal/app/doctor"
	"sendcode/internal/delivery/smtptest"
	"sendcode/internal/recipient"
	"sendcode/internal/servertest"
)

func TestMain(m *testing.M) { os.Exit(apptest.Main(m, 5, 1)) }

// redisAway is what /readyz says while Redis does not answer.
const redisAway = "degraded: redis_away: Redis does not answer or can't write: the database decides for recipients, each process for other rules."

// While Redis is away, the database decides alone, exactly; a Redis that comes back empty learns.
func TestRedisAway(t *testing.T) {
	t.Parallel()
	s := apptest.OnRealParts(t).Policy(apptest.LongRules).Start(2)
	s.Is("a send", s.Ask(0, "before@example.com"), http.StatusAccepted)
	s.Redis.Stop()
	// one after the other, since the database alone decides: on a busy machine each takes a while
	s.Admits(1, 20, apptest.Ana)
	s.Admits(0, 10, "before@example.com")
	told := s.Ask(1, apptest.Ana)
	s.Is("a send too early", told, http.StatusTooManyRequests, told.RetryAfter >= 150, len(told.Quota.Rules) == 3)
	s.AwaitMail(apptest.Ana, 1)
	s.AwaitReady(0, 200, redisAway)
	s.Counts("sendcode_limiter_up", "0")
	apptest.Must(t, s.Redis.Start())
	s.AwaitReady(0, 200, "ok")
	s.Await("Redis to learn", func() bool {
		q := s.Post("/v1/quota", `{"channel":"email","to":"`+apptest.Ana+`"}`)
		return q.Quota.BlockedBy == "short" && q.Quota.Rules[2].Remaining == 9
	})
	s.Admits(0, 20, apptest.Ana)
	s.Admits(0, 20, "before@example.com")
}

// Without Postgres sends, checks and looks are 503. What needs no database still answers, so
// /readyz stays 200, and says so.
func TestPostgresAway(t *testing.T) {
	t.Parallel()
	s := apptest.OnOwnPostgres(t).Write("limits: {month: [{name: month, key: user, limit: 3, per: month}]}\n").Start(2)
	first := s.Ask(0, "before@example.com")
	s.AwaitMail("before@example.com", 1)
	s.Postgres.Stop()
	s.Unavailable(s.Ask(0, apptest.Ana))
	s.Unavailable(s.Look(first.ID))
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
	if n := len(s.Mails()); n != 1 {
		t.Errorf("%d mails while nothing could be written", n)
	}
	apptest.Must(t, s.Postgres.Start())
	s.Await("recovery", func() bool { return s.Ask(0, apptest.Ana).StatusCode == http.StatusAccepted })
	s.AwaitMail(apptest.Ana, 1)
	s.AwaitReady(0, 200, "")
}

// A Postgres that is 300 ms and one that is a second further away answers sends, so no load
// balancer may take its replicas out.
func TestPostgresFarAway(t *testing.T) {
	t.Parallel()
	s := apptest.OnOwnPostgres(t)
	link := s.Through("SENDCODE_DATABASE_URL")
	s.Start(1)
	for _, late := range []int{300, 1000} {
		_, err := link.Toxics.AddToxicJson(strings.NewReader(fmt.Sprintf(
			`{"name":"late%[1]d","type":"latency","stream":"downstream","attributes":{"latency":%[1]d}}`, late)))
		apptest.Must(t, err)
		s.AwaitDatabaseSlow(0)
		s.Await("the console to call the database slow, not away", func() bool {
			database := s.Replicas[0].Status(t.Context()).Parts[0]
			return database.Kind == "database" && database.Up && database.Slow
		})
		stop := time.Now().Add(5 * time.Second) // five tries
		for time.Now().Before(stop) {
			if status, body := s.Ready(0); status != http.StatusOK {
				t.Fatalf("%d ms late: %d %s", late, status, body)
			}
		}
		s.Is("a send", s.Ask(0, fmt.Sprintf("late-%d@example.com", late)), http.StatusAccepted)
		apptest.Must(t, link.Toxics.RemoveToxic(t.Context(), fmt.Sprint("late", late)))
	}
	s.Await("a fast database", func() bool { return string(s.Do(0, http.MethodGet, "/readyz", "").Raw) == "ok" })
}

// Without its mail server a send waits, and the service is ready. Of two servers the one that is
// away is named where people look, in metrics, console, log and doctor, and the other one sends; it
// is preferred again when it is back.
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
	s.AwaitState(a.ID, "queued") // between two attempts
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
	if len(failing) != 1 || !strings.HasPrefix(failing[0], "mail "+away.Addr()+" ") ||
		!strings.Contains(failing[0], "refused") {
		t.Errorf("the console hears %q", failing)
	}
	if !s.Logged(`"msg":"mail server suspended after failures","server":"` + away.Addr() + `"`) {
		t.Error("the log does not name the server")
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

// While all mail servers or all carriers are suspended, /readyz says so, and no address; each part
// that is away has a line.
func TestMailServersAndCarriersAway(t *testing.T) {
	t.Parallel()
	var carrierUp atomic.Bool
	carrier := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !carrierUp.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	t.Cleanup(carrier.Close)
	s := apptest.Embedded(t).Write(`sms:
  countries: [DE]
  carriers: [{name: rest, type: http, url: "` + carrier.URL + `/", body: "to={to}&text={text}"}]
`)
	one, two := smtptest.StartAt(t, servertest.FreePort(t), smtptest.Script{}),
		smtptest.StartAt(t, servertest.FreePort(t), smtptest.Script{})
	s.Env["SENDCODE_SMTP_URL"] = one.URL() + "," + two.URL()
	one.Stop()
	two.Stop()
	s.Start(1)
	s.AwaitReady(0, http.StatusOK, "ok")
	n := 0
	awaitReady := func(channel, body string) { // while sends come
		t.Helper()
		s.Await("readiness: "+body, func() bool {
			n++
			to := map[string]string{"email": fmt.Sprintf("r%d@example.com", n),
				"sms": fmt.Sprintf("+4915123%06d", n)}[channel]
			s.Is("a send", s.Do(0, http.MethodPost, "/v1/verifications",
				fmt.Sprintf(`{"channel":%q,"to":%q}`, channel, to)), http.StatusAccepted)
			status, got := s.Ready(0)
			return status == http.StatusOK && got == body
		})
	}
	const mail = "degraded: mail_servers_suspended: All mail servers are suspended after failures: mails wait."
	const text = "degraded: carriers_suspended: All carriers, or all that take some numbers, are suspended after failures: those text messages wait."
	awaitReady("email", mail)
	awaitReady("sms", mail+"\n"+text)
	two.Restart()
	awaitReady("email", text)
	carrierUp.Store(true)
	awaitReady("sms", "ok")
}

// A replica that has no mail to send tells of a suspension for as long as no mail would be tried:
// the server is still away when /readyz is ok again. While a mail waits, it tells.
func TestASuspensionIsToldWhileItLastsOrMailsWait(t *testing.T) {
	t.Parallel()
	s := apptest.Embedded(t)
	away := smtptest.StartAt(t, servertest.FreePort(t), smtptest.Script{})
	s.Env["SENDCODE_SMTP_URL"] = away.URL()
	away.Stop()
	s.Start(1)
	s.AwaitReady(0, http.StatusOK, "ok")
	var ids []string
	body := ""
	tells := func() bool {
		_, body = s.Ready(0)
		return strings.Contains(body, "mail_servers_suspended: ") // on a busy machine the database may be slow too
	}
	s.Await("the suspension", func() bool {
		ids = append(ids, s.Ask(0, fmt.Sprintf("w%d@example.com", len(ids))).ID)
		return tells() && len(ids) > 2
	})
	s.Await("mails to wait beside the one that is tried", func() bool {
		waits, err := s.Replicas[0].DB().AnySendWaits(t.Context(), recipient.Email)
		return err == nil && waits
	})
	const tried = `sendcode_delivery_attempt_seconds_count{channel="email",class="temporary"`
	before := s.Metric(0, tried)
	s.Await("two more attempts", func() bool {
		if !tells() {
			t.Fatalf("%q is told, though %d mails wait", body, len(ids))
		}
		now, _ := strconv.Atoi(s.Metric(0, tried))
		then, _ := strconv.Atoi(before)
		return now >= then+2
	})
	for _, id := range ids {
		s.Is("canceled", s.Post("/v1/verifications/"+id+"/cancel", ""), http.StatusOK)
	}
	s.AwaitReady(0, http.StatusOK, "ok")
}

// A mailbox that takes nothing costs nothing: the next code for it may be asked for at once, in
// both gates.
func TestRefusedMailboxCostsNothing(t *testing.T) {
	t.Parallel()
	s := apptest.OnRealParts(t)
	s.MailRules(smtptest.Rule{Stage: smtptest.Rcpt, To: apptest.Ana, Times: 1,
		Reply: "550 5.2.1 takes no mail " + apptest.Ana})
	s.Start(2)
	a := s.Ask(0, apptest.Ana)
	s.Await("the failure", func() bool {
		got := s.Look(a.ID)
		return got.Send.Status == "failed" && got.Send.Reason == "rejected" && got.Quota.Allowed
	})
	again := s.Ask(1, apptest.Ana)
	s.Is("a send", again, http.StatusAccepted, again.ID == a.ID, again.Send.Number == 2)
	s.AwaitMail(apptest.Ana, 1)
}
