package console

import (
	"context"
	"fmt"
	"maps"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"sendcode/internal/base/recipient"
	"sendcode/internal/http/console/auth"
	"sendcode/internal/http/console/consoletest"
	"sendcode/internal/http/console/explain"
	"sendcode/internal/http/console/layout"
	"sendcode/internal/http/server"
	"sendcode/internal/kit/golden"
	"sendcode/internal/store"
	"sendcode/internal/store/storetest"
)

// longDomain has a first label of 62 characters; DNS allows 63.
var longDomain = strings.Repeat("subdomain-", 5) + "of-a-company." + strings.Repeat("quite-long.", 4) + "example.com"

// fillDatabase fills the database with rows of several states. It returns the last row, a refusal.
func fillDatabase(r *rig) (refusedRow store.SendOrRefusal) {
	sent := r.begin("w.zhang@qq.com", func(s *store.Send) { s.Reference, s.Locale = "order-7", "zh-CN" })
	r.Clock.Add(96 * time.Millisecond)
	r.finish(sent.Send, store.Outcome{
		Status: store.Failed, Reason: "rejected", Provider: "mx1.example.net", ProviderCode: "550 5.1.1", Took: 96 * time.Millisecond,
		Refund: true,
	})
	r.Clock.Add(20 * time.Second)
	r.ownCode = []byte("sealed") // as better-auth does
	r.writeSent("long.name@"+longDomain, func(s *store.Send) { s.Purpose = "signup-with-confirmation" })
	r.ownCode = nil
	unknown := r.begin("li@example.com")
	r.Clock.Add(3 * time.Second)
	r.finish(unknown.Send, store.Outcome{Status: store.Unknown, Reason: "no_answer", Provider: "mx2.example.net", Took: 2 * time.Second})
	queued := r.begin("q@example.com")
	r.Must(r.Store.Postpone(r.Context(), store.Postponement{
		AttemptID: store.AttemptID{ID: queued.Send.ID, Attempt: 1}, After: 4 * time.Second, Reason: "temporary_rcpt",
		Provider:     "mx1.example.net",
		ProviderCode: "421 4.7.0",
	}))
	ana := r.writeSent("ana@example.com", func(s *store.Send) { s.Locale = "zh-CN" })
	r.Clock.Add(18 * time.Second)
	row := r.writeRefused("ana@example.com", "minute", 42*time.Second, 3, func(s *store.SendOrRefusal) { s.VerificationID = ana.VerificationID })
	r.Clock.Add(4 * time.Second)
	return row
}

// partlyBroken returns a service of which all parts but one are slow, unreachable or suspended.
func partlyBroken() ServiceStatus {
	since := consoletest.Start.Add(-time.Minute)
	return ServiceStatus{
		Reasons: []server.HealthReason{{Part: "redis", Word: "redis_away", Since: since}},
		Parts: []ServicePart{
			{Kind: "database", Up: true, Slow: true},
			{Kind: "redis"},
			{Kind: "mail", Name: "mx2.example:587", Up: true},
			{Kind: "mail", Name: "mx1.example:587", Since: since.Add(-30 * time.Second), Why: "dial: temporary: <refused>"},
			{Kind: "sms", Name: "aliyun", Since: since, Why: "dial: temporary"},
		},
		Counted: true, UnderWay: store.Backlog{Sends: 4, Age: 2*time.Minute + 100*time.Millisecond},
	}
}

// allBroken returns a service without a working part, whose servers have long names and reasons.
func allBroken() ServiceStatus {
	since := consoletest.Start.Add(-27 * time.Hour)
	s := ServiceStatus{Parts: []ServicePart{{Kind: "database"}, {Kind: "redis"}}}
	for _, r := range []server.HealthReason{
		{Part: "database", Word: "database_away"},
		{Part: "keys", Word: "other_keys"},
		{Part: "redis", Word: "redis_away"},
		{Part: "mail", Word: "mail_servers_suspended"},
		{Part: "sms", Word: "carriers_suspended"},
	} {
		r.Since = since
		s.Reasons = append(s.Reasons, r)
	}
	const why = "rcpt: temporary: 451 4.7.0 See_https://postmaster.example/" + "a-long-address-without-a-space-in-it/"
	for _, p := range []ServicePart{
		{Kind: "mail", Name: "email-smtp.ap-southeast-2.amazonaws.example:2587"},
		{Kind: "mail", Name: "mx." + longDomain + ":587"},
		{Kind: "sms", Name: "a-carrier-with-a-long-name-of-its-own"},
	} {
		p.Since, p.Why = since, why+why
		s.Parts = append(s.Parts, p)
	}
	return s
}

// everyPage fills the database, and returns the paths of the pages that show it. The keys are the
// pages' names.
func everyPage(r *rig) map[string]string {
	r.Helper()
	row := fillDatabase(r)
	_, hash := r.recipient("ana@example.com")
	for _, to := range []string{"bo@" + strings.Repeat("long.", 9) + "example.com", "cy@example.com"} {
		const why = "asked by telephone, and again in a letter of the fourth of <b>March</b>"
		r.suppress(to, why)
		r.Clock.Add(time.Millisecond)
	}
	writeAppEvents(r)
	lifted := r.pausePrefix("+49160")
	r.Must(r.Store.LiftPrefixPause(r.Context(),
		store.LiftPauseRequest{ID: lifted.ID, By: "admin", Why: "testers of ours, <b>ticket</b> 7"}, nil))
	r.pausePrefix("+49151")
	r.As("operator")
	r.PutAccount(store.Account{Name: "mei", Role: "reader", Identity: "mei.with-a-long-name.of-the-support-department@example.org"})
	failed, err := r.Store.Sends(r.Context(), store.Filter{Status: store.Failed, Limit: 1})
	r.Must(err)
	_, mistyped := r.recipient("w.zhang@qq.co")
	pages := map[string]string{}
	for _, s := range layout.MenuEntries {
		pages[s.Name] = s.Path
	}
	maps.Copy(pages, map[string]string{
		"sends": "/admin?limit=5", "empty": "/admin?status=sending", "recipient": "/admin?recipient=" + hash.String(),
		"refused": explain.SendPageAddress(row.ID), "failed": explain.SendPageAddress(failed[0].ID) + "?do=erase",
		"unknown": "/admin/sends/x", "norows": "/admin?recipient=" + mistyped.String(),
		"prefixes": "/admin/prefixes?state=all",
	})
	return pages
}

// The golden file has the pages, and the answers for scripts. No page shows a full recipient, has
// an inline style or script, or has markup from the data.
func TestPages(t *testing.T) {
	r := newRig(t, func(c *Config) {
		c.Status = func(context.Context) ServiceStatus { return partlyBroken() }
	})
	pages := everyPage(r)
	delete(pages, "overview") // see TestOverviewDrawsTheNumbers
	tried := r.begin("dan@example.com", func(s *store.Send) { s.Observed, s.Locale = []string{"office", "stricter"}, "*" }).Send
	r.finish(tried, store.Outcome{Status: store.Failed, Reason: "rejected", ProviderCode: "550 5.1.1", Refund: true})
	several := r.writeRefused("anna@example.com", "office", time.Hour, 90, func(s *store.SendOrRefusal) {
		s.Recipient, s.To, s.Recipients, s.Network = recipient.Hash{}, "", 42, "192.0.2.0/24"
	})
	many := r.writeRefused("anna@example.com", "office", time.Hour, 900, func(s *store.SendOrRefusal) {
		s.Recipient, s.To, s.Recipients = recipient.Hash{}, "", store.ManyRecipients
	})
	gone := r.writeRefused("gil@example.com", "minute", time.Minute, 1, func(s *store.SendOrRefusal) { s.Purpose = "gone" })
	bounced := r.writeSent("flo@example.com")
	r.Must(r.Store.IngestProviderEvent(r.Context(),
		store.ProviderEvent{Send: bounced.ID, Kind: store.ProviderBounced, Provider: "postmark"}, store.NewSuppression{}))
	paused := r.begin("hal@example.com", texted("+49151")).Send
	r.finish(paused, store.Outcome{Status: store.Failed, Reason: store.ReasonPaused, Refund: true})
	for name, s := range map[string]store.Send{
		"tried": tried, "several": several.Send, "many": many.Send, "bounced": bounced,
		"gone": gone.Send, "paused": paused,
	} {
		pages[name], pages[name+".json"] = explain.SendPageAddress(s.ID), "/v1"+explain.SendPageAddress(s.ID)
	}
	for range 5 {
		r.Must(r.Store.Check(r.Context(), storetest.Wrong(bounced.VerificationID)))
	}
	r.Must(r.Store.Cancel(r.Context(), paused.VerificationID))
	r.Must(r.Svc.Administration.ResetQuota(r.Context(), targetOf(store.SendOrRefusal{Send: bounced}), r.act(auth.ActionResetQuota)))
	maps.Copy(pages, map[string]string{
		"all": "/admin", "locked": "/admin?outcome=locked",
		"filtered": "/admin?limit=1&status=refused&last=7d&blocked_by=minute&from=2026-03-04T14:00:00%2B08:00",
		"all.json": "/v1/admin/sends?limit=5", "all.csv": "/v1/admin/sends.csv?status=refused", "acts.json": "/v1/admin/acts",
		"webhooks.json": "/v1/admin/webhooks", "prefixes.json": "/v1/admin/prefixes", "suppressions.json": "/v1/admin/suppressions",
		"none.json": "/v1/admin/sends?status=delivered", "acts of": "/admin/acts?who=admin&limit=1",
		"events of": "/admin/webhooks?state=given_up&app=shop&limit=1", "suppressions": "/admin/suppressions?limit=1",
	})
	b := r.LoggedIn()
	var out strings.Builder
	names, seen := numbers{}, map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(pages)) {
		rec := b.Get(pages[name])
		fmt.Fprintf(&out, "\n== %s\n", name)
		for line := range strings.Lines(names.of(asText(rec))) {
			if line = strings.Join(strings.Fields(line), " "); !seen[line] { // lines that several pages share are written once
				fmt.Fprintln(&out, line)
			}
			seen[line] = true
		}
		policy := rec.Header().Get("Content-Security-Policy") + rec.Header().Get("Cache-Control")
		if !strings.HasPrefix(policy, "default-src 'none'") || strings.Contains(policy, "unsafe") ||
			!strings.HasSuffix(policy, "no-store") {
			t.Errorf("%s: %v", name, rec.Header())
		}
		// no full recipient
		lacks(t, rec, "zhang@", "name@", "li@", "q@", "ana@", "bo@", "cy@", "nora@", "dan@", "flo@")
		lacks(t, rec, "<script>", "<b>March", "<b>ticket", "<refused>", " style=")
	}
	golden.File(t, "testdata/pages.txt", out.String())
}

var (
	svgElements = regexp.MustCompile(`(?s)<svg.*?</svg>`)
	markup      = regexp.MustCompile(`<[^>]*>`)
	attributes  = regexp.MustCompile(` (?:href|value|action)="([^"]*)"| (selected|open|aria-invalid)`)
	blockEnds   = regexp.MustCompile(`</(?:tr|p|li|h[1-3]|dd|form|section|select|label|figure|summary)>`)
	ids         = regexp.MustCompile(`[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{32}`)
	cursors     = regexp.MustCompile(`AQ[\w-]{32}`)
)

// asText returns the content of a page without its tags, but with the addresses, the values and the
// choices in them. For JSON it returns a line for each row.
func asText(rec *httptest.ResponseRecorder) string {
	_, main, _ := strings.Cut(rec.Body.String(), "<main")
	if main == "" {
		return strings.ReplaceAll(strings.TrimSpace(rec.Body.String()), "},{", "},\n{")
	}
	main = strings.Join(strings.Fields(svgElements.ReplaceAllString(main, "")), " ")
	main = markup.ReplaceAllStringFunc(blockEnds.ReplaceAllString("<main"+main, "$0\n"), func(tag string) (shown string) {
		for _, m := range attributes.FindAllStringSubmatch(tag, -1) {
			shown += " [" + m[1] + m[2] + "] "
		}
		return shown + " "
	})
	return main
}

// numbers maps each ID and hash to the number of its first appearance, since some of these are
// random.
type numbers map[string]int

func (n numbers) of(text string) string {
	return cursors.ReplaceAllString(ids.ReplaceAllStringFunc(text, func(id string) string {
		if n[id] == 0 {
			n[id] = len(n) + 1
		}
		return fmt.Sprint("#", n[id])
	}), "cursor")
}
