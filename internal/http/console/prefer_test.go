package console

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"sendcode/internal/http/console/explain"
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
func TestLayoutNamesTheReader(t *testing.T) {
	r := newRig(t)
	contains(t, r.As("operator").Get("/admin"), `the-operator · operator</a>`)
	contains(t, r.LoggedIn().Get("/admin/acts"), `admin · owner</a>`, `<summary class="here">More</summary>`)
	lacks(t, r.Browser().Get("/admin/login"), "<nav", "data-zone")
	b := r.LoggedIn()
	b.Post("/admin/prefer", url.Values{"zone": {"Asia/Kolkata"}})
	contains(t, b.Get("/admin"), `data-zone>UTC&#43;5:30</span>`, `data-times="Asia/Kolkata"`)
}

// Times are in the browser's present zone, unless the reader chose another zone.
func TestTheZoneFollowsTheBrowser(t *testing.T) {
	_, b := loggedIn(t)
	in := func(own, want string) {
		t.Helper()
		b.Cookies["own"] = &http.Cookie{Name: "sendcode_browser_zone", Value: url.QueryEscape(own)}
		contains(t, b.Get("/admin"), `data-times="`+want+`"`)
	}
	in("Europe/Berlin", "Europe/Berlin")
	in("America/New_York", "America/New_York")
	in("Nowhere/Else", "UTC")
	// An older version stored the browser's zone as if the reader had chosen it.
	b.Cookies["older"] = &http.Cookie{Name: "sendcode_zone", Value: "Europe/Berlin"}
	for _, own := range []string{"America/New_York", "Asia/Kathmandu", "America/Argentina/Buenos_Aires", "Pacific/Chatham"} {
		in(own, own)
	}
	b.Post("/admin/prefer", url.Values{"zone": {"UTC"}})
	in("America/New_York", "UTC")
	rec := b.Post("/admin/prefer", url.Values{"zone": {"America/New_York"}})
	if kept := rec.Result().Cookies(); len(kept) != 1 || kept[0].MaxAge >= 0 {
		t.Errorf("the browser's own zone is kept as a choice: %v", kept)
	}
	// After the choice of local time, times follow the browser's zone again.
	b.Post("/admin/prefer", url.Values{"zone": {"UTC"}})
	in("Asia/Tokyo", "UTC")
	contains(t, b.Get("/admin"), `<button class="quiet" name="zone" value="local" data-local hidden>`)
	b.Post("/admin/prefer", url.Values{"zone": {"local"}})
	in("Asia/Tokyo", "Asia/Tokyo")
	in("Europe/Lisbon", "Europe/Lisbon")
}

// A login after the end of a session leads back to the filtered list, even from its export and from
// a choice of filters. No address contains a text that may name a person.
func TestALoginKeepsTheFilters(t *testing.T) {
	r := newRig(t)
	b := r.Browser()
	html := []string{"Accept", "text/html"}
	redirects(t, b.Get("/v1/admin/sends.csv?status=failed&separator=semicolon", html...), "/admin/login?next="+url.QueryEscape("/admin?status=failed"))
	redirects(t, b.Get("/admin?status=failed"), "/admin/login?next="+url.QueryEscape("/admin?status=failed"))
	redirects(t, b.Post("/admin/filter", url.Values{"status": {"failed"}, "app": {""}, "purpose": {"ana@example.com"}, "carrier": {"4915112345678"}}),
		"/admin/login?next="+url.QueryEscape("/admin?status=failed"))
	redirects(t, b.Post("/admin/search", url.Values{"q": {"ana@example.com"}}), "/admin/login")
	page := explain.SendPageAddress(r.writeSent("ana@example.com").ID)
	redirects(t, b.Post(page+"/export", because("ticket 7")), "/admin/login?next="+url.QueryEscape(page+"?do=export"))
	redirects(t, b.Post("/admin/suppressions/lift?state=all", because("ticket 7")), "/admin/login?next="+url.QueryEscape("/admin/suppressions?state=all"))
	for filter, kept := range map[string]string{
		"reference=order-77110": "reference=order-77110", "request=0198f2b0-0000-7000-8000-000000000000": "request=0198f2b0-0000-7000-8000-000000000000",
		"network=198.51.100.0%2F24": "network=198.51.100.0%2F24", "from=2026-03-04T14%3A00": "from=2026-03-04T14%3A00",
		"recipient=" + strings.Repeat("0", 32): "recipient=" + strings.Repeat("0", 32), "country=001": "country=001",
		"reference=%2B49+151+23456789": "", "reference=0151+2345678": "", "purpose=ana+%28at%29+example.com": "", "carrier=ana%EF%BC%A0example.com": "",
		"reference=4915123456789": "", "domain=%2849%29+151.234.567": "",
	} {
		form, err := url.ParseQuery(filter)
		r.Must(err)
		to := "/admin/login"
		if kept != "" {
			to += "?next=" + url.QueryEscape("/admin?"+kept)
		}
		redirects(t, b.Post("/admin/filter", form), to)
	}
}
