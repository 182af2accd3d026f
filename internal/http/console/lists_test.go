package console

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"sendcode/internal/base/recipient"
	"sendcode/internal/http/console/auth"
	"sendcode/internal/http/console/explain"
	"sendcode/internal/http/server"
	"sendcode/internal/kit/servertest"
	"sendcode/internal/store"
	"sendcode/internal/store/storetest"
)

// writeAppEvents writes an event in each state (delivered, tried and pending, given up) and an
// event about an approval.
func writeAppEvents(r *rig) (ids []string) {
	states := []store.AppEventOutcome{
		{State: store.EventDelivered, Answer: "204"},
		{State: store.EventPending, Answer: "forbidden address", After: 20 * time.Second},
		{State: store.EventGivenUp, Answer: "410"},
	}
	for i, end := range states {
		s := r.begin([]string{"nora@example.com", "lu@qq.com", "sam@example.net"}[i], func(s *store.Send) { s.Reference = "order-7" }).Send
		event := store.NewEvent{ID: r.id(), Type: "send.failed", Test: i == 2}
		r.finish(s, store.Outcome{Status: store.Failed, Reason: "rejected", Event: event})
		due, _, err := r.Store.LeaseDueAppEvents(context.Background(), time.Second, []store.AppEventLimit{{App: "shop", Limit: 1}})
		r.Must(err)
		end.AttemptID = store.AttemptID{ID: due[0].ID, Attempt: due[0].Attempt}
		r.Must(r.Store.EndAppEventAttempt(context.Background(), end))
		ids = append(ids, event.ID.String())
		r.Clock.Add(time.Second)
	}
	v := r.begin("eve@example.com").Verification
	event := store.NewEvent{ID: r.id(), Type: store.VerificationApproved, Status: "approved"}
	r.Must(r.Store.Check(context.Background(), storetest.Right(v.ID, event)))
	return append(ids, event.ID.String())
}

// Every list continues after a cursor, and has each row once.
func TestLists(t *testing.T) {
	r := newRig(t)
	everyPage(r)
	b := r.Browser()
	for _, path := range []string{"sends", "acts", "webhooks", "suppressions", "prefixes"} {
		name := strings.Replace(path, "webhooks", "events", 1)
		path = "/v1/admin/" + path + "?limit=1"
		var paged, whole []any
		for next := any(""); next != nil; {
			page := b.Script(http.StatusOK, http.MethodGet, path+"&cursor="+next.(string), "")
			next, paged = page["next"], append(paged, page[name].([]any)[0].(map[string]any)["id"])
		}
		for _, row := range b.List(name, strings.Replace(path, "limit=1", "limit=200", 1)) {
			whole = append(whole, row["id"])
		}
		if len(whole) < 2 || !slices.Equal(paged, whole) {
			t.Errorf("%s: %v, whole %v", name, paged, whole)
		}
	}
}

// texted makes a send a text message to a German number with a prefix.
func texted(prefix string) func(*store.Send) {
	return func(s *store.Send) {
		s.Channel, s.To, s.Prefix, s.Country = recipient.SMS, prefix+"•••21", prefix, "DE"
	}
}

// pausePrefix sends text messages to a prefix, none of whose codes is entered, and makes the
// database pause the prefix.
func (r *rig) pausePrefix(prefix string) store.PrefixPause {
	r.Helper()
	for n := range 5 {
		r.writeSent(fmt.Sprintf("p%d%s@example.com", n, r.class), texted(prefix))
	}
	r.Clock.Add(10 * time.Minute)
	// The time to live is short because Postgres has its own clock, which the test cannot move.
	started, err := r.db.PausePrefixes(context.Background(),
		store.PrefixWatch{MinSends: 5, MinApprovedPercent: 10, TTL: time.Microsecond})
	r.Must(err)
	if len(started) != 1 {
		r.Fatalf("%+v", started)
	}
	return started[0]
}

// The overview mentions paused prefixes, and the page of a send that a pause stopped says how the
// pause ended.
func TestOverviewNamesPausedRanges(t *testing.T) {
	r, b := loggedIn(t)
	lacks(t, b.Get("/admin/overview"), "number range")
	p := r.pausePrefix("+49151")
	contains(t, b.Get("/admin/overview"), "One number range is paused", `href="/admin/prefixes"`)
	send := r.begin("q@example.com", texted("+49151")).Send
	r.finish(send, store.Outcome{Status: store.Failed, Reason: store.ReasonPaused, Refund: true})
	want(t, b.Post("/admin/prefixes/lift", url.Values{"id": {p.ID.String()}, "reason": {"ticket 7"}}), http.StatusSeeOther)
	contains(t, b.Get(explain.SendPageAddress(send.ID)), "It was lifted at", "49151")
	lacks(t, b.Get("/admin/overview"), "number range")
}

func TestPrefixPauses(t *testing.T) {
	r := newRig(t)
	p, other := r.pausePrefix("+49151"), r.pausePrefix("+49152")
	b := r.LoggedIn()
	const page, lift = "/admin/prefixes", "/admin/prefixes/lift"
	contains(t, b.Get(page), `action="`+lift+`"`, p.ID.String(), other.ID.String())
	reads(t, b.Get(page), "&#43;49151 ( DE ) shop ‖ paused 5 sent, 0 approved for people whom the back end knows Until 4 Mar")
	lacks(t, r.As("reader").Get(page), lift, p.ID.String())

	form := func(id, reason string) url.Values { return url.Values{"id": {id}, "reason": {reason}} }
	contains(t, want(t, b.Post(lift, form(p.ID.String(), " ")), http.StatusUnprocessableEntity), "Say why", "<details open>")
	lacks(t, want(t, b.Post(lift, form("x", "y")), http.StatusUnprocessableEntity), "<details open>")
	want(t, b.Post(lift, form("00000000-0000-7000-8000-000000000000", "y")), http.StatusNotFound)
	for range 2 { // the second time the pause is already lifted
		done := page + "?done=" + p.ID.String() + "&state=all"
		redirects(t, b.Post(lift, form(p.ID.String(), "ticket 7")), done)
		reads(t, b.Get(done), "Lifted: numbers that begin with &#43;49151 get text messages again, for people whom the back end knows.")
	}
	lifted := b.Script(http.StatusOK, http.MethodPost, "/v1"+lift, `{"id":"`+other.ID.String()+`","reason":"ours"}`)
	holds(t, lifted, map[string]any{"active": false, "lifted_by": "token", "lifted_reason": "ours", "prefix": "+49152"})
	lacks(t, b.Get(page), "49151", "49152")
	reads(t, b.Get(page+"?state=all"), "– lifted", "Lifted by token at", "Lifted by admin at", ": ticket 7", ": ours")
	r.WantActs(
		act{Who: "test", What: "account.add", Outcome: store.AuditDone},
		act{Who: "admin", What: auth.ActionLiftPrefixPause, Outcome: store.AuditDone, Reason: "ticket 7"},
		act{Who: "token", What: auth.ActionLiftPrefixPause, Outcome: store.AuditDone, Reason: "ours"})
}

// After a lift the page says whether the prefix gets text messages now, on each database. Another
// pause may be in force, and a pause that has ended can't be lifted.
func TestPrefixLiftSaysWhatHolds(t *testing.T) {
	for name, open := range map[string]func(*testing.T, ...func(*Config)) *rig{"SQLite": newRig, "Postgres": onPostgres} {
		t.Run(name, func(t *testing.T) {
			r := open(t)
			known := r.pausePrefix("+49151")
			r.class = store.StrangerClass
			strangers := r.pausePrefix("+49151")
			b := r.LoggedIn()
			lift := func(p store.PrefixPause, says, lifted string) {
				t.Helper()
				done := "/admin/prefixes?done=" + p.ID.String() + "&state=all"
				redirects(t, b.Post("/admin/prefixes/lift", url.Values{"id": {p.ID.String()}, "reason": {"ticket 7"}}), done)
				reads(t, b.Get(done), says)
				rows, _, err := r.db.PrefixPauses(r.Context(), store.PrefixPauseFilter{Limit: 9})
				r.Must(err)
				for _, row := range rows {
					if row.ID == p.ID {
						servertest.Same(t, "lifted", row.LiftedBy+": "+row.LiftedWhy, lifted)
					}
				}
			}
			lift(known, "Numbers that begin with &#43;49151 still get no text messages, for strangers: another pause holds.", "admin: ticket 7")
			lift(strangers, "Lifted: numbers that begin with &#43;49151 get text messages again, for strangers.", "admin: ticket 7")
			if name == "SQLite" { // the test moves the clock of this database
				over := r.pausePrefix("+49152")
				r.Clock.Add(2 * time.Hour)
				b = r.LoggedIn()
				lift(over, "There was nothing to lift: the pause of &#43;49152 ended at", ": ")
			}
			acts, err := r.db.AuditEntries(r.Context(), store.AuditFilter{What: auth.ActionLiftPrefixPause, Limit: 9})
			r.Must(err)
			servertest.Same(t, "entries", len(acts), 2)
		})
	}
}

// An operator accepts the subscription that a provider's topic asks for.
func TestAcceptSubscription(t *testing.T) {
	r, b := loggedIn(t)
	const page, accept = "/admin/acts", "/admin/acts/subscription"
	contains(t, b.Get(page), accept)
	lacks(t, r.As("reader").Get(page), accept)
	form := func(provider, reason string) url.Values {
		return url.Values{"provider": {provider}, "reason": {reason}}
	}
	contains(t, want(t, b.Post(accept, form("ses", " ")), http.StatusUnprocessableEntity), "Say why", "<details open>", "aria-invalid")
	contains(t, want(t, b.Post(accept, form("resend", "x")), http.StatusUnprocessableEntity), "No provider of this name has a topic.",
		`value="x"`)
	rec := b.Do(http.MethodPost, "/v1/admin/subscriptions", `{"provider":"resend","reason":"x"}`, asScript...)
	servertest.Same(t, "field", problemOf(t, rec, server.InvalidField).Field, "provider")
	added := act{Who: "test", What: "account.add", Outcome: store.AuditDone}
	r.WantActs(added)
	redirects(t, b.Post(accept, form("ses", "ticket 7")), page)
	b.Script(http.StatusNoContent, http.MethodPost, "/v1/admin/subscriptions", `{"provider":"ses","reason":"ticket 8"}`)
	r.WantActs(added,
		act{Who: "admin", What: auth.ActionAcceptSubscription, Outcome: store.AuditBegun, Reason: "ticket 7"},
		act{Who: "token", What: auth.ActionAcceptSubscription, Outcome: store.AuditBegun, Reason: "ticket 8"})
	reads(t, b.Get(page), "ses admin (owner) … begun accepted a subscription · ticket 7")
}

// sampler posts samples to the webhook of one app.
type sampler struct{ posted []string }

func (*sampler) Apps() []string { return []string{"shop"} }

func (s *sampler) PostSample(_ context.Context, app, event string) (string, bool, error) {
	s.posted = append(s.posted, app+" "+event)
	return "401", false, nil
}

// An operator sends a sample event to an app that has a webhook, and reads the app's answer. An
// audit entry records this.
func TestPostSampleForm(t *testing.T) {
	hooks := &sampler{}
	r := newRig(t, func(c *Config) { c.Webhooks = hooks })
	b := r.LoggedIn()
	lacks(t, r.As("reader").Get("/admin/webhooks"), "Send a sample")
	contains(t, b.Get("/admin/webhooks"), "Send a sample", "<option>verification.locked</option>")
	form := url.Values{"app": {"shop"}, "event": {"send.bounced"}}
	contains(t, want(t, b.Post("/admin/webhooks", form), http.StatusOK), `<p class="note bad" role="status">shop, send.bounced: 401</p>`)
	form.Set("app", "gym")
	contains(t, want(t, b.Post("/admin/webhooks", form), http.StatusUnprocessableEntity), "No such app has a webhook, so nothing was sent.")
	form.Set("app", "shop")
	contains(t, want(t, b.Post("/admin/webhooks?state=none", form), http.StatusUnprocessableEntity), "This filter cannot be read")
	servertest.Same(t, "posted", strings.Join(hooks.posted, ", "), "shop send.bounced")
	servertest.Same(t, "recorded", len(b.List("acts", "/v1/admin/acts?what=event.sample")), 1)
}
