package support_test

import (
	"strings"
	"testing"

	"sendcode/internal/base/message"
	"sendcode/internal/base/recipient"
	vtest "sendcode/internal/verify/verification/verificationtest"
)

// Messages are what the templates make for the app and the purpose, in every language and on every
// channel, and none has a code.
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
			r.WantLine("dots, app, subject, HTML, segments of "+whole, vtest.Line(true, true, mail, mail, !mail),
				strings.Contains(m.Text, "••• •••"), strings.Contains(m.Text, "Shop"), m.Subject != "", m.HTML != "", m.Segments > 0)
			r.Want("dots in the subject", strings.Contains(m.Subject, "••• •••"), mail && purpose == "login")
			r.Want("a code in "+whole, strings.Contains(whole, message.SampleCode), false)
		}
		r.WantLine("messages", "[email en email ar email es email zh-Hans sms en sms ar sms es sms zh-Hans]", seen)
	}
	r.WantInvalid(vtest.Err(r.Svc.Administration.Messages("other", "login")), "app", "unknown")
	r.WantInvalid(vtest.Err(r.Svc.Administration.Messages("shop", "other")), "purpose", "unknown")
}
