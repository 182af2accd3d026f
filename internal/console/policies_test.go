package console

import (
	"context"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"sendcode/internal/console/policies"
	"sendcode/internal/fault"
	"sendcode/internal/policy"
	"sendcode/internal/support"
	"sendcode/quota"
)

// textOf is a page without its tags, its white space folded.
func textOf(body string) string {
	return strings.Join(strings.Fields(regexp.MustCompile(`<[^>]*>`).ReplaceAllString(body, " ")), " ")
}

// reads fails the test unless a page without its tags has all parts.
func reads(t *testing.T, rec *httptest.ResponseRecorder, parts ...string) {
	t.Helper()
	want(t, rec, http.StatusOK)
	for _, part := range parts {
		if text := textOf(rec.Body.String()); !strings.Contains(text, part) {
			t.Errorf("%q is not in: %s", part, text)
		}
	}
}

// The page shows the rules in force, the recipients at their limits, and what other rules would
// have done.
func TestPolicies(t *testing.T) {
	r := newRig(t)
	for range 5 { // ana comes to the limit of the hour, zoe to that of the minute
		r.sent("ana@example.com")
		r.Clock.Add(2 * time.Minute)
	}
	r.sent("zoe@example.com")
	b := r.LoggedIn()
	rec := b.Get("/admin/policies")
	reads(t, rec, "minute recipient 1 1 min 1 recipient", "hour recipient 5 1 h 1 recipient",
		"day recipient 10 24 h 0 recipients",
		"At the limit of minute now: 1 recipient z•••@example.com shop · email · 1 send",
		"At the limit of hour now: 1 recipient a•••@example.com shop · email · 5 sends · last one 2026-03-04 14:10:20")
	lacks(t, rec, "At the limit of day")
	const of = ", to different recipients: 2. These rules would have refused 2 of them (33.3 %), to different recipients: 1. By rule: "
	for query, part := range map[string]string{
		"policy=default&limit.hour=3":                              "Sends in the last 7 days: 6 " + of + "hour 2",
		"policy=default&window.minute=150s&last=24h":               "Sends in the last 24 h: 6 " + of + "minute 2",
		"policy=default&limit.hour=5&window.hour=1h&limit.minute=": "These rules would have let in all of them.",
	} {
		reads(t, b.Get("/admin/policies?"+query), part)
	}
	for query, said := range map[string]string{
		"policy=default&limit.hour=0":       "hour: enter a number from 1 to 1000000.",
		"policy=default&window.hour=1500ms": "hour: enter a time",
		"policy=default&window.hour=745h":   "hour: enter a time from 1s to 744h",
		"policy=default&last=1y":            "Choose one of the times offered.",
		"policy=%3Cscript%3E":               "There is no such policy.",
		"policy=default&limit.week=1":       "There is no such parameter.",
		"limit.hour=1":                      "There is no such parameter.",
	} {
		rec := want(t, b.Get("/admin/policies?"+query), http.StatusUnprocessableEntity)
		contains(t, rec, said)
		lacks(t, rec, "<script>")
	}
}

// A calendar rule can be tried with another limit, one that observes as if it refused, and other
// scopes not at all.
func TestWhatCanBeTried(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	rules := []quota.Rule{
		{Name: "today", Scope: quota.Recipient, Limit: 2, Per: quota.Day, Zone: berlin},
		{Name: "dates", Scope: quota.Recipient, Limit: 3, Days: 7, Zone: berlin},
		{Name: "trial", Scope: quota.Recipient, Limit: 1, Window: 90 * time.Minute, Observe: true},
		{Name: "office", Scope: quota.IP, Limit: 100, Window: time.Hour},
	}
	r := newRig(t)
	r.Svc.Change(policy.Set{Purposes: map[string]policy.Purpose{
		"login": {Name: "login", Policy: quota.Policy{Name: "gift", Rules: rules}, Shares: []string{"login"},
			Reserve: map[string]int{"dates": 1, "office": 20}},
	}})
	r.sent("ana@example.com")
	r.Clock.Add(2 * time.Minute)
	r.sent("ana@example.com")
	rec := r.LoggedIn().Get("/admin/policies?policy=gift&limit.today=1&limit.dates=1&last=24h")
	reads(t, rec, "today recipient 2 calendar day, Europe/Berlin 1 recipient",
		"dates recipient 3; unknown browsers 2 the last 7 calendar days, Europe/Berlin",
		"trial only observes recipient 1 1 h 30 min 1 recipient",
		"office address of a client 100; without a secret key 80 1 h –", "By rule: dates 1 · today 1 · trial 1")
	contains(t, rec, `name="window.trial" value="90m"`)
	lacks(t, rec, "limit.office", "window.today", "window.dates") // they cannot be tried
}

// held is a Desk whose replay waits until it is let go, and then says what it is told.
type held struct {
	policies.Desk
	begun, end chan struct{}
	err        error
}

func (h held) ReplaySends(context.Context, support.Policy, []quota.Rule, time.Duration) (support.ReplayResult, error) {
	close(h.begun)
	<-h.end
	return support.ReplayResult{}, h.err
}

func TestOneReplayAtATime(t *testing.T) {
	for err, c := range map[error]struct {
		status int
		said   string
	}{
		nil: {200, "nothing went out"}, support.ErrTooManySends: {422, "more sends of that time"},
		fault.Unavailable: {503, "took too long"},
	} {
		h := held{begun: make(chan struct{}), end: make(chan struct{}), err: err}
		r := newRig(t, func(c *Config) { h.Desk, c.Policies = c.Policies, &h })
		b, other := r.LoggedIn(), r.LoggedIn()
		first := make(chan *httptest.ResponseRecorder, 1)
		go func() { first <- b.Get("/admin/policies?policy=default") }()
		<-h.begun
		contains(t, want(t, other.Get("/admin/policies?policy=default"), http.StatusServiceUnavailable),
			"Another one is being played.")
		close(h.end)
		contains(t, want(t, <-first, c.status), c.said)
	}
}
