package support_test

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sendcode/internal/code"
	"sendcode/internal/delivery"
	"sendcode/internal/message"
	"sendcode/internal/recipient"
	"sendcode/internal/support"
	"sendcode/internal/verification"
	vtest "sendcode/internal/verification/verificationtest"
)

// Samples are what the templates make, in every language and on every channel, with a code of the purpose's own kind.
func TestSamples(t *testing.T) {
	r := vtest.NewRig(t, func(s *vtest.Settings) {
		p := s.Set.Purposes["login"]
		p.Alphabet, p.CodeLength, p.Notify = code.Unambiguous, 8, message.Glance
		s.Set.Purposes["login"] = p
	})
	apps, purposes := r.Svc.Desk.Previewable()
	if strings.Join(apps, ",") != "shop" || strings.Join(purposes, ",") != "default,login" {
		t.Errorf("%v, %v", apps, purposes)
	}
	for purpose, code := range map[string]string{"default": "482913", "login": "BKVXRTNZ"} {
		all, err := r.Svc.Desk.Samples("shop", purpose)
		if err != nil {
			t.Fatal(err)
		}
		seen := map[string]bool{}
		for _, s := range all {
			seen[string(s.Channel)+" "+s.Locale] = true
			if !strings.Contains(s.Text, code) || !strings.Contains(s.Text, "Shop") || !strings.Contains(s.Text, "10") {
				t.Errorf("%s: %+v", purpose, s)
			}
			mail := s.Channel == recipient.Email
			if mail != (s.Subject != "") || mail != strings.Contains(s.HTML, "S-7K3M-Q2XP") || mail == (s.Segments > 0) {
				t.Errorf("%s: %+v", purpose, s)
			}
			if mail && strings.Contains(s.Subject, code) != (purpose == "login") {
				t.Errorf("%s: the subject is %q", purpose, s.Subject)
			}
		}
		for _, want := range []string{"email en", "email zh-Hans", "sms en", "sms zh-Hans"} {
			if !seen[want] {
				t.Errorf("%s: no sample of %s", purpose, want)
			}
		}
	}
}

// A trial is a send like any other, in the log and under the rules; it is recorded, whatever comes of it, and takes nothing
// from a code that a person waits for.
func TestTry(t *testing.T) {
	const ben = "ben@example.com"
	vtest.InBubble(t, func(r *vtest.Rig) {
		pending := r.SendTo(ben)
		trial := support.Trial{App: "shop", Channel: "email", To: vtest.Ana, Purpose: "login", Locale: "zh-CN", From: netip.MustParseAddr("192.0.2.1")}
		try := func() (verification.Answer, error) {
			return r.Svc.Desk.Try(r.Context(), trial, vtest.AuditEntry("try"))
		}
		first, err := try()
		if err != nil || !first.Admitted || first.View.Reference != "preview" || first.View.Purpose != "login" {
			t.Fatalf("%+v, %v", first, err)
		}
		if again, err := try(); err != nil || again.Admitted {
			t.Errorf("%+v, %v", again, err)
		}
		trial.To = ben
		if other, err := try(); err != nil || other.Admitted || other.View.ID == pending.View.ID {
			t.Errorf("a trial with a person whose code is pending: %+v, %v", other, err)
		}
		r.Sleep(61 * time.Second)
		trial.Purpose = "default"
		if other, err := try(); err != nil || !other.Admitted || other.View.ID == pending.View.ID {
			t.Errorf("a trial is a resend of what a person waits for: %+v, %v", other, err)
		}
		trial.App = ""
		var invalid *verification.InvalidError
		if _, err := try(); !errors.As(err, &invalid) {
			t.Error(err)
		}
		if got := r.Actions(); got != "try begun a•••@example.com; try done a•••@example.com; try begun a•••@example.com; try failed minute a•••@example.com; "+
			"try begun b•••@example.com; try failed minute b•••@example.com; try begun b•••@example.com; try done b•••@example.com" {
			t.Errorf("the acts are %s", got)
		}
		synctest.Wait()
		mails := r.MailServer.Attempts()
		inChinese := slices.ContainsFunc(mails, func(m delivery.Message) bool {
			return m.To == vtest.Ana && strings.Contains(m.Text, "验证码")
		})
		if len(mails) != 3 || !inChinese {
			t.Errorf("%d mails", len(mails))
		}
	})
}
