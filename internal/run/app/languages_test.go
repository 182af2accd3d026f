package app

import (
	"strings"
	"testing"

	"sendcode/internal/base/message"
	"sendcode/internal/deliver/sms"
	"sendcode/internal/kit/servertest"
	"sendcode/templates"
)

// The price of a text message depends on its segments. Ours take one segment in every language,
// even with the longest code and a name of 24 letters, or with the name of a site.
func TestTextMessagesTakeOneSegment(t *testing.T) {
	r, err := message.NewTextRenderer(message.TextLimits{Segments: 1, Measure: sms.Segments}, templates.FS)
	servertest.OK(t, err)
	for title, site := range map[string]string{strings.Repeat("W", 24): "", "Shop": "shop.example"} {
		if err := r.CheckLength(message.Data{App: title}, site, 10); err != nil {
			t.Error(err)
		}
	}
}
