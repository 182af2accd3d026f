package console

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"sendcode/internal/codes/policy"
	"sendcode/quota"
)

// reads fails the test unless a page without its tags, its white space folded, has all parts.
func reads(t *testing.T, rec *httptest.ResponseRecorder, parts ...string) {
	t.Helper()
	want(t, rec, http.StatusOK)
	text := strings.Join(strings.Fields(markup.ReplaceAllString(rec.Body.String(), " ")), " ")
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%q is not in: %s", part, text)
		}
	}
}

// The page shows the rules in force, and the recipients at their limits.
func TestPolicies(t *testing.T) {
	r := newRig(t)
	for range 5 { // ana comes to the limit of the hour, zoe to that of the minute
		r.sent("ana@example.com")
		r.Clock.Add(2 * time.Minute)
	}
	r.sent("zoe@example.com")
	b := r.LoggedIn()
	rec := b.Get("/admin/policies")
	reads(t, rec, "minute recipient 1 1 min 1 recipient", "hour recipient 5 1 h 1 recipient", "day recipient 10 24 h 0 recipients",
		"At the limit of minute now: 1 recipient z•••@example.com shop · email · 1 send",
		"At the limit of hour now: 1 recipient a•••@example.com shop · email · 5 sends · last one 2026-03-04 14:10:20")
	lacks(t, rec, "At the limit of day")
	berlin, err := time.LoadLocation("Europe/Berlin")
	r.Must(err)
	rules := []quota.Rule{
		{Name: "today", Scope: quota.Recipient, Limit: 2, Per: quota.Day, Zone: berlin},
		{Name: "dates", Scope: quota.Recipient, Limit: 3, Days: 7, Zone: berlin},
		{Name: "trial", Scope: quota.Recipient, Limit: 1, Window: 90 * time.Minute, Observe: true},
		{Name: "office", Scope: quota.IP, Limit: 100, Window: time.Hour},
	}
	r.Svc.Change(policy.Set{Purposes: map[string]policy.Purpose{
		"login": {
			Name: "login", Policy: quota.Policy{Name: "gift", Rules: rules}, PolicyPurposes: []string{"login"},
			Reserve: map[string]int{"dates": 1, "office": 20},
		},
	}})
	reads(t, b.Get("/admin/policies"), "today recipient 2 calendar day, Europe/Berlin 1 recipient",
		"dates recipient 3; unknown browsers 2 the last 7 calendar days, Europe/Berlin",
		"trial only observes recipient 1 1 h 30 min 2 recipients", "office address of a client 100; without a secret key 80 1 h –")
	r.Break("FrequentRecipients")
	want(t, b.Get("/admin/policies"), http.StatusServiceUnavailable)
}
