package auth

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"sendcode/internal/http/console/consoletest"
	"sendcode/internal/kit/servertest"
)

const (
	firefox = "Mozilla/5.0 (X11; Linux x86_64; rv:145.0) Gecko/20100101 Firefox/145.0"
	safari  = "Mozilla/5.0 (iPhone; CPU iPhone OS 18_6 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.6 Mobile/15E148 Safari/604.1"
)

var (
	sessionID  = regexp.MustCompile(`name="session" value="([0-9a-f]{64})"`)
	sessionRow = regexp.MustCompile(`(?s)<li><p id="s[0-9a-f]{64}">(.*?)</p>`)
	tags       = regexp.MustCompile(`<[^>]*>`)
)

// sessionsOn returns the texts and the IDs of the sessions that a browser's account sees.
func sessionsOn(b *consoletest.Browser) (rows, ids []string) {
	b.Helper()
	page := want(b.T, b.Get(factorPath), http.StatusOK).Body.String()
	for _, m := range sessionRow.FindAllStringSubmatch(page, -1) {
		rows = append(rows, strings.Join(strings.Fields(tags.ReplaceAllString(m[1], " ")), " "))
	}
	for _, m := range sessionID.FindAllStringSubmatch(page, -1) {
		ids = append(ids, m[1])
	}
	return rows, ids
}

// with logs in from an address, by a browser of this User-Agent.
func (r *rig) with(userAgent, address string) *consoletest.Browser {
	r.Helper()
	b := r.from(address)
	want(r.T, b.Post("/admin/login", url.Values{"password": {consoletest.Password}}, "User-Agent", userAgent), http.StatusSeeOther)
	return b
}

func end(b *consoletest.Browser, session string) int {
	b.Helper()
	rec := b.Post(sessionsPath, url.Values{"session": {session}})
	if rec.Code == http.StatusSeeOther {
		redirects(b.T, rec, "/admin/login")
		servertest.Same(b.T, "the cookie is gone", b.Cookies[sessionCookieName] == nil, true)
	}
	return rec.Code
}

func TestOwnSessions(t *testing.T) {
	r := newRig(t)
	reader := r.As("reader")
	desk := r.with(firefox, "198.51.100.77:1")
	r.Clock.Add(2 * time.Minute)
	phone := r.with(safari, "[2001:db8:1:2::9]:1")
	r.Clock.Add(2 * time.Minute)
	strange := r.with("curl/8.14.1", "203.0.113.9:1")
	r.Clock.Add(5 * time.Second)
	want(t, desk.Get("/admin"), http.StatusOK)

	rows, ids := sessionsOn(desk)
	servertest.Same(t, "rows", strings.Join(rows, "\n"), strings.Join([]string{
		"Firefox on Linux this one 198.51.100.0/24 · since 2026-03-04 14:02:20 · last used 2026-03-04 14:06:25",
		"Unknown browser 203.0.113.0/24 · since 2026-03-04 14:06:20 · last used 2026-03-04 14:06:20",
		"Safari on iOS 2001:db8:1::/48 · since 2026-03-04 14:04:20 · last used 2026-03-04 14:04:20",
	}, "\n"))
	lacks(t, desk.Get(factorPath), "198.51.100.77", "2001:db8:1:2", "203.0.113.9")
	rows, own := sessionsOn(reader)
	servertest.Same(t, "rows of a reader", len(rows), 1)

	// What is another account's or no session is not ended, and not recorded.
	servertest.Same(t, "another account's", end(reader, ids[0]), http.StatusOK)
	servertest.Same(t, "unknown", end(desk, strings.Repeat("ab", 32)), http.StatusOK)
	for _, malformed := range []string{"", "x", "ALL", ids[1][2:], ids[1] + "00", ids[1][:63] + "g"} {
		servertest.Same(t, malformed, end(desk, malformed), http.StatusUnprocessableEntity)
	}
	want(t, desk.Post(sessionsPath, url.Values{"session": {allSessionsValue}}, "Sec-Fetch-Site", "cross-site"), http.StatusForbidden)
	for _, b := range []*consoletest.Browser{desk, phone, strange} {
		want(t, b.Get("/admin"), http.StatusOK)
	}
	const added = "test|account.add|done|||"
	r.Acts(added)

	servertest.Same(t, "one", end(desk, ids[1]), http.StatusOK)
	want(t, strange.Get("/admin"), http.StatusSeeOther)
	want(t, phone.Get("/admin"), http.StatusOK)
	servertest.Same(t, "this one", end(phone, ids[2]), http.StatusSeeOther)
	again := r.with(firefox, "198.51.100.77:1")
	kept := *desk.Cookies[sessionCookieName]
	servertest.Same(t, "all", end(desk, allSessionsValue), http.StatusSeeOther)
	desk.Cookies[sessionCookieName] = &kept // a copy of it ends, too
	for _, b := range []*consoletest.Browser{desk, again} {
		redirects(t, b.Get("/admin"), "/admin/login")
	}
	servertest.Same(t, "all of a reader", end(reader, own[0]), http.StatusSeeOther)
	const did = "admin|session.end|done|"
	r.Acts(added, did+"1||", did+"1||", did+"2||", "the-reader|session.end|done|1||")
	servertest.Same(t, "target", r.Entries("session.end")[1].Target, "admin")
}

// Sessions by the provider are listed and ended as others are, also those of a person without an
// account.
func TestOwnSessionsByTheProvider(t *testing.T) {
	r, server := besideProvider(t)
	consoletest.Is(server, "bo", "support")
	bo, elsewhere := r.from("192.0.2.1:1"), r.from("198.51.100.1:1")
	for _, b := range []*consoletest.Browser{bo, elsewhere} {
		consoletest.LeadsTo(t, b.ByProvider(""))
	}
	r.LoggedIn()
	rows, _ := sessionsOn(bo)
	if len(rows) != 2 || !strings.Contains(rows[0], "· by the provider · since") {
		t.Errorf("%q", rows)
	}
	servertest.Same(t, "all", end(bo, allSessionsValue), http.StatusSeeOther)
	want(t, elsewhere.Get("/admin"), http.StatusSeeOther)
	r.Acts("oidc:bo|session.end|done|2||")
}

// A session that has expired is not listed; one that lacks the code is, for as long as the code may
// be given.
func TestListedSessionsAreLive(t *testing.T) {
	r := newRig(t)
	b := r.LoggedIn()
	d := r.setUp(b, consoletest.Password)
	r.Clock.Add(19 * time.Minute)
	want(t, b.Get("/admin"), http.StatusOK)
	r.Clock.Add(time.Minute)
	half := r.halfIn()
	count := func(n int) {
		t.Helper()
		rows, _ := sessionsOn(b)
		servertest.Same(t, "sessions", len(rows), n)
		servertest.Same(t, "that lack the code", strings.Count(strings.Join(rows, "\n"), "the code is to follow"), n-1)
	}
	count(2)
	r.Clock.Add(secondFactorTimeout - time.Microsecond)
	count(2)
	r.Clock.Add(time.Microsecond)
	count(1)
	want(t, giveCode(half, d.Next()), http.StatusSeeOther)
	count(1)
	third := r.halfIn()
	redirects(t, third.Post(sessionsPath, url.Values{"session": {allSessionsValue}}), "/admin/login/code")
	want(t, giveCode(third, d.Next()), http.StatusSeeOther)
	r.Clock.Add(idleTimeout)
	last := r.halfIn()
	want(t, giveCode(last, d.Next()), http.StatusSeeOther)
	rows, _ := sessionsOn(last)
	servertest.Same(t, "after the others expired", len(rows), 1)
}

func TestBrowsersAreNamed(t *testing.T) {
	chrome := func(system string) string {
		return "Mozilla/5.0 (" + system + ") AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36"
	}
	const windows = "Windows NT 10.0; Win64; x64"
	for agent, name := range map[string]string{
		firefox: "Firefox/Linux", safari: "Safari/iOS", chrome(windows): "Chrome/Windows",
		chrome(windows) + " Edg/142.0.0.0": "Edge/Windows", chrome(windows) + " OPR/124.0.0.0": "Opera/Windows",
		chrome("Linux; Android 10; K"): "Chrome/Android", chrome("X11; CrOS x86_64 14541.0.0"): "Chrome/ChromeOS",
		chrome("Macintosh; Intel Mac OS X 10_15_7"): "Chrome/macOS", strings.Replace(safari, "Version/18.6", "CriOS/142.0", 1): "Chrome/iOS",
		strings.Replace(safari, "iPhone; CPU iPhone OS 18_6", "iPad; CPU OS 18_6", 1): "Safari/iPadOS",
		"": "", "curl/8.14.1": "", "Firefox/145.0": "", "Mozilla/5.0 (X11; Linux x86_64) Konqueror/25": "",
	} {
		servertest.Same(t, agent, browserOf(agent), name)
	}
}
