package verification_test

import (
	"cmp"
	"strings"
	"testing"

	"sendcode/internal/base/message"
	"sendcode/internal/verify/verification"
	vtest "sendcode/internal/verify/verification/verificationtest"
)

// Channels returns an error for a purpose that is not configured. A widget calls it when it starts,
// so it learns of the mistake before a person types anything.
func TestChannelsOfAnUnknownPurpose(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		for _, known := range []string{"", "default"} {
			if offers, err := r.Svc.Channels(known); err != nil || len(offers) == 0 {
				t.Errorf("%q: %v, %v", known, offers, err)
			}
		}
		_, err := r.Svc.Channels("nothing")
		r.WantInvalid(err, "purpose", "unknown")
	})
}

// The mail and the answer say what a code is for, in the language of the request.
func TestTitleOfAPurposeInMailAndAnswer(t *testing.T) {
	titled := func(s *vtest.Settings) {
		p := s.Purposes["default"]
		p.Titles = message.NewPurposeTitles(map[string]string{"en": "to sign in", "es": "para entrar"})
		s.Purposes["default"] = p
	}
	vtest.InBubbleWith(t, titled, func(r *vtest.Rig) {
		for i, c := range []struct{ locale, title string }{{"es-MX", "para entrar"}, {"en", "to sign in"}, {"zh-CN", ""}} {
			ask := vtest.AskFor(vtest.NthAddress(i), func(a *verification.Request) { a.Locale = c.locale })
			v := r.Send(ask).View
			r.Want("the title in "+c.locale, r.Get(v.ID).PurposeTitle, c.title)
			mail, err := r.MailServer.Attempts()[i].WithTexts()
			r.NoError(err)
			first, _, _ := strings.Cut(mail.Text, "\n")
			r.Want("the first line says so: "+first, strings.Contains(first, cmp.Or(c.title, "您的“Shop”验证码")), true)
		}
	})
}
