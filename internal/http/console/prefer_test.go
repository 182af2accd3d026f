package console

import (
	"net/url"
	"strings"
	"testing"
	"time"
)

// One zone holds for all times of a page: rows, the verdict, the bounds of filters, the chart's
// hours and days, and the name of the zone.
func TestOneZoneEverywhere(t *testing.T) {
	r := counted(t) // its clock is at 16:00 UTC and a little
	b := r.LoggedIn()
	bound := "2026-03-05T23:30:00"
	b.Post("/admin/prefer", url.Values{"zone": {"Asia/Kolkata"}})
	list := b.Get("/admin?last=24h")
	contains(t, list, `data-zone>UTC&#43;5:30</span>`, `data-times="Asia/Kolkata"`, "From (UTC&#43;5:30)",
		r.Clock.Now().Add(5*time.Hour+30*time.Minute).Format("15:04"))
	lacks(t, list, "(UTC)")
	// A bound without a zone is in the reader's, and its address says so to everybody.
	to := b.Get("/admin?from=" + bound)
	redirects(t, to, "/admin?from=2026-03-05T18%3A00%3A00Z")
	contains(t, b.Get(to.Header().Get("Location")), `name="from" type="datetime-local" step="1" value="`+bound+`"`)
	contains(t, b.Get("/admin/overview"), "By hour, UTC&#43;5:30")
	b.Post("/admin/prefer", url.Values{"zone": {"Asia/Shanghai"}})
	days := b.Get("/admin/overview?last=7d")
	contains(t, days, "By day, UTC&#43;8", `<span class="date">2026-03-05 </span>00:00:00`)
	// Scripts hear UTC, whatever the browser prefers.
	contains(t, b.Get("/v1/admin/stats?last=7d"), `"at":"2026-03-05T00:00:00.000Z"`)
	b.Post("/admin/prefer", url.Values{"zone": {"UTC"}})
	contains(t, b.Get("/admin/overview?last=7d"), "By day, UTC<", `<span class="date">2026-03-05 </span>00:00:00`)
}

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

// The layout names the account that is logged in, and its role.
func TestFrameNamesTheReader(t *testing.T) {
	r := newRig(t)
	contains(t, r.As("operator").Get("/admin"), `the-operator · operator</a>`)
	contains(t, r.LoggedIn().Get("/admin/acts"), `admin · owner</a>`, `<summary class="here">More</summary>`)
	lacks(t, r.Browser().Get("/admin/login"), "<nav", "data-zone")
}
