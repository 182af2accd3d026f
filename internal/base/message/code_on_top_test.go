package message

import (
	"fmt"
	"strings"
	"testing"

	"sendcode/internal/kit/servertest"
)

// maxColumns is the longest line of the text part that terminals and plain mail programs don't
// wrap.
const maxColumns = 80

// In every language and with every setting, the text part and the HTML part of a mail have one or
// two lines before the code, even with details. The warning and the reference come after the code,
// and the warning comes once.
func TestMailHasTheCodeInItsFirstLines(t *testing.T) {
	r := renderer(t)
	r.Site = "codes.example"
	detailed, resent, own, dayLong, branded := shop(), shop(), untitled(), shop(), shop()
	detailed.Details = "Pay 40.00 EUR to Shop 12"
	resent.Minutes = 1
	own.Code, own.Minutes, own.NotMe = "A1B2C3D4E5F6G7H8", 0, ""
	dayLong.Minutes, dayLong.Support = 24*60, ""
	branded.Home, branded.Details = "https://shop.example/", "Pay 40.00 EUR to Shop 12"
	for _, locale := range r.locales.All() {
		for purpose, purposeTitles := range titles {
			for name, data := range map[string]Data{
				"as usual": shop(), "with details": detailed, "sent again, a minute before its end": resent,
				"a caller's own code": own, "for a day": dayLong, "with a home page and details": branded,
			} {
				for _, notify := range []NotifyMode{NotifyPrivate, NotifyGlance} {
					data.Purpose = ""
					m := render(t, r, RenderRequest{Locale: locale, Notify: notify, Titles: purposeTitles, Data: data})
					for part, text := range map[string]string{"text": m.Text, "HTML": htmlText(m.HTML, false)} {
						name := fmt.Sprintf("%s, %s, %s, %s, %s", locale, notify, purpose, name, part)
						before, after, found := strings.Cut(text, "\n"+data.Code+"\n")
						lines := strings.FieldsFunc(before, func(r rune) bool { return r == '\n' })
						if !found || len(lines) == 0 || len(lines) > 2 {
							t.Errorf("%s: %d lines before the code:\n%s", name, len(lines), text)
						}
						for _, line := range lines {
							if part == "text" && data.Details == "" && inboxPreview(line, maxColumns) != line {
								t.Errorf("%s: a line before the code is longer than %d columns: %s", name, maxColumns, line)
							}
						}
						for _, words := range neverShare[locale] {
							if strings.Contains(before, words) || strings.Count(after, words) != 1 {
								t.Errorf("%s: %q does not stand once, behind the code:\n%s", name, words, text)
							}
						}
						if strings.Contains(before, data.Support) && data.Support != "" || !strings.HasPrefix(text, lines[0]) {
							t.Errorf("%s: the reference is before the code:\n%s", name, text)
						}
					}
				}
			}
		}
	}
}

// neverShare has the words of the warning in each language: those for a person who didn't ask for
// the code, and those against passing the code on.
var neverShare = map[string][2]string{
	"en":      {"request this?", "Never share this code"},
	"es":      {"¿No lo has pedido?", "No compartas"},
	"zh-Hans": {"不是您本人操作？", "要把验证码告诉任何人"},
	"ar":      {"لم تطلب هذا؟", "لا تشارك هذا الرمز"},
}

func TestEachLanguageHasWordsOfWarning(t *testing.T) {
	for _, locale := range renderer(t).locales.All() {
		servertest.Same(t, locale+" has words of warning in this test", neverShare[locale][0] != "" && neverShare[locale][1] != "", true)
	}
}
