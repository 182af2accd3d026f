package console

import (
	"html"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"sendcode/internal/http/console/explain"
	"sendcode/internal/store"
)

// A form with a mistake is shown again with the mistake and the typed values, and nothing is done.
// Markup is shown as it was typed.
func TestAFormWithAMistakeIsShownAgain(t *testing.T) {
	r, b := loggedIn(t)
	forms := r.forms()
	done := r.RecordedActs()
	for path, form := range forms {
		if slices.Contains(needsNoReason, path) {
			continue
		}
		for why, problem := range map[string]string{
			"": "Say why", strings.Repeat("long", 500): "characters; this one has more",
			"ticket \u202e7":           "hide or reverse text",
			`<b>"ana@example.com"</b>`: "Leave names, addresses and numbers out of it",
		} {
			form.fields.Set("reason", why)
			rec := b.Post(path, form.fields)
			if rec.Code != http.StatusUnprocessableEntity {
				t.Errorf("%s with %.30q: %d", path, why, rec.Code)
				continue
			}
			contains(t, rec, append(form.shows, `role="alert"`, problem,
				`name="reason" value="`+html.EscapeString(strings.TrimSpace(why))+`"`)...)
			lacks(t, rec, "<b>&#34;ana", `<b>"ana`)
		}
	}
	r.WantActs(done...)
}

// pageForm is a form of a page: the fields that a browser sends, and the values that the page
// contains when the form is shown again.
type pageForm struct {
	page   string
	fields url.Values
	shows  []string
}

// forms returns the forms of actions and of the search, by the path to which they are sent. A key
// with a query is another form of the same path. The lists have rows with forms.
func (r *rig) forms() map[string]pageForm {
	r.Helper()
	sent := explain.SendPageAddress(r.writeSent("ana@example.com").ID)
	address := r.suppress("bo@example.com", "asked").String()
	pause := r.pausePrefix("+49151").ID.String()
	r.PutAccount(store.Account{Name: "mei", Role: "reader", Password: "x"})
	return map[string]pageForm{
		"/admin/suppressions": {
			"/admin/suppressions",
			url.Values{"channel": {"sms"}, "to": {"+4915112345678"}, "app": {"shop"}, "days": {"7"}},
			[]string{`<option value="sms" selected>`, `name="app" value="shop"`, `value="7"`},
		},
		// this form is in a row of a list with a filter
		"/admin/suppressions/lift?state=all": {
			"/admin/suppressions?state=all",
			url.Values{"channel": {"email"}, "address": {address}, "app": {""}},
			[]string{"<details open>"},
		},
		"/admin/prefixes/lift":     {"/admin/prefixes", url.Values{"id": {pause}}, []string{"<details open>"}},
		"/admin/acts/subscription": {"/admin/acts", url.Values{"provider": {"ses"}}, []string{"<details open>", "<option selected>ses"}},
		"/admin/accounts": {
			"/admin/accounts",
			url.Values{"do": {"add"}, "name": {"bea"}, "role": {"operator"}},
			[]string{`name="name" value="bea"`, `<option value="operator" selected>`},
		},
		"/admin/accounts?": {"/admin/accounts", url.Values{"do": {"role"}, "name": {"mei"}, "role": {"owner"}}, []string{
			"<details open>",
			`<select id="role-mei" name="role"><option value="reader">reader</option><option value="operator">operator</option><option value="owner" selected>`,
		}},
		sent + "/erase": {sent + "?do=erase", url.Values{"sure": {"yes"}}, []string{sent + "/erase"}},
		"/admin/search": {"/admin", url.Values{"q": {"bo@example.com"}}, []string{`value="bo@example.com"`}},
		"/admin/webhooks": {
			"/admin/webhooks",
			url.Values{"app": {"shop"}, "event": {"send.bounced"}},
			[]string{"<option selected>send.bounced"},
		},
		"/admin/messages": {"/admin/messages", url.Values{"app": {"shop"}, "purpose": {"login"}, "to": {"bo@example.com"}}, []string{
			`name="to" value="bo@example.com"`,
		}},
	}
}

// needsNoReason has the paths of forms without a field for a reason.
var needsNoReason = []string{"/admin/search", "/admin/webhooks", "/admin/messages"}
