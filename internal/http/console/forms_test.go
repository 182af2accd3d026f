package console

import (
	"html"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"sendcode/internal/kit/servertest"
)

// A form with a mistake says which one it is, keeps what was typed, and nothing is done. Markup is
// shown as it was typed.
func TestAFormWithAMistakeIsShownAgain(t *testing.T) {
	r, b := loggedIn(t)
	forms := r.forms()
	done := r.Did()
	for path, form := range forms {
		if slices.Contains(needsNoReason, path) {
			continue
		}
		for why, problem := range map[string]string{
			"": "Say why", strings.Repeat("long", 500): "characters; this one has more",
			"ticket \u202e7":           "hide or turn text",
			`<b>"ana@example.com"</b>`: "Leave names, addresses and numbers out of it",
		} {
			form.fields.Set("reason", why)
			rec := b.Post(path, form.fields)
			if rec.Code != http.StatusUnprocessableEntity {
				t.Errorf("%s with %.30q: %d", path, why, rec.Code)
				continue
			}
			contains(t, rec, append(form.shows, `role="alert"`, problem, `name="reason" value="`+html.EscapeString(strings.TrimSpace(why))+`"`)...)
			lacks(t, rec, "<b>&#34;ana", `<b>"ana`)
		}
	}
	for field, mistakes := range map[string]map[string]string{
		"to":   {"": "no address or number", "nobody": "no address or number", "x@": "no address or number"},
		"days": {"0": "From 1 to 366 days", "-3": "From 1 to 366 days", "367": "From 1 to 366 days", "1.5": "From 1 to 366 days"},
		"app":  {"nope": "no such app"},
	} {
		for typed, problem := range mistakes {
			form := url.Values{"channel": {"email"}, "to": {"cy@example.com"}, "days": {"7"}, "reason": {"ticket 8"}}
			form.Set(field, typed)
			rec := want(t, b.Post("/admin/suppressions", form), http.StatusUnprocessableEntity)
			contains(t, rec, problem, `value="ticket 8"`)
			lacks(t, rec, "cy@example.com")
			if field != "to" { // no page holds a whole address
				contains(t, rec, `name="`+field+`"`, `value="`+typed+`"`)
			}
		}
	}
	sms := url.Values{"channel": {"sms"}, "to": {"4915112345678"}, "reason": {"ticket 8"}}
	contains(t, want(t, b.Post("/admin/suppressions", sms), http.StatusUnprocessableEntity), "no address or number",
		`<option value="sms" selected>`)
	servertest.Same(t, "what was done", r.Did(), done)
}
