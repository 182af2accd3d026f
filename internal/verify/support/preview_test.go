package support_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sendcode/internal/base/message"
	"sendcode/internal/base/recipient"
	"sendcode/internal/codes/code"
	"sendcode/internal/deliver/delivery"
	"sendcode/internal/store"
	"sendcode/internal/verify/support"
	"sendcode/internal/verify/verification"
	vtest "sendcode/internal/verify/verification/verificationtest"
)

// Samples are what the templates make, in every language and on every channel, with a code of the
// purpose's own kind.
func TestSamples(t *testing.T) {
	r := vtest.NewRig(t, func(s *vtest.Settings) {
		p := s.Set.Purposes["login"]
		p.Alphabet, p.CodeLength, p.Notify, p.TTL = code.Unambiguous, 8, message.NotifyGlance, store.MaxCodeLife
		s.Set.Purposes["login"] = p
	})
	apps, purposes := r.Svc.Administration.AppsAndPurposes()
	r.WantLine("apps and purposes", "[shop] [default login]", apps, purposes)
	for purpose, code := range map[string]string{"default": "482913", "login": "BKVXRTNZ"} {
		all, err := r.Svc.Administration.SampleMessages("shop", purpose)
		r.NoError(err)
		var seen []string
		for _, s := range all {
			seen = append(seen, vtest.Line(s.Channel, s.Locale))
			mail, life := s.Channel == recipient.Email, "10"
			if mail && purpose == "login" {
				life = "24"
			}
			for _, part := range []string{code, "Shop", life} {
				r.Want(part+" in "+s.Text, strings.Contains(s.Text, part), true)
			}
			r.WantLine("subject, reference in the HTML, segments", vtest.Line(mail, mail, !mail), s.Subject != "",
				strings.Contains(s.HTML, "S-7K3M-Q2XP"), s.Segments > 0)
			r.Want("code in the subject", strings.Contains(s.Subject, code), mail && purpose == "login")
		}
		for _, want := range []string{"email en", "email zh-Hans", "sms en", "sms zh-Hans"} {
			r.Want(purpose+" has "+want, slices.Contains(seen, want), true)
		}
	}
}

// A trial is a send like any other, in the database and under the rules; it is recorded, whatever
// comes of it, and takes nothing from a code that a person waits for.
func TestTrial(t *testing.T) {
	const ben = "ben@example.com"
	vtest.InBubble(t, func(r *vtest.Rig) {
		pending := r.SendTo(ben).View.ID
		trial := support.PreviewRequest{
			App: "shop", Channel: "email", To: vtest.Ana, Purpose: "login", Locale: "zh-CN",
			From: netip.MustParseAddr("192.0.2.1"),
		}
		try := func(what string, admitted bool) verification.View {
			a, err := r.Svc.Administration.SendPreview(r.Context(), trial, vtest.AuditEntry("try"))
			r.NoError(err)
			r.WantLine(what, vtest.Line(admitted, false), a.Admitted, a.View.ID == pending)
			return a.View
		}
		first := try("the first", true)
		r.WantLine("reference and purpose", "preview login", first.Reference, first.Purpose)
		try("again", false)
		trial.To = ben
		try("with a person whose code is pending", false)
		r.Sleep(61 * time.Second)
		trial.Purpose = "default"
		try("a minute later, of the same purpose", true)
		trial.App = ""
		r.WantInvalid(vtest.Err(r.Svc.Administration.SendPreview(r.Context(), trial, vtest.AuditEntry("try"))), "app", "unknown")
		r.Want("acts", strings.ReplaceAll(r.Actions(), "•••@example.com", ""),
			"try begun a; try done a; try begun a; try failed minute a; try begun b; try failed minute b; try begun b; try done b")
		synctest.Wait()
		mails := r.MailServer.Attempts()
		inChinese := slices.ContainsFunc(mails, func(m delivery.Mail) bool {
			return m.To == vtest.Ana && strings.Contains(m.Text, "验证码")
		})
		r.WantLine("mails, one in Chinese", "3 true", len(mails), inChinese)
	})
}
