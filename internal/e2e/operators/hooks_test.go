// Package operators tests what operators and administrators have of the whole: configuration,
// webhooks, carriers, providers, accounts and the console.
package operators

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"sendcode/internal/app/apptest"
	"sendcode/internal/store"
)

func TestMain(m *testing.M) { os.Exit(apptest.Main(m, 5, 4)) }

// The whole way: what happens is told, once, signed, and with no word too many.
func TestAppsAreTold(t *testing.T) {
	apptest.OnEach(t, func(s *apptest.Stack) {
		hook := apptest.NewReceiver(s.T)
		s.WithWebhook(hook,
			"test_recipients: [{to: reviewer@example.com, code: \"424242\", expires: 2099-01-01}]\n")
		replicas := 2
		if s.Postgres == nil {
			replicas = 1
		}
		s.Start(replicas)
		sent := s.Ask(0, apptest.Ana)
		events := s.AwaitTold(hook, 1)
		if e := events[0]; e.Type != "send.sent" || e.Data.VerificationID != sent.ID || e.Data.SendID != sent.Send.ID ||
			e.Data.To != apptest.AnaMasked || e.Data.App != "default" || e.Data.Test {
			s.Errorf("%s", e.Raw)
		}
		code := s.CodeIn(s.AwaitMail(apptest.Ana, 1)[0])
		s.Approves(replicas-1, sent.ID, code)
		events = s.AwaitTold(hook, 2)
		if e := events[1]; e.Type != "verification.approved" || e.Data.VerificationID != sent.ID ||
			e.Data.SendID != "" || e.Data.Status != "approved" {
			s.Errorf("%s", e.Raw)
		}
		for _, e := range events {
			if apptest.StandsAlone(string(e.Raw), code) || strings.Contains(string(e.Raw), "ana.maria") {
				s.Error("an event says too much")
			}
		}
		s.Ask(0, "reviewer@example.com")
		if e := s.AwaitTold(hook, 3)[2]; !e.Data.Test || e.Type != "send.sent" {
			s.Errorf("%s", e.Raw)
		}
		if s.SMTP == nil {
			s.Ask(0, "bounce@simulator.test")
			if e := s.AwaitTold(hook, 4)[3]; e.Type != "send.failed" || e.Data.Reason != "rejected" {
				s.Errorf("%s", e.Raw)
			}
		}
		eventStates(s, map[string]int{"delivered": len(hook.All())})
		router := s.SpecRouter()
		list := s.Get("/v1/admin/webhooks", apptest.AsAdmin)
		apptest.Must(s.T, apptest.Conforms(router, http.MethodGet, "/v1/admin/webhooks", list))
		if got := s.Metric(replicas-1,
			`sendcode_webhook_attempts_total{app="default",outcome="given_up"}`); got != "0" {
			s.Errorf("%q given up", got)
		}
	})
}

// From each cause to the hook: each tells once, also if it comes again. That a code expires is told
// in internal/verification, where hours pass in virtual time.
func TestEachCauseIsToldOnce(t *testing.T) {
	apptest.OnEach(t, func(s *apptest.Stack) {
		hook, carrier := apptest.NewReceiver(s.T), apptest.NewCarrier(s.T)
		s.Env["POST_SECRET"] = hookSecret
		s.WithWebhook(hook, hookYAML+`sms:
  countries: [DE]
  public_url: https://codes.example.com
  carriers: [{name: rest, type: http, url: "`+carrier.URL+`/", body: "to={to}&text={text}&cb={callback}",
    answer: {code: $.status, codes: {"0": accepted, "7": rejected, "8": unknown}}, receipt: st, delivered: [ok], undelivered: [lost]}]
`).Start(1)
		if s.Postgres != nil {
			s.Start(1)
		}
		form := func(to, name string) string {
			for _, f := range carrier.Asked() {
				if f.Get("to") == to {
					return f.Get(name)
				}
			}
			s.Fatalf("the carrier has nothing for %s", to)
			return ""
		}
		check := func(a apptest.Answer, to string, right bool, times int) {
			code := regexp.MustCompile(`\b\d{6}\b`).FindString(form(to, "text"))
			if !right {
				code = s.Wrong(code)
			}
			for range times {
				s.Check(0, a.ID, code)
			}
		}
		receipt := func(to, status string) {
			for range 2 {
				path := strings.TrimPrefix(form(to, "cb"), "https://codes.example.com") + "&st=" + status
				s.Is("a receipt", s.Get(path), http.StatusNoContent)
			}
		}
		type cause struct {
			event, answer string
			do            func(a apptest.Answer, to string)
		}
		none := func(apptest.Answer, string) {}
		want := map[string][]string{} // by verification
		for n, c := range []cause{
			{"send.sent sent", "0", none},
			{"send.failed failed", "7", none},
			{"send.unknown unknown", "8", none},
			{"send.delivered delivered", "0", func(_ apptest.Answer, to string) { receipt(to, "ok") }},
			{"send.undelivered undelivered", "0", func(_ apptest.Answer, to string) { receipt(to, "lost") }},
			{"verification.approved approved", "0", func(a apptest.Answer, to string) { check(a, to, true, 2) }},
			{"verification.locked max_attempts_reached", "0",
				func(a apptest.Answer, to string) { check(a, to, false, 7) }},
			{"verification.canceled canceled", "0", func(a apptest.Answer, _ string) {
				for range 2 {
					s.Is("a cancel", s.Do(0, http.MethodPost, "/v1/verifications/"+a.ID+"/cancel", ""), http.StatusOK)
				}
			}},
		} {
			to := fmt.Sprintf("+4915123456%03d", n)
			carrier.Answer(to, c.answer)
			a := s.Do(0, http.MethodPost, "/v1/verifications", fmt.Sprintf(`{"channel":"sms","to":%q}`, to),
				apptest.Patiently)
			if want[a.ID] = []string{c.event}; c.answer == "0" && n > 0 {
				want[a.ID] = []string{"send.sent sent", c.event}
			}
			c.do(a, to)
		}
		for n, to := range []string{apptest.Ana, "bea@example.com"} {
			report := [][2]string{{"Bounce", "bounced"}, {"Delivery", "delivered"}}[n]
			a := s.Ask(0, to, apptest.Patiently)
			want[a.ID] = []string{"send.sent sent", "send." + report[1] + " " + report[1]}
			for range 2 {
				body := fmt.Sprintf(`{"RecordType":%q,"Metadata":{"send":%q},"Email":%q}`, report[0], a.Send.ID, to)
				s.Is("a report", s.Post("/v1/events/post", body,
					func(r *http.Request) { r.SetBasicAuth("sendcode", hookSecret) }), http.StatusNoContent)
			}
		}
		total, types, got := 0, map[string]bool{}, map[string][]string{}
		for _, events := range want {
			total += len(events)
		}
		for _, e := range s.AwaitTold(hook, total) {
			types[e.Type] = true
			got[e.Data.VerificationID] = append(got[e.Data.VerificationID], e.Type+" "+e.Data.Status)
			if strings.HasPrefix(e.Type, "send.") == (e.Data.SendID == "") {
				s.Errorf("%s", e.Raw)
			}
		}
		for id, want := range want {
			slices.Sort(want)
			if slices.Sort(got[id]); !slices.Equal(got[id], want) {
				s.Errorf("told %q, want %q", got[id], want)
			}
		}
		for _, e := range store.EventTypes {
			if !types[e.Name] && e.Name != store.VerificationExpired {
				s.Errorf("%s was not told", e.Name)
			}
		}
		eventStates(s, map[string]int{"delivered": total})
	})
}

// eventStates waits until the console counts so many events in each state.
func eventStates(s *apptest.Stack, want map[string]int) {
	s.Helper()
	var raw []byte
	s.Await(fmt.Sprint("the states ", want), func() bool {
		a := s.Get("/v1/admin/webhooks", apptest.AsAdmin)
		var list struct{ Events []struct{ State string } }
		if raw = a.Raw; json.Unmarshal(raw, &list) != nil {
			return false
		}
		got := map[string]int{}
		for _, e := range list.Events {
			got[e.State]++
		}
		return fmt.Sprint(got) == fmt.Sprint(want)
	})
}

// A receiver moves, and its secret is exchanged, while the service runs.
func TestAReceiverMoves(t *testing.T) {
	t.Parallel()
	hook, moved := apptest.NewReceiver(t), apptest.NewReceiver(t)
	moved.Secret = apptest.HookSecrets[1]
	s := apptest.Embedded(t).WithWebhook(hook, "").Watching()
	delete(s.Env, "SENDCODE_WEBHOOK_SECRETS")
	secrets := filepath.Join(t.TempDir(), "secrets")
	s.Env["SENDCODE_WEBHOOK_SECRETS_FILE"] = secrets
	apptest.Must(t, os.WriteFile(secrets, []byte("default:"+apptest.HookSecrets[0]+"\n"), 0o600))
	s.Start(1)
	s.Ask(0, apptest.Ana)
	s.AwaitTold(hook, 1)
	apptest.Must(t, os.WriteFile(secrets, []byte("default:"+apptest.HookSecrets[1]), 0o600))
	s.WriteWebhook(moved.URL, "")
	s.Hangup(0, "applied")
	s.Ask(0, "cleo@example.com")
	s.AwaitTold(moved, 1)
	eventStates(s, map[string]int{"delivered": 2})
}

// The lines of docs/webhooks.md are those of the receivers here, and refuse what is not signed for
// them.
func TestThePageOfWebhooksShowsThisReceiver(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/webhooks.md")
	apptest.Must(t, err)
	_, rest, _ := strings.Cut(string(page), "```go\n")
	block, _, found := strings.Cut(rest, "```")
	source, err := os.ReadFile("../../app/apptest/hooks.go")
	apptest.Must(t, err)
	if !found || !strings.Contains(string(source), block) {
		t.Errorf("the page shows other lines:\n%s", block)
	}
	const secret, body = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", `{"test": 2432232314}`
	now := time.Unix(1614265330, 0)
	for name, c := range map[string]struct {
		header, value, body string
		now                 time.Time
		taken               bool
	}{
		"the published vector": {"webhook-id", "msg_p5jXN8AQM9LWM0D4loKWxJek", body, now, true},
		"late": {"webhook-id", "msg_p5jXN8AQM9LWM0D4loKWxJek", body,
			now.Add(5*time.Minute + time.Second), false},
		"another body": {"webhook-id", "msg_p5jXN8AQM9LWM0D4loKWxJek", body + " ", now, false},
		"another id":   {"webhook-id", "x", body, now, false},
		"another time": {"webhook-timestamp", "1614265331", body, now, false},
		"no signature": {"webhook-signature", "", body, now, false},
		"another scheme": {"webhook-signature", "v2,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=", body,
			now, false},
	} {
		h := http.Header{}
		h.Set("webhook-id", "msg_p5jXN8AQM9LWM0D4loKWxJek")
		h.Set("webhook-timestamp", "1614265330")
		h.Set("webhook-signature", "v1,bm9uZQ== v1a,x v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=")
		h.Set(c.header, c.value)
		if apptest.Verify(secret, h, []byte(c.body), c.now) != c.taken {
			t.Errorf("%s: taken is not %t", name, c.taken)
		}
	}
}
