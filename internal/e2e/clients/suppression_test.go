package clients

import (
	"net/http"
	"strings"
	"testing"

	"sendcode/internal/app/apptest"
	"sendcode/internal/delivery/smtptest"
)

// A mailbox that does not exist is spoken of to the mail server once. A later request, at whatever replica, after whatever
// Redis forgets, is told that it failed; a back end is told why.
func TestMail16SuppressedEverywhere(t *testing.T) {
	t.Parallel()
	s := apptest.OnRealParts(t).Tenants()
	s.SMTP.SetScript(smtptest.Script{TLS: smtptest.STARTTLS, Username: "sendcode", Password: "a password & more", Rules: []smtptest.Rule{
		{Stage: smtptest.Rcpt, To: apptest.Ana, Reply: "550 5.1.1 no such user " + apptest.Ana},
	}})
	s.Start(2)
	if a := s.Wait(0, apptest.Ana); a.StatusCode != http.StatusBadGateway || a.Send.Reason != "rejected" {
		t.Fatalf("%d %s", a.StatusCode, a.Raw)
	}
	for i := range 2 {
		a := s.Wait(i, apptest.Ana)
		if a.StatusCode != http.StatusBadGateway || a.Type != "/problems/delivery-failed" || a.Send.Status != "failed" || a.Send.Reason != "suppressed" || !a.Quota.Allowed {
			t.Errorf("%d %s", a.StatusCode, a.Raw)
		}
		if err := apptest.Conforms(s.SpecificationOf(i), http.MethodPost, "/v1/verifications", a); err != nil {
			t.Error(err)
		}
	}
	s.Flush()
	a := s.Ask(1, apptest.Ana)
	if a.StatusCode != http.StatusAccepted {
		t.Fatalf("%d %s", a.StatusCode, a.Raw)
	}
	s.Await("the failure to be read", func() bool {
		got := s.Do(0, http.MethodGet, "/v1/verifications/"+a.ID, "")
		return got.Send.Status == "failed" && got.Send.Reason == "suppressed"
	})
	if n := s.Named(apptest.Ana); n != 1 {
		t.Errorf("the mail server was told of the recipient %d times", n)
	}
	if b := s.Wait(0, "bea@example.com"); b.StatusCode != http.StatusAccepted || b.Send.Status != "sent" {
		t.Errorf("another recipient: %d %s", b.StatusCode, b.Raw)
	}
}

// A browser is told that it failed, as it is of any failure, and no reason (SEC-19).
func TestSec19BrowsersAreToldNoReason(t *testing.T) {
	t.Parallel()
	s := apptest.OnRealParts(t).Tenants()
	s.SMTP.SetScript(smtptest.Script{TLS: smtptest.STARTTLS, Username: "sendcode", Password: "a password & more", Rules: []smtptest.Rule{
		{Stage: smtptest.Rcpt, To: apptest.Ana, Reply: "550 5.1.1 no such user"}, {Stage: smtptest.Rcpt, To: "bea@example.com", Reply: "550 5.2.1 not now"},
	}})
	s.Start(1)
	var seen [2]string
	for i, to := range []string{apptest.Ana, "bea@example.com"} {
		for range 2 { // of ana's, the second is not even tried
			a := s.Do(0, http.MethodPost, "/v1/verifications", `{"channel":"email","to":"`+to+`"}`, apptest.Bearer(apptest.PublicKey), origin(shop))
			if a.StatusCode != http.StatusAccepted {
				t.Fatalf("%d %s", a.StatusCode, a.Raw)
			}
			s.Await("a failure", func() bool {
				got := s.Do(0, http.MethodGet, "/v1/verifications/"+a.ID, "", apptest.Bearer(apptest.PublicKey), origin(shop))
				seen[i] = strings.NewReplacer(a.ID, "ID", a.Send.ID, "SEND").Replace(string(got.Raw))
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
	const rules = "policies:\n  default:\n" + apptest.Roomy
	s := apptest.Embedded(t).Policy(apptest.Roomy).Watching().Start(1)
	s.Write(rules + "paused: [{channel: email, reason: the server moves}]\n")
	s.Hangup(0, "applied")
	for range 2 {
		if a := s.Wait(0, apptest.Ana); a.StatusCode != http.StatusBadGateway || a.Send.Reason != "paused" || !a.Quota.Allowed {
			t.Fatalf("%d %s", a.StatusCode, a.Raw)
		}
	}
	s.Write(rules)
	s.Hangup(0, "applied")
	if a := s.Wait(0, apptest.Ana); a.StatusCode != http.StatusAccepted || a.Send.Status != "sent" {
		t.Errorf("%d %s", a.StatusCode, a.Raw)
	}
	if n := len(s.Mails()); n != 1 {
		t.Errorf("%d mails", n)
	}
	states := map[string]int{}
	for _, row := range s.History() {
		states[string(row.Status)+" "+row.Reason]++
	}
	if states["failed paused"] != 2 || states["sent "] != 1 {
		t.Errorf("%v", states)
	}
}
