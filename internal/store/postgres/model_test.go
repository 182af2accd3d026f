package postgres

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"sendcode/internal/base/fault"
	"sendcode/internal/base/recipient"
	"sendcode/internal/store"
	"sendcode/internal/store/sqlite/sqlitetest"
	"sendcode/internal/store/storetest"
	"sendcode/quota"
)

// TestModel runs random schedules on both databases at once, of the calls for which each has a
// statement of its own and of those that change what they read: both must answer the same to every
// call, whatever came before. SQLite, in which one call follows the other, is the model of
// Postgres. Instants fall on window edges, 1 µs to either side, and on clocks that go back.
func TestModel(t *testing.T) {
	f := guess(newPostgresFixture(t), false)
	db := f.Engine.(*DB)
	// A look for what is overdue begins where the last one ended, and with the oldest row only
	// every ten minutes of the database's clock. Where that clock goes back and forth between two
	// looks, a row may wait so long: the model asks without that delay.
	back := func() { db.searches.marks = nil }
	start := f.Now
	rapid.Check(t, func(rt *rapid.T) {
		storetest.Must(db.pool.Exec(t.Context(), emptyModel))(t)
		back()
		clock := &storetest.TestClock{At: start}
		lite := sqlitetest.Open(t, clock.Now)
		defer func() { storetest.OK(t, lite.Close()) }()
		twin := storetest.NewFixture(lite).Clocked(start, clock.Step)
		f.Pass(start.Sub(f.Now))
		m := &model{T: rt, ctx: t.Context(), twin: twin, real: f, back: back, claimed: map[[32]byte]uuid.UUID{}}
		m.Repeat(map[string]func(*rapid.T){
			"begin": m.begin, "begin again": m.beginAgain, "pass": m.pass, "finish": m.finish, "postpone": m.postpone,
			"renew":     m.renew,
			"take over": m.takeOver, "refunds": m.refunds, "refunded": m.refunded, "attempt": m.attempt,
			"approve": m.approve,
			"cancel":  m.cancel, "suppress": m.suppress, "lift": m.lift, "reset": m.reset, "erase": m.erase,
			"forget":  m.forget,
			"refused": m.refused, "claim": m.claim, "events": m.events, "report": m.report, "read": m.read,
			"": m.invariant,
		})
	})
}

const emptyModel = `DELETE FROM sends; DELETE FROM refusals; DELETE FROM outbox; DELETE FROM failures; DELETE FROM refunds; DELETE FROM verifications; DELETE FROM suppressions; DELETE FROM app_events; DELETE FROM provider_events; DELETE FROM erasures;
DELETE FROM idempotency_keys; DELETE FROM minute_index;
ALTER TABLE audit_entries DISABLE TRIGGER audit_entries_append_only; ALTER TABLE audit_recipients DISABLE TRIGGER audit_recipients_append_only;
DELETE FROM audit_recipients; DELETE FROM audit_entries; -- an erasure's entry masks refusals that are written later
ALTER TABLE audit_entries ENABLE ALWAYS TRIGGER audit_entries_append_only; ALTER TABLE audit_recipients ENABLE ALWAYS TRIGGER audit_recipients_append_only`

type model struct {
	*rapid.T
	ctx        context.Context
	twin, real *storetest.Fixture
	back       func() // to call when the database's clock goes back
	intents    []store.Intent
	sends      []uuid.UUID // refusals too
	refusals   []uuid.UUID
	codes      []string
	told       []uuid.UUID            // events
	claimed    map[[32]byte]uuid.UUID // the sends of claims, by keys
}

var modelRules = [][]quota.Rule{
	nil, storetest.Rule(1, time.Minute), storetest.Rule(2, time.Hour), storetest.DefaultRules,
	{{Name: "a", Limit: 3, Window: 2 * time.Minute}, {Name: "b", Limit: 2, Window: time.Minute}},
	{{Name: "today", Limit: 2, Per: quota.Day, Zone: time.FixedZone("China", 8*3600)}, {Name: "b", Limit: 2, Window: time.Hour}},
	{{Name: "hourly", Limit: 1, Per: quota.Hour}},
	{{Name: "dates", Limit: 2, Days: 2, Zone: time.FixedZone("China", 8*3600)}, {Name: "b", Limit: 1, Window: time.Hour}},
}

// pick draws one of some values.
func pick[T any](m *model, label string, from ...T) T {
	return rapid.SampledFrom(from).Draw(m.T, label)
}

// number draws a number, from first to last.
func (m *model) number(label string, first, last int) int {
	return rapid.IntRange(first, last).Draw(m.T, label)
}

// span is a length of time that matters to something: windows, lives, leases, and their neighbours.
func (m *model) span(label string) time.Duration {
	base := pick(m, label, 0, time.Second, 5*time.Second, 8*time.Second, 30*time.Second, time.Minute, 2*time.Minute, 8*time.Minute,
		10*time.Minute, time.Hour, 24*time.Hour, 25*time.Hour,
		59*time.Minute+59*time.Second+876543*time.Microsecond) // from epoch to the turn of an hour
	return base + time.Duration(m.number("µs", -1, 1))*time.Microsecond
}

// answers are what a call returned, the error last.
func answers(all ...any) []any { return all }

// same makes one call on both databases and compares what they say. It returns the first answer.
func (m *model) same(what string, call func(f *storetest.Fixture) []any) any {
	m.Helper()
	want, got := call(m.twin), call(m.real)
	last := len(want) - 1
	wantErr, _ := want[last].(error)
	gotErr, _ := got[last].(error)
	for _, kind := range []error{fault.NotFound, fault.Unavailable, fault.Uncertain, store.ErrBadRequest} {
		if errors.Is(wantErr, kind) != errors.Is(gotErr, kind) || (wantErr == nil) != (gotErr == nil) {
			m.Fatalf("%s: error %v, wanted %v", what, gotErr, wantErr)
		}
	}
	if g, w := storetest.Show(got[:last]), storetest.Show(want[:last]); wantErr == nil && g != w {
		m.Fatalf("%s:\n got %s\nwant %s", what, g, w)
	}
	return want[0]
}

func (m *model) pass(*rapid.T) {
	d := m.span("pass")
	if m.number("back", 0, 9) == 0 {
		d = -d
		m.back()
	}
	m.twin.Pass(d)
	m.real.Pass(d)
}

func (m *model) begin(*rapid.T) {
	in := m.real.Intent(m.number("recipient", 1, 2))
	in.Rules = pick(m, "rules", modelRules...)
	in.Send.Purpose = pick(m, "purpose", "login", "login", "signup", "gift")
	if in.Send.Purpose == "gift" {
		in.Purposes = []string{"gift"}
	}
	if m.number("sms", 0, 3) == 0 {
		in.Send.Channel = recipient.SMS
	}
	in.Send.App = pick(m, "app", "shop", "shop", "shop", "shop", "desk")
	in.TTL = pick(m, "ttl", 10*time.Minute, 10*time.Minute, 5*time.Minute)
	in.Send.Reference, in.Send.To = pick(m, "reference", "", "order 7"), pick(m, "to", "a•••@example.com", "b•••@例子.中国")
	if in.Send.Channel == recipient.SMS {
		in.Send.To, in.Send.Country, in.Send.Prefix = "+49 151•••021", pick(m, "country", "DE", "FR"), "+49151"
	}
	in.Verification.Holder = pick(m, "holder", "", "s:1", "s:1", "s:2")
	if in.Verification.Holder == "" {
		in.Verification.Class = rapid.SampledFrom(store.Classes).Draw(m.T, "class")
	}
	if in.Verification.CallerChecks = m.number("caller's", 0, 5) == 0; in.Verification.CallerChecks {
		in.Code = []byte("sealed " + in.Verification.ID)
	} else if len(m.codes) > 0 && m.number("join", 0, 3) == 0 {
		in.Join = pick(m, "named", m.codes...)
	}
	observing := storetest.FailedAtMost(1, time.Hour)
	observing.Observe = true
	in.RejectionRules = pick(m, "rejections", nil, nil, []quota.Rule{storetest.FailedAtMost(1, time.Minute)},
		[]quota.Rule{observing, storetest.FailedAtMost(2, time.Hour)})
	in.Send.Observed = pick(m, "observed", nil, nil, []string{"office"}, []string{"office", "stricter"})
	in.MinLife = pick(m, "min life", 0, 2*time.Minute)
	in.LikelyFirst = pick(m, "likely first", true, false)
	in.Address = storetest.Address(pick[byte](m, "address", 1, 1, 2))
	m.intents = append(m.intents, in)
	m.beginOnBoth("Begin", in)
}

func (m *model) beginAgain(*rapid.T) {
	if len(m.intents) > 0 {
		m.beginOnBoth("Begin again", pick(m, "intent", m.intents...))
	}
}

func (m *model) beginOnBoth(what string, in store.Intent) {
	begun := m.same(what, func(f *storetest.Fixture) []any { return answers(f.Begin(m.ctx, in)) }).(store.BeginAnswer)
	if begun.Admitted && !slices.Contains(m.sends, in.Send.ID) {
		m.sends, m.codes = append(m.sends, in.Send.ID), append(m.codes, begun.Verification.ID)
	}
}

// held names a row, with its attempt or another one.
func (m *model) held() store.AttemptID {
	id := uuid.UUID{1}
	if len(m.sends) > 0 {
		id = pick(m, "send", m.sends...)
	}
	return store.AttemptID{ID: id, Attempt: pick(m, "attempt", 1, 1, 1, 2, 2, 3, 0)}
}

func (m *model) finish(*rapid.T) {
	o := store.Outcome{
		AttemptID: m.held(), Status: pick(m, "status", store.Sent, store.Failed, store.Failed, store.Unknown),
		Reason:   pick(m, "reason", "r", store.ReasonRejected, store.ReasonSuppressed, store.ReasonPaused),
		Provider: pick(m, "provider", "p", "q"), ProviderCode: "250", Took: time.Second,
	}
	o.Refund = o.Status == store.Failed && rapid.Bool().Draw(m.T, "refund")
	if o.Status == store.Failed && m.number("bounce", 0, 3) == 0 {
		o.Suppress = store.NewSuppression{
			Cause: store.CauseHardBounce, Address: storetest.Address(1),
			For: max(time.Microsecond, m.span("lasts")),
		}
	}
	if rapid.Bool().Draw(m.T, "event") {
		o.Event = m.real.Telling("send." + string(o.Status))
		m.told = append(m.told, o.Event.ID)
	}
	m.same("Finish", func(f *storetest.Fixture) []any { return answers(f.Finish(m.ctx, o)) })
}

func (m *model) postpone(*rapid.T) {
	p := store.Postponement{AttemptID: m.held(), After: max(0, m.span("after")), Reason: "later", Provider: "p", ProviderCode: "451"}
	m.same("Postpone", func(f *storetest.Fixture) []any { return answers(f.Postpone(m.ctx, p)) })
}

func (m *model) renew(*rapid.T) {
	held := []store.AttemptID{m.held(), m.held()}
	m.same("RenewLeases", func(f *storetest.Fixture) []any { return answers(f.RenewLeases(m.ctx, 30*time.Second, held)) })
}

func (m *model) takeOver(*rapid.T) {
	limit, q := m.number("limit", 1, 3), pick(m, "queue", store.Queues()...)
	m.same("TakeOver", func(f *storetest.Fixture) []any { return answers(f.TakeOver(m.ctx, q, 8*time.Second, limit)) })
}

func (m *model) refunds(*rapid.T) {
	limit := m.number("limit", 1, 3)
	m.same("LeaseDueRefunds", func(f *storetest.Fixture) []any { return answers(f.LeaseDueRefunds(m.ctx, 5*time.Second, limit)) })
}

func (m *model) refunded(*rapid.T) {
	held := m.held()
	m.same("ConfirmRefund", func(f *storetest.Fixture) []any { return answers(f.ConfirmRefund(m.ctx, held)) })
}

func (m *model) code() string {
	if len(m.codes) == 0 {
		return "none"
	}
	return pick(m, "verification", m.codes...)
}

func (m *model) attempt(*rapid.T) {
	id := m.code()
	m.same("Check", func(f *storetest.Fixture) []any { return answers(f.Check(m.ctx, storetest.Wrong(id))) })
}

func (m *model) approve(*rapid.T) {
	id, event := m.code(), m.real.Telling("verification.approved")
	m.told = append(m.told, event.ID)
	m.same("Check", func(f *storetest.Fixture) []any { return answers(f.Check(m.ctx, storetest.Right(id, event))) })
	m.same("Redeem", func(f *storetest.Fixture) []any { return answers(f.Redeem(m.ctx, id, nil)) })
}

func (m *model) cancel(*rapid.T) {
	if id := m.code(); id != "none" && m.number("really", 0, 3) == 0 {
		m.same("Cancel", func(f *storetest.Fixture) []any { return answers(f.Cancel(m.ctx, id)) })
	}
}

func (m *model) suppress(*rapid.T) {
	s := store.Suppression{
		ID: uuid.UUID{0: byte(m.number("id", 1, 4))}, Channel: recipient.Email, Address: storetest.Address(1),
		Cause: store.CauseManual, App: pick(m, "app", "", "shop", "desk"),
	}
	lasts := max(time.Microsecond, m.span("lasts"))
	m.same("Suppress", func(f *storetest.Fixture) []any { return answers(f.Suppress(m.ctx, s, lasts, nil)) })
}

func (m *model) lift(*rapid.T) {
	l := store.LiftSuppressionsRequest{
		Channel: recipient.Email, Address: storetest.Address(1), App: pick(m, "app", "", "shop"),
		By: "ops", Why: "mended",
	}
	m.same("Lift", func(f *storetest.Fixture) []any { return answers(f.LiftSuppressions(m.ctx, l, nil)) })
}

// claim claims a key for a send that nobody asked for before, as the service does, and may begin
// the send.
func (m *model) claim(*rapid.T) {
	in := m.real.Intent(m.number("recipient", 1, 2))
	c := store.IdempotencyClaim{
		Key: [32]byte{byte(m.number("key", 1, 3))}, Fingerprint: [32]byte{byte(m.number("asked", 1, 2))},
		SendID: in.Send.ID, Lease: 8 * time.Second, Life: 24 * time.Hour,
	}
	if m.number("release", 0, 2) == 0 {
		id, forget := pick(m, "released", m.claimed[c.Key], m.claimed[c.Key], m.held().ID), rapid.Bool().Draw(m.T, "forget")
		m.same("ReleaseIdempotencyKey", func(f *storetest.Fixture) []any { return answers(f.ReleaseIdempotencyKey(m.ctx, c.Key, id, forget)) })
	}
	got := m.same("ClaimIdempotencyKey", func(f *storetest.Fixture) []any { return answers(f.ClaimIdempotencyKey(m.ctx, c)) }).(store.IdempotencyClaimAnswer)
	if got.State != store.IdempotencyClaimGranted {
		return
	}
	m.claimed[c.Key], in.Send.ID = got.SendID, got.SendID
	if rapid.Bool().Draw(m.T, "begins") {
		m.intents = append(m.intents, in)
		m.beginOnBoth("Begin of a claim", in)
	}
}

// events takes events that are due, ends an attempt or forgets old ones.
func (m *model) events(*rapid.T) {
	shares := []store.AppEventLimit{{App: "shop", Limit: m.number("share", 1, 3)}, {App: "desk", Limit: 1}}
	m.same("LeaseDueAppEvents", func(f *storetest.Fixture) []any {
		return answers(f.LeaseDueAppEvents(m.ctx, 30*time.Second, shares))
	})
	if len(m.told) > 0 {
		end := store.AppEventAttemptEnd{
			AttemptID: store.AttemptID{
				ID:      pick(m, "event", m.told...),
				Attempt: pick(m, "attempt", 1, 1, 2, 3),
			}, Answer: "503",
			State: pick(m, "state", store.EventPending, store.EventDelivered, store.EventGivenUp),
			After: max(0, m.span("after")),
		}
		m.same("EndAppEventAttempt", func(f *storetest.Fixture) []any { return answers(f.EndAppEventAttempt(m.ctx, end)) })
	}
	if m.number("forget", 0, 3) == 0 {
		keep, limit := max(0, m.span("keep")), m.number("limit", 1, 3)
		m.same("ForgetAppEvents", func(f *storetest.Fixture) []any { return answers(f.ForgetAppEvents(m.ctx, keep, limit)) })
	}
	filter := store.AppEventFilter{
		App:   pick(m, "app", "", "shop"),
		State: pick(m, "listed", "", store.EventPending, store.EventGivenUp), Limit: 9,
	}
	m.same("AppEvents", func(f *storetest.Fixture) []any { return answers(f.AppEvents(m.ctx, filter)) })
}

// report is what a carrier or a mail provider tells of a message.
func (m *model) report(*rapid.T) {
	send, lasts := m.held().ID, max(0, m.span("lasts"))
	if rapid.Bool().Draw(m.T, "receipt") {
		status := pick(m, "status", store.Delivered, store.Undelivered)
		m.same("RecordReceipt", func(f *storetest.Fixture) []any { return answers(f.RecordReceipt(m.ctx, send, status)) })
		return
	}
	told := store.ProviderEvent{Send: send, Kind: pick(m, "kind", storetest.RankedEventKinds...), At: storetest.Epoch.Add(lasts)}
	as := store.NewSuppression{Cause: store.CauseComplaint, Address: storetest.Address(1), For: lasts}
	m.same("IngestProviderEvent", func(f *storetest.Fixture) []any { return answers(f.IngestProviderEvent(m.ctx, told, as)) })
}

func (m *model) reset(*rapid.T) {
	b := store.Bucket{
		App: "shop", Channel: recipient.Email, Purposes: pick(m, "purposes", []string{"login", "signup"}, []string{"gift"}),
		Recipient: recipient.Hash{15: byte(m.number("recipient", 1, 2))},
	}
	act := m.real.Act(func(a *store.AuditEntry) { a.ID = uuid.New() })
	m.same("ResetCounters", func(f *storetest.Fixture) []any { return answers(f.ResetCounters(m.ctx, []store.Bucket{b}, act)) })
}

func (m *model) erase(*rapid.T) {
	if m.number("really", 0, 3) > 0 {
		return
	}
	h, keep := recipient.Hash{15: byte(m.number("recipient", 1, 2))}, max(time.Microsecond, m.span("keep"))
	act := m.real.Act(func(a *store.AuditEntry) { a.ID = uuid.New() })
	m.same("Erase", func(f *storetest.Fixture) []any { return answers(f.Erase(m.ctx, h, keep, act)) })
}

func (m *model) forget(*rapid.T) {
	m.same("ForgetDueErased", func(f *storetest.Fixture) []any { return answers(f.ForgetDueErased(m.ctx)) })
}

func (m *model) refused(*rapid.T) {
	var rows []store.SendOrRefusal
	for range m.number("rows", 1, 3) {
		r := m.real.Refusal(m.number("recipient", 1, 2), func(s *store.SendOrRefusal) {
			s.Count, s.RetryAfter = m.number("count", 0, 3), max(0, m.span("wait"))
			s.BlockedBy, s.Recipients = pick(m, "rule", "minute", "hour"), m.number("recipients", 0, 2)
		})
		if len(m.refusals) > 0 && rapid.Bool().Draw(m.T, "old") {
			r.ID = pick(m, "row", m.refusals...)
		}
		rows, m.sends, m.refusals = append(rows, r), append(m.sends, r.ID), append(m.refusals, r.ID)
	}
	m.same("Refused", func(f *storetest.Fixture) []any { return answers(f.RecordRefusals(m.ctx, rows)) })
}
