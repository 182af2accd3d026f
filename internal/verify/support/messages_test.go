package support_test

import (
	"strings"
	"testing"

	"sendcode/internal/base/message"
	"sendcode/internal/base/recipient"
	vtest "sendcode/internal/verify/verification/verificationtest"
)

// Messages returns the texts that the templates make for the app and the purpose, in every language
// and on every channel. None has a code.
func TestMessages(t *testing.T) {
	r := vtest.NewRig(t, func(s *vtest.Settings) {
		p := s.Set.Purposes["default"]
		p.Notify = message.NotifyPrivate
		s.Set.Purposes["default"] = p
	})
	for _, purpose := range []string{"default", "login"} {
		all, err := r.Svc.Administration.Messages("shop", purpose)
		r.NoError(err)
		var seen []string
		for _, m := range all {
			seen = append(seen, vtest.Line(m.Channel, m.Language))
			mail, whole := m.Channel == recipient.Email, m.Subject+m.Text+m.HTML
			vtest.Equal(r, "dots in "+whole, strings.Contains(m.Text, "••• •••"), true)
			vtest.Equal(r, "the app in "+whole, strings.Contains(m.Text, "Shop"), true)
			vtest.Equal(r, "a subject in "+whole, m.Subject != "", mail)
			vtest.Equal(r, "HTML of "+whole, m.HTML != "", mail)
			vtest.Equal(r, "segments of "+whole, m.Segments > 0, !mail)
			r.Want("dots in the subject", strings.Contains(m.Subject, "••• •••"), mail && purpose == "login")
			r.Want("a code in "+whole, strings.Contains(whole, message.SampleCode), false)
		}
		r.Want("messages", seen, []string{
			"email en", "email ar", "email es", "email zh-Hans", "sms en", "sms ar", "sms es", "sms zh-Hans",
		})
	}
	r.WantInvalid(vtest.Err(r.Svc.Administration.Messages("other", "login")), "app", "unknown")
	r.WantInvalid(vtest.Err(r.Svc.Administration.Messages("shop", "other")), "purpose", "unknown")
}
