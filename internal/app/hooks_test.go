package app

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sendcode/internal/config"
	"sendcode/internal/delivery/smtptest"
	"sendcode/internal/policy"
)

// hooked has the app default told by a receiver on this machine.
func (s *stack) hooked(r *receiver, more string) *stack {
	s.Helper()
	file := filepath.Join(s.TempDir(), "sendcode.yaml")
	s.env["SENDCODE_CONFIG"] = file
	s.env["SENDCODE_WEBHOOK_SECRETS"] = "default:" + hookSecrets[0]
	s.hook(r.URL+"/hooks", more)
	return s
}

func (s *stack) hook(url, more string) {
	s.Helper()
	s.write("apps: [{name: default, webhook: {url: \"" + url + "\"}}]\nwebhooks: {allow: [127.0.0.0/8]}\n" + more)
}

func TestConfigKnowsTheEvents(t *testing.T) {
	if !slices.Equal(config.WebhookEvents, policy.Events) {
		t.Errorf("%v, %v", config.WebhookEvents, policy.Events)
	}
}

// The whole way: what happens is told, once, signed, and with no word too many.
func TestAppsAreTold(t *testing.T) {
	for name, open := range map[string]func(*testing.T) *stack{"embedded": embedded, "on real parts": onRealParts} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			hook := newReceiver(t)
			s := open(t).hooked(hook, "test_recipients: [{channel: email, to: reviewer@example.com, code: \"424242\", expires: 2099-01-01}]\n")
			replicas := 2
			if s.postgres == nil {
				replicas = 1
			}
			s.start(replicas)
			sent := s.ask(0, ana)
			events := s.awaitTold(hook, 1)
			if e := events[0]; e.Type != "send.sent" || e.Data.VerificationID != sent.ID || e.Data.SendID != sent.Send.ID || e.Data.To != anaMasked || e.Data.App != "default" || e.Data.Test {
				t.Errorf("%s", e.raw)
			}
			code := s.codeIn(s.awaitMail(ana, 1)[0])
			if c := s.check(replicas-1, sent.ID, code); !c.Valid {
				t.Fatalf("%s", c.raw)
			}
			events = s.awaitTold(hook, 2)
			if e := events[1]; e.Type != "verification.approved" || e.Data.VerificationID != sent.ID || e.Data.SendID != "" || e.Data.Status != "approved" {
				t.Errorf("%s", e.raw)
			}
			for _, e := range events {
				if standsAlone(string(e.raw), code) || strings.Contains(string(e.raw), "ana.maria") {
					t.Error("an event says too much")
				}
			}
			s.ask(0, "reviewer@example.com")
			if e := s.awaitTold(hook, 3)[2]; !e.Data.Test || e.Type != "send.sent" {
				t.Errorf("%s", e.raw)
			}
			if s.smtp == nil {
				s.ask(0, "bounce@simulator.test")
				if e := s.awaitTold(hook, 4)[3]; e.Type != "send.failed" || e.Data.Reason != "rejected" {
					t.Errorf("%s", e.raw)
				}
			}
			s.eventStates(map[string]int{"delivered": len(hook.all())})
			router := s.specification()
			list := s.do(0, http.MethodGet, "/v1/admin/webhooks", "", asAdmin)
			must(t, conforms(router, http.MethodGet, "/v1/admin/webhooks", list))
			if got := s.metric(replicas-1, `sendcode_webhook_attempts_total{app="default",outcome="given_up"}`); got != "" {
				t.Errorf("%s given up", got)
			}
		})
	}
}

// eventStates waits until the console counts so many events in each state.
func (s *stack) eventStates(want map[string]int) {
	s.Helper()
	var raw []byte
	s.await(fmt.Sprint("the states ", want), func() bool {
		a := s.do(0, http.MethodGet, "/v1/admin/webhooks", "", asAdmin)
		var list struct{ Events []struct{ State string } }
		if raw = a.raw; json.Unmarshal(raw, &list) != nil {
			return false
		}
		got := map[string]int{}
		for _, e := range list.Events {
			got[e.State]++
		}
		return fmt.Sprint(got) == fmt.Sprint(want)
	})
}

// kill -9 between the outcome and the delivery: another replica, or the next start, delivers, with the same ID.
func TestKilledBetweenOutcomeAndEvent(t *testing.T) {
	binary := build(t)
	for name, open := range map[string]func(*testing.T) *stack{"the next start, with nothing but Go": embedded, "the other replica": onRealParts} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			hook := newReceiver(t)
			hook.answers(func(n int) int {
				if n == 1 {
					return -1 // says nothing until the process is dead
				}
				return http.StatusNoContent
			})
			s := open(t).hooked(hook, "")
			killed := s.spawn(binary)
			v := s.askProcess(killed)
			s.awaitTold(hook, 1)
			killed.kill()
			s.start(1)
			events := s.awaitTold(hook, 2)
			if events[0].id != events[1].id || string(events[0].raw) != string(events[1].raw) || events[1].Data.SendID != v.Send.ID {
				t.Errorf("%s %s\n%s %s", events[0].id, events[0].raw, events[1].id, events[1].raw)
			}
			s.eventStates(map[string]int{"delivered": 1})
		})
	}
}

// A receiver that fails for a while, one whose secret is exchanged, one that moves, and one that goes.
func TestReceiversChange(t *testing.T) {
	t.Parallel()
	hook := newReceiver(t)
	hook.answers(func(n int) int {
		if n == 1 {
			return http.StatusInternalServerError
		}
		return http.StatusOK
	})
	s := embedded(t).hooked(hook, "").watching()
	delete(s.env, "SENDCODE_WEBHOOK_SECRETS")
	secrets := filepath.Join(t.TempDir(), "secrets")
	s.env["SENDCODE_WEBHOOK_SECRETS_FILE"] = secrets
	must(t, os.WriteFile(secrets, []byte("default:"+hookSecrets[0]+"\n"), 0o600))
	s.start(1)
	s.ask(0, ana)
	if events := s.awaitTold(hook, 2); events[0].id != events[1].id {
		t.Error("another ID at the second attempt")
	}
	must(t, os.WriteFile(secrets, []byte("default:"+hookSecrets[1]+",default:"+hookSecrets[0]), 0o600))
	s.hangup(0, "applied")
	for i, secret := range []string{hookSecrets[0], hookSecrets[1]} { // both are known for a while
		hook.mu.Lock()
		hook.secret = secret
		hook.mu.Unlock()
		s.ask(0, fmt.Sprintf("bea%d@example.com", i))
		s.awaitTold(hook, 3+i)
	}
	must(t, os.WriteFile(secrets, []byte("default:"+hookSecrets[1]), 0o600))
	moved := newReceiver(t)
	moved.secret = hookSecrets[1]
	s.hook(moved.URL, "")
	s.hangup(0, "applied")
	s.ask(0, "cleo@example.com")
	s.awaitTold(moved, 1)
	s.write("apps: [{name: default}]\n")
	s.hangup(0, "applied")
	s.ask(0, "dora@example.com")
	s.awaitMail("dora@example.com", 1)
	s.eventStates(map[string]int{"delivered": 4})
	if n := len(hook.all()) + len(moved.all()); n != 5 {
		t.Errorf("%d requests", n)
	}
}

// Without leave nothing inside is called, and the administrator sees why nothing arrives.
func TestHooksDoNotLeadInside(t *testing.T) {
	t.Parallel()
	hook := newReceiver(t)
	s := embedded(t).hooked(hook, "")
	s.write("apps: [{name: default, webhook: {url: \"https://" + strings.TrimPrefix(hook.URL, "http://") + "\"}}]\n")
	s.start(1)
	s.ask(0, ana)
	s.await("an attempt", func() bool {
		return s.metric(0, `sendcode_webhook_attempts_total{app="default",outcome="retried"}`) != ""
	})
	s.eventStates(map[string]int{"pending": 1})
	a := s.do(0, http.MethodGet, "/v1/admin/webhooks?state=pending", "", asAdmin)
	if !strings.Contains(string(a.raw), `"answer":"forbidden address"`) || len(hook.all()) != 0 {
		t.Errorf("%d requests, %s", len(hook.all()), a.raw)
	}
}

// A receiver that says nothing changes no answer and no mail.
func TestASilentReceiverHoldsUpNobody(t *testing.T) {
	t.Parallel()
	hook := newReceiver(t)
	hook.answers(func(int) int { return -1 })
	s := onRealParts(t).hooked(hook, "")
	s.smtp = smtptest.Start(t, smtptest.Script{})
	s.env["SENDCODE_SMTP_URL"] = s.smtp.URL()
	s.start(1)
	const n = 100
	for i := range n {
		if a := s.ask(0, fmt.Sprintf("crowd%d@example.com", i)); a.status != http.StatusAccepted {
			t.Fatalf("%d %s", a.status, a.raw)
		}
	}
	s.await("all mails", func() bool { return len(s.mails()) == n })
	if heard := len(hook.all()); heard > 64 {
		t.Errorf("%d attempts at once", heard)
	}
}
