package faults

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"sendcode/internal/app/apptest"
	"sendcode/internal/delivery/smtptest"
	"sendcode/internal/servertest"
	"sendcode/internal/store/postgres"
)

// Rates of a flood, in requests a second: the usual one, and ten times as many.
const usual, ten = 40, 400

// Whatever is slow or stands still, a send is served, or refused by the policy, or refused at once:
// none that was accepted is lost, nobody gets more than the policy, and nothing stays under way.
func TestEachPartIsSlowUnderOverload(t *testing.T) {
	t.Parallel()
	for name, disturb := range map[string]func(s *apptest.Stack) (disturb, mend func()){
		"nothing is slow, ten times the rate": func(*apptest.Stack) (disturb, mend func()) {
			return func() {},
				func() {}
		},
		"Redis is 600 ms away": func(s *apptest.Stack) (disturb, mend func()) {
			link := s.Through("SENDCODE_REDIS_URL")
			streams := []string{"upstream", "downstream"}
			return func() {
					for _, stream := range streams {
						_, err := link.Toxics.AddToxicJson(strings.NewReader(fmt.Sprintf(
							`{"name":%q,"type":"latency","stream":%[1]q,"attributes":{"latency":300}}`, stream)))
						apptest.Must(s.T, err)
					}
				}, func() {
					for _, stream := range streams {
						apptest.Must(s.T, link.Toxics.RemoveToxic(s.Context(), stream))
					}
				}
		},
		"Redis stalls": func(s *apptest.Stack) (disturb, mend func()) {
			redis := s.RedisClient()
			return func() { apptest.Must(s.T, redis.Do(s.Context(), "CLIENT", "PAUSE", 4000, "ALL").Err()) }, func() {}
		},
		"the mail server takes nothing": func(s *apptest.Stack) (disturb, mend func()) {
			return func() { s.MailRules(smtptest.Rule{Stage: smtptest.Rcpt, Reply: "452 4.3.1 queue is full"}) },
				func() { s.MailRules() }
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := apptest.OnRealParts(t).Policy(apptest.LongRules)
			begin, mend := disturb(s)
			s.Start(1)
			f := newFlood(s)
			f.wave(usual, time.Second)
			begin()
			f.wave(ten, 3*time.Second)
			mend()
			t.Logf("%d accepted, %d refused by the policy, %d at once, %d not served in time", f.Accepted.Load(),
				f.Limited.Load(), f.Shed.Load(), f.Unserved.Load())
			if n := f.Unserved.Load(); n > int64(f.sent)/20 || f.Accepted.Load() < int64(f.sent)/10 {
				t.Errorf("of %d requests, %d were accepted, and %d waited in vain", f.sent, f.Accepted.Load(), n)
			}
			f.nothingIsLost(s.Replicas[0].DB())
			s.Counts(`sendcode_admission_under_way{class="known",of="sends"`, "0")
			s.Counts(`sendcode_admission_refusals_total{class="unread",of="sends"`, fmt.Sprint(f.Shed.Load()))
		})
	}
}

// A replica stands still, and callers leave. When it goes on, it serves nothing of those that left,
// and serves those that come then.
func TestAReplicaThatStoodStillServesNoneThatLeft(t *testing.T) {
	t.Parallel()
	s := apptest.OnRealParts(t).Policy(apptest.LongRules)
	p := s.Spawn()
	db, err := postgres.Open(s.Context(), s.Env["SENDCODE_DATABASE_URL"], "")
	apptest.Must(t, err)
	s.Cleanup(func() { _ = db.Close() })
	s.SendToAnaBy(p) // it serves
	p.Freeze(t)
	const left = 300
	var callers []net.Conn
	for n := range left {
		conn, err := net.Dial("tcp", strings.TrimPrefix(p.Base, "http://"))
		apptest.Must(t, err)
		body := fmt.Sprintf(`{"channel":"email","to":"left%d@example.com"}`, n)
		_, err = fmt.Fprintf(conn,
			"POST /v1/verifications HTTP/1.1\r\nHost: codes\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\n"+
				"Content-Length: %d\r\n\r\n%s", s.Key, len(body), body)
		apptest.Must(t, err)
		callers = append(callers, conn)
	}
	for _, conn := range callers {
		apptest.Must(t, conn.Close())
	}
	apptest.Must(t, p.Cmd.Process.Signal(syscall.SIGCONT))
	for n := range 20 {
		a, err := s.At(p.Base, http.MethodPost, "/v1/verifications",
			fmt.Sprintf(`{"channel":"email","to":"stays%d@example.com"}`, n))
		if err != nil || a.StatusCode != http.StatusAccepted {
			t.Errorf("a caller that stays: %d %s %v", a.StatusCode, a.Raw, err)
		}
	}
	seen := func() string {
		a, err := s.At(p.Base, http.MethodGet, "/metrics", "")
		apptest.Must(t, err)
		for line := range strings.Lines(string(a.Raw)) {
			if n, is := strings.CutPrefix(line,
				`sendcode_http_request_seconds_count{route="/v1/verifications",status="5xx"} `); is {
				return strings.TrimSpace(n)
			}
		}
		return ""
	}
	servertest.Await(t, "all that left to be looked at", func() bool { return seen() == fmt.Sprint(left) })
	servertest.Same(t, "sends", len(ended(s, db)), 21)
}
