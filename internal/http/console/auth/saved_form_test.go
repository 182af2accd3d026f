package auth

import (
	"io/fs"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sendcode/internal/http/console/consoletest"
	"sendcode/internal/kit/servertest"
	"sendcode/internal/store"
	"sendcode/web"
)

// A form comes back after a login with a password and a second factor, and after one by the provider.
func TestSavedFormAfterEachLogin(t *testing.T) {
	const page, to = "/admin/accounts", "/admin/login?next=%2Fadmin%2Faccounts"
	post := func(t *testing.T, b *consoletest.Browser) {
		t.Helper()
		form := account("add", "bea", "operator", "ticket 7")
		form.Set("token", consoletest.Between(t, want(t, b.Get(page), http.StatusOK).Body.String(), `name="token" value="`, `"`))
		want(t, b.Post("/admin/logout", url.Values{}), http.StatusSeeOther)
		redirects(t, b.Post(page, form), to)
	}
	t.Run("second factor", func(t *testing.T) {
		r := newRig(t)
		b := r.LoggedIn()
		d := r.setUp(b, consoletest.Password)
		post(t, b)
		redirects(t, b.Post("/admin/login", url.Values{"password": {consoletest.Password}, "next": {page}}), page)
		redirects(t, b.Get(page), "/admin/login/code?next=%2Fadmin%2Faccounts")
		redirects(t, b.Post(codePath, url.Values{"code": {d.Next()}, "next": {page}}), page)
		contains(t, b.Get(page), "Your session had ended", `value="bea"`, `value="ticket 7"`)
	})
	t.Run("provider", func(t *testing.T) {
		r, server := besideProvider(t)
		r.PutAccount(store.Account{Name: "ana", Role: "owner", Identity: "ana@example.org"})
		consoletest.Is(server, "ana@example.org")
		b := r.Browser()
		consoletest.LeadsTo(t, b.ByProvider(page))
		post(t, b)
		servertest.Same(t, "leads to", consoletest.LeadsTo(t, b.ByProvider(page)), page)
		contains(t, b.Get(page), "Your session had ended", `value="bea"`, `value="ticket 7"`)
	})
}

// Of a form the known fields alone are kept. Each form of an account has its token, but those with a password, a code or nothing to keep.
func TestKeepForm(t *testing.T) {
	r := newRig(t)
	b := r.Browser()
	token, err := seal(r.auth, formTokenSealLabel, nil, configuredAccount.Name, formTokenLife)
	r.Must(err)
	want(t, b.Post("/admin/search", url.Values{
		"q": {"order 7"}, "password": {"x"}, "code": {"123456"}, "kept": {"x"}, "sure": {"yes"},
		"token": {token},
	}), http.StatusSeeOther)
	kept, ok := unseal[savedForm](r.auth, savedFormSealLabel, []byte(configuredAccount.Name), b.Cookies[savedFormCookie].Value)
	servertest.Same(t, "kept", ok && len(kept.Fields) == 1 && kept.Fields.Get("q") == "order 7" && kept.Page == "/admin", true)

	without := []string{"/admin/login", "/admin/login/code", "/admin/logout", "/admin/prefer", "/admin/oidc/start", "/admin/factor", "/admin/sessions"}
	files, err := fs.Glob(web.FS, "admin/*.html")
	r.Must(err)
	forms := 0
	for _, name := range files {
		body, err := fs.ReadFile(web.FS, name)
		r.Must(err)
		for _, form := range regexp.MustCompile(`(?s)<form [^>]*method="post" action="([^"]*).*?</form>`).FindAllStringSubmatch(string(body), -1) {
			forms++
			if strings.Contains(form[0], `{{template "token" $}}`) == slices.Contains(without, form[1]) {
				t.Errorf("%s: %s", name, form[0])
			}
			for _, field := range regexp.MustCompile(` name="([a-z]+)"`).FindAllStringSubmatch(form[0], -1) {
				if !slices.Contains(append(savedFields, "sure"), field[1]) && !slices.Contains(without, form[1]) {
					t.Errorf("%s: %s is not kept", form[1], field[1])
				}
			}
		}
	}
	if forms < len(without)+10 {
		t.Errorf("%d forms", forms)
	}
}
