package console

import (
	"net/url"
	"strings"
	"testing"
)

func TestLanguageIsTheReadersChoice(t *testing.T) {
	_, b := loggedIn(t)
	rec := b.Post("/admin/prefer", url.Values{"language": {"zh-Hans"}, "back": {"/admin/overview?last=7d"}})
	redirects(t, rec, "/admin/overview?last=7d")
	contains(t, b.Get("/admin/overview", "Accept-Language", "en"), `<html lang="zh-Hans"`, "概览", `lang="en">English</button>`)
	for _, back := range []string{
		"", "https://evil.example/admin", "//evil.example/admin/", `/\\evil.example/admin`,
		"/admin\\..//x", "/administrator", "javascript:/admin",
	} {
		rec := b.Post("/admin/prefer", url.Values{"language": {"xx"}, "zone": {"../etc/passwd"}, "back": {back}})
		if at := rec.Header().Get("Location"); at != "/admin" || len(rec.Result().Cookies()) != 0 {
			t.Errorf("%q leads to %q, with %v", back, at, rec.Result().Cookies())
		}
	}
	for _, zone := range []string{"Local", "Nowhere/Else", strings.Repeat("x", 300)} {
		if rec := b.Post("/admin/prefer", url.Values{"zone": {zone}}); len(rec.Result().Cookies()) != 0 {
			t.Errorf("%q is kept", zone)
		}
	}
}

// The layout shows the name of the account that is logged in, its role and its zone.
func TestFrameNamesTheReader(t *testing.T) {
	r := newRig(t)
	contains(t, r.As("operator").Get("/admin"), `the-operator · operator</a>`)
	contains(t, r.LoggedIn().Get("/admin/acts"), `admin · owner</a>`, `<summary class="here">More</summary>`)
	lacks(t, r.Browser().Get("/admin/login"), "<nav", "data-zone")
	b := r.LoggedIn()
	b.Post("/admin/prefer", url.Values{"zone": {"Asia/Kolkata"}})
	contains(t, b.Get("/admin"), `data-zone>UTC&#43;5:30</span>`, `data-times="Asia/Kolkata"`)
}
