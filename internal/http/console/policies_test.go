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

// reads fails the test unless the text of a page, without tags and with its white space collapsed,
// contains all parts.
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

// The page shows the rules in force.
func TestPolicies(t *testing.T) {
	r := newRig(t)
	b := r.LoggedIn()
	reads(t, b.Get("/admin/policies"), "minute recipient 1 1 1 1 min", "hour recipient 5 5 5 1 h", "day recipient 10 10 10 24 h",
		"Built-in rules", "client address of a client – 100 100 1 h", "network network of clients – 1000 1000 1 h",
		"unnamed app, of people whose address the back end does not give – – 1000 1 h",
		"Wrong codes", "checks recipient 20 24 h", "checks recipient 100 30 d")
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
	rec := b.Get("/admin/policies")
	reads(t, rec, "today recipient 2 2 2 calendar day, Europe/Berlin", "dates recipient 3 3 2 the last 7 calendar days, Europe/Berlin",
		"trial only observes recipient 1 1 1 1 h 30 min", "office address of a client 100 80 80 1 h",
		"network network of clients – 1000 1000 1 h")
	lacks(t, rec, ">client<")
}

// Beside each rule, the page shows how often the rule refused in the last seven days, for all
// purposes of its policy.
func TestRefusalsOfAWeek(t *testing.T) {
	r := newRig(t)
	r.writeRefused("ana@example.com", "minute", time.Minute, 2)
	for _, c := range []struct {
		after time.Duration
		count string
	}{{time.Second, "2"}, {6 * 24 * time.Hour, "2"}, {24 * time.Hour, "0"}} {
		r.Clock.Add(c.after)
		reads(t, r.LoggedIn().Get("/admin/policies"), "minute recipient 1 1 1 1 min "+c.count+" hour")
	}
}
