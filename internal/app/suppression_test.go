package app

import (
	"net/http"
	"strings"
	"testing"

	"sendcode/internal/delivery/smtptest"
)

func patiently(r *http.Request) { r.Header.Set("Prefer", "wait=20") }

// wait asks for a code and waits for what becomes of it.
func (s *stack) wait(i int, to string) answer {
	s.Helper()
	return s.do(i, http.MethodPost, "/v1/verifications", `{"channel":"email","to":"`+to+`"}`, patiently)
}

// named counts how often the mail server was told of a recipient.
func (s *stack) named(to string) (n int) {
	for _, c := range s.smtp.Commands() {
		if strings.HasPrefix(c, "RCPT") && strings.Contains(c, to) {
			n++
		}
	}
	return n
}

// A mailbox that does not exist is spoken of to the mail server once. Whoever asks then, at whatever replica, after whatever
// Redis forgets, is told that it failed; a back end is told why.
func TestMail16SuppressedEverywhere(t *testing.T) {
	t.Parallel()
	s := onRealParts(t).tenants()
	s.smtp.SetScript(smtptest.Script{TLS: smtptest.STARTTLS, Username: "sendcode", Password: "a password & more", Rules: []smtptest.Rule{
		{Stage: smtptest.Rcpt, To: ana, Reply: "550 5.1.1 no such user " + ana},
	}})
	s.start(2)
	if a := s.wait(0, ana); a.status != http.StatusBadGateway || a.Send.Reason != "rejected" {
		t.Fatalf("%d %s", a.status, a.raw)
	}
	for i := range 2 {
		a := s.wait(i, ana)
		if a.status != http.StatusBadGateway || a.Type != "/problems/delivery-failed" || a.Send.Status != "failed" || a.Send.Reason != "suppressed" || !a.Quota.Allowed {
			t.Errorf("%d %s", a.status, a.raw)
		}
		if err := conforms(s.specificationOf(i), http.MethodPost, "/v1/verifications", a); err != nil {
			t.Error(err)
		}
	}
	s.flush()
	a := s.ask(1, ana)
	if a.status != http.StatusAccepted {
		t.Fatalf("%d %s", a.status, a.raw)
	}
	s.await("the failure to be read", func() bool {
		got := s.do(0, http.MethodGet, "/v1/verifications/"+a.ID, "")
		return got.Send.Status == "failed" && got.Send.Reason == "suppressed"
	})
	if n := s.named(ana); n != 1 {
		t.Errorf("the mail server was told of the recipient %d times", n)
	}
	if b := s.wait(0, "bea@example.com"); b.status != http.StatusAccepted || b.Send.Status != "sent" {
		t.Errorf("another recipient: %d %s", b.status, b.raw)
	}
}

// A browser is told that it failed, as it is of any failure, and no reason (SEC-19).
func TestSec19BrowsersAreToldNoReason(t *testing.T) {
	t.Parallel()
	s := onRealParts(t).tenants()
	s.smtp.SetScript(smtptest.Script{TLS: smtptest.STARTTLS, Username: "sendcode", Password: "a password & more", Rules: []smtptest.Rule{
		{Stage: smtptest.Rcpt, To: ana, Reply: "550 5.1.1 no such user"}, {Stage: smtptest.Rcpt, To: "bea@example.com", Reply: "550 5.2.1 not now"},
	}})
	s.start(1)
	var seen [2]string
	for i, to := range []string{ana, "bea@example.com"} {
		for range 2 { // of ana's, the second is not even tried
			a := s.do(0, http.MethodPost, "/v1/verifications", `{"channel":"email","to":"`+to+`"}`, bearer(publicKey), origin(shop))
			if a.status != http.StatusAccepted {
				t.Fatalf("%d %s", a.status, a.raw)
			}
			s.await("a failure", func() bool {
				got := s.do(0, http.MethodGet, "/v1/verifications/"+a.ID, "", bearer(publicKey), origin(shop))
				seen[i] = strings.NewReplacer(a.ID, "ID", a.Send.ID, "SEND").Replace(string(got.raw))
				return got.Send.Status == "failed"
			})
		}
		if strings.Contains(seen[i], "reason") || strings.Contains(seen[i], "suppressed") {
			t.Errorf("a browser reads %s", seen[i])
		}
	}
}

// An operator stops mail in the file, and lets it go on, without a restart; the record has all that was asked for meanwhile.
func TestPausedByTheFile(t *testing.T) {
	t.Parallel()
	const rules = "policies:\n  default:\n" + roomy
	s := embedded(t).policy(roomy).watching().start(1)
	s.write(rules + "paused: [{channel: email, reason: the server moves}]\n")
	s.hangup(0, "applied")
	for range 2 {
		if a := s.wait(0, ana); a.status != http.StatusBadGateway || a.Send.Reason != "paused" || !a.Quota.Allowed {
			t.Fatalf("%d %s", a.status, a.raw)
		}
	}
	s.write(rules)
	s.hangup(0, "applied")
	if a := s.wait(0, ana); a.status != http.StatusAccepted || a.Send.Status != "sent" {
		t.Errorf("%d %s", a.status, a.raw)
	}
	if n := len(s.mails()); n != 1 {
		t.Errorf("%d mails", n)
	}
	states := map[string]int{}
	for _, row := range s.history() {
		states[string(row.Status)+" "+row.Reason]++
	}
	if states["failed paused"] != 2 || states["sent "] != 1 {
		t.Errorf("%v", states)
	}
}
