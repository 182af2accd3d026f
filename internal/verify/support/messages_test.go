package support_test

import (
	"fmt"
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
	type kind struct {
		channel  recipient.Channel
		language string
	}
	var wanted []kind
	for _, channel := range []recipient.Channel{recipient.Email, recipient.SMS} {
		for _, language := range []string{"en", "ar", "es", "zh-Hans"} {
			wanted = append(wanted, kind{channel, language})
		}
	}
	for _, purpose := range []string{"default", "login"} {
		all, err := r.Svc.Administration.Messages("shop", purpose)
		r.NoError(err)
		if len(all) != len(wanted) {
			t.Fatalf("%d messages, want %d", len(all), len(wanted))
		}
		for i, m := range all {
			vtest.Equal(r, fmt.Sprint("message ", i), kind{m.Channel, m.Language}, wanted[i])
			mail, whole := m.Channel == recipient.Email, m.Subject+m.Text+m.HTML
			vtest.Equal(r, "dots in "+whole, strings.Contains(m.Text, "••• •••"), true)
			vtest.Equal(r, "the app in "+whole, strings.Contains(m.Text, "Shop"), true)
			vtest.Equal(r, "a subject in "+whole, m.Subject != "", mail)
			vtest.Equal(r, "HTML of "+whole, m.HTML != "", mail)
			vtest.Equal(r, "segments of "+whole, m.Segments > 0, !mail)
			r.Want("dots in the subject", strings.Contains(m.Subject, "••• •••"), mail && purpose == "login")
			r.Want("a code in "+whole, strings.Contains(whole, message.SampleCode), false)
		}
	}
	r.WantInvalid(vtest.Err(r.Svc.Administration.Messages("other", "login")), "app", "unknown")
	r.WantInvalid(vtest.Err(r.Svc.Administration.Messages("shop", "other")), "purpose", "unknown")
}
