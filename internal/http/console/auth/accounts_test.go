package auth

import (
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sendcode/internal/base/texts"
	"sendcode/internal/http/console/consoletest"
)

func account(do, name, role, reason string) url.Values {
	return url.Values{"do": {do}, "name": {name}, "role": {role}, "reason": {reason}}
}

func TestAccountsInTheConsole(t *testing.T) {
	r := newRig(t)
	owner := r.LoggedIn()
	contains(t, owner.Get("/admin/accounts"), "only the account of the settings")
	rec := want(t, owner.Post("/admin/accounts", account("add", "mei", "reader", "new colleague")), http.StatusOK)
	password := consoletest.Between(t, rec.Body.String(), `class="shown" id="made">`, "<")
	lacks(t, owner.Get("/admin/accounts"), password) // the password is shown only once

	mei := r.Browser()
	want(t, mei.LoginAs("mei", password+"x"), http.StatusUnauthorized)
	want(t, mei.LoginAs("Mei ", password), http.StatusSeeOther)
	want(t, mei.Get("/admin"), http.StatusOK)
	want(t, mei.Get("/admin/accounts"), http.StatusForbidden)
	want(t, mei.Post("/admin/accounts", account("role", "mei", "owner", "I want to")), http.StatusForbidden)

	want(t, owner.Post("/admin/accounts", account("role", "mei", "owner", "on call")), http.StatusOK)
	want(t, mei.Get("/admin/accounts"), http.StatusOK) // the new role takes effect at once
	rec = want(t, owner.Post("/admin/accounts", account("password", "mei", "", "lost it")), http.StatusOK)
	want(t, mei.Get("/admin"), http.StatusSeeOther) // sessions with the old password end
	want(t, mei.LoginAs("mei", password), http.StatusUnauthorized)
	password = consoletest.Between(t, rec.Body.String(), `class="shown" id="made">`, "<")
	want(t, mei.LoginAs("mei", password), http.StatusSeeOther)
	want(t, owner.Post("/admin/accounts", account("close", "mei", "", "left us")), http.StatusOK)
	want(t, mei.Get("/admin"), http.StatusSeeOther)
	want(t, mei.LoginAs("mei", password), http.StatusUnauthorized)
	contains(t, owner.Get("/admin/accounts"), "closed")
	want(t, owner.Post("/admin/accounts", account("open", "mei", "", "came back")), http.StatusOK)
	want(t, mei.LoginAs("mei", password), http.StatusSeeOther)

	r.WantActs(
		consoletest.Act{Who: "admin", What: "account.add", Outcome: "done", Detail: "reader", Reason: "new colleague"},
		consoletest.Act{Who: "admin", What: "account.role", Outcome: "done", Detail: "owner", Reason: "on call"},
		consoletest.Act{Who: "admin", What: "account.password", Outcome: "done", Detail: "owner", Reason: "lost it"},
		consoletest.Act{Who: "admin", What: "account.close", Outcome: "done", Detail: "owner", Reason: "left us"},
		consoletest.Act{Who: "admin", What: "account.open", Outcome: "done", Detail: "owner", Reason: "came back"})

	r.Unlogged(password)
}

func TestAccountFormMistakes(t *testing.T) {
	r := newRig(t)
	b := r.LoggedIn()
	want(t, b.Post("/admin/accounts", account("add", "mei", "reader", "x")), http.StatusOK)
	for _, form := range []url.Values{
		// the name is taken; the reason is missing; there is no such role
		account("add", "mei", "owner", "x"), account("add", "li", "owner", ""), account("add", "li", "root", "x"),
		// reserved names
		account("add", "admin", "owner", "x"), account("add", "token", "owner", "x"),
		account("add", "cli", "owner", "x"),
		// these are not names; there is no such account
		account("add", "", "owner", "x"), account("add", "Li Na", "owner", "x"), account("close", "li", "", "x"),
		// there is no such action; the reason names a person
		account("delete", "mei", "", "x"), account("add", "li", "owner", "for li@example.com"),
	} {
		contains(t, want(t, b.Post("/admin/accounts", form), http.StatusUnprocessableEntity), `role="alert"`)
	}
	r.Break("AddAccount")
	want(t, b.Post("/admin/accounts", account("add", "li", "owner", "x")), http.StatusServiceUnavailable)
	r.Store.SetFault(nil)
	r.WantActs(consoletest.Act{Who: "admin", What: "account.add", Outcome: "done", Detail: "reader", Reason: "x"})
}

// A login with an unknown name gets the same answer as a login with a wrong password.
func TestLoginTellsNothingOfAccounts(t *testing.T) {
	r := newRig(t)
	r.As("reader")
	b := r.Browser()
	wrongPassword, unknownName := b.LoginAs("the-reader", "x"), b.LoginAs("the-stranger", "x")
	want(t, wrongPassword, http.StatusUnauthorized)
	want(t, unknownName, http.StatusUnauthorized)
	plain := func(s, name string) string {
		return strings.ReplaceAll(strings.ReplaceAll(s, name, ""), "8 tries", "9 tries")
	}
	if a, b := plain(wrongPassword.Body.String(), "the-reader"), plain(unknownName.Body.String(), "the-stranger"); a != b {
		t.Errorf("the answers differ:\n%s\n%s", a, b)
	}
	want(t, b.LoginAs(strings.Repeat("x", 33), "x"), http.StatusUnprocessableEntity)
}

// Actions on accounts and logins have a text for the audit log. An action that no role allows is
// refused even to the owner.
func TestAuditLogHasWords(t *testing.T) {
	for _, action := range []string{
		"account.add", "account.role", "account.identity", "account.password", "account.factor", "account.close", "account.open",
		"factor.add", "factor.remove", "session.end", actionLoginPassword, actionLogin, ActionExport,
	} {
		if texts.ConsoleTextsFor("").Get("action."+action) == "" {
			t.Errorf("no word for %s", action)
		}
	}
	if configuredAccount.May("something new") {
		t.Error("what the table does not name is allowed")
	}
}

// If the accounts can't be listed after a change, the page still shows the new password, because no
// other page can. A change without a password fails as before.
func TestAccountsPageShowsThePasswordWithoutTheList(t *testing.T) {
	r := newRig(t)
	owner := r.LoggedIn()
	r.Break("Accounts")
	rec := want(t, owner.Post("/admin/accounts", account("add", "mei", "reader", "new colleague")), http.StatusOK)
	if !strings.Contains(rec.Body.String(), `id="made">`) {
		t.Errorf("the page lacks the password: %s", rec.Body)
	}
	want(t, owner.Post("/admin/accounts", account("role", "mei", "owner", "on call")), http.StatusServiceUnavailable)
}

// The audit log can be filtered by each action of accounts, factors, sessions and logins.
func TestRecordedActionsHaveAllTexts(t *testing.T) {
	file, err := os.ReadFile("../../../base/texts/en.json")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`"action\.((?:account|factor|session|login)(?:\.[a-z]+)?)":`).FindAllSubmatch(file, -1)
	if len(found) < 12 {
		t.Errorf("found %d actions", len(found))
	}
	for _, action := range found {
		if !slices.Contains(RecordedActions(), string(action[1])) {
			t.Errorf("%s is missing", action[1])
		}
	}
}
