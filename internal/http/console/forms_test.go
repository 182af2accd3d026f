package console

import (
	"html"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"sendcode/internal/http/console/auth"
	"sendcode/internal/http/console/explain"
	"sendcode/internal/kit/servertest"
	"sendcode/internal/store"
	"sendcode/internal/verify/support"
)

// A form with a mistake says which one it is, keeps what was typed, and nothing is done. Markup is
// shown as it was typed.
func TestAFormWithAMistakeIsShownAgain(t *testing.T) {
	r, b := loggedIn(t)
	sent := r.sent("ana@example.com")
	_, hash := r.recipient("bo@example.com")
	bo := support.SuppressRequest{Channel: "email", To: "bo@example.com", Reason: "asked"}
	r.Must(r.Svc.Desk.Suppress(r.Context(), bo, r.act(auth.ActionSuppress)))
	pause := r.pausedPrefix("+49151")
	r.PutAccount(store.Account{Name: "mei", Role: "reader", Password: "x"})
	done := r.Did()
	forms := map[string]url.Values{
		"/admin/suppressions": {"channel": {"email"}, "to": {"cy@example.com"}, "days": {"7"}, "app": {"shop"}},
		// the second row of a list that a filter and a page select
		"/admin/suppressions/lift?state=all":        {"channel": {"email"}, "address": {hash.String()}},
		"/admin/prefixes/lift?state=all":            {"id": {pause.ID.String()}},
		"/admin/acts/subscription":                  {"provider": {"ses"}},
		explain.SendPageAddress(sent.ID) + "/reset": {},
		explain.SendPageAddress(sent.ID) + "/erase": {"sure": {"yes"}},
		"/admin/accounts":                           {"do": {"add"}, "name": {"bea"}, "role": {"operator"}},
		"/admin/accounts?":                          {"do": {"role"}, "name": {"mei"}, "role": {"owner"}},
	}
	for path, form := range forms {
		for why, problem := range map[string]string{
			"": "Say why", strings.Repeat("long", 500): "characters; this one has more",
			"ticket \u202e7":           "hide or turn text",
			`<b>"ana@example.com"</b>`: "Leave names, addresses and numbers out of it",
		} {
			form.Set("reason", why)
			rec := b.Post(path, form)
			if rec.Code != http.StatusUnprocessableEntity {
				t.Errorf("%s with %.30q: %d", path, why, rec.Code)
				continue
			}
			contains(t, rec, `role="alert"`, problem,
				`name="reason" value="`+html.EscapeString(strings.TrimSpace(why))+`"`)
			lacks(t, rec, "<b>&#34;ana", `<b>"ana`)
			for _, name := range []string{"app", "days", "name"} {
				if typed := form.Get(name); typed != "" {
					contains(t, rec, `value="`+typed+`"`)
				}
			}
			if role := form.Get("role"); role != "" && form.Get("do") == "add" {
				contains(t, rec, `<option value="`+role+`" selected>`)
			}
			if strings.Contains(path, "lift") || strings.HasSuffix(path, "?") || strings.Contains(path, "acts") {
				contains(t, rec, "<details open>")
			}
		}
	}
	for field, mistakes := range map[string]map[string]string{
		"to": {"": "no address or number", "nobody": "no address or number", "x@": "no address or number"},
		"days": {"0": "From 1 to 366 days", "-3": "From 1 to 366 days", "367": "From 1 to 366 days",
			"1.5": "From 1 to 366 days"},
		"app": {"nope": "no such app"},
	} {
		for typed, problem := range mistakes {
			form := url.Values{"channel": {"email"}, "to": {"cy@example.com"}, "days": {"7"}, "reason": {"ticket 8"}}
			form.Set(field, typed)
			rec := want(t, b.Post("/admin/suppressions", form), http.StatusUnprocessableEntity)
			contains(t, rec, problem, `value="ticket 8"`)
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
