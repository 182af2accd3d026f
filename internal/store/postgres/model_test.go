package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"sendcode/internal/recipient"
	"sendcode/internal/store"
	"sendcode/internal/store/sqlite"
	"sendcode/internal/store/storetest"
	"sendcode/quota"
)

// TestModel runs random schedules on both databases at once, of the calls for which each has a statement of its own and of those that
// change what they read: both must answer the same to every call, whatever came before. SQLite, in which one call follows the other, is
// the model of Postgres. Instants fall on window edges, 1 µs to either side, and on clocks that go back.
func TestModel(t *testing.T) {
	f := newPostgresFixture(t)
	log := f.DB.(*DB)
	// A look for what is overdue begins where the last one ended, and with the oldest row only every ten minutes of the log's clock.
	// Where that clock goes back and forth between two looks, a row may wait so long: the model asks without that delay.
	back := func() { log.overdue.marks = nil }
	start := f.Now
	rapid.Check(t, func(rt *rapid.T) {
		storetest.Must(log.pool.Exec(t.Context(), emptyModel))(t)
		back()
		clock := &storetest.TestClock{At: start}
		lite := storetest.Must(sqlite.OpenMemory(clock.Now))(t)
		defer func() { storetest.OK(t, lite.Close()) }()
		twin := storetest.NewFixture(lite).Clocked(start, clock.Step)
		f.Pass(start.Sub(f.Now))
		m := &model{T: rt, ctx: t.Context(), twin: twin, real: f, back: back}
		m.Repeat(map[string]func(*rapid.T){
			"begin": m.begin, "begin again": m.beginAgain, "pass": m.pass, "finish": m.finish, "postpone": m.postpone, "renew": m.renew,
			"take over": m.takeOver, "refunds": m.refunds, "refunded": m.refunded, "attempt": m.attempt, "approve": m.approve,
			"cancel": m.cancel, "suppress": m.suppress, "forgive": m.forgive, "erase": m.erase, "forget": m.forget, "refused": m.refused,
			"read": m.read, "": m.invariant,
		})
	})
}

const emptyModel = `DELETE FROM sends; DELETE FROM flights; DELETE FROM failures; DELETE FROM refunds; DELETE FROM verifications; DELETE FROM suppressions; DELETE FROM app_events; DELETE FROM provider_events; DELETE FROM erasures`

type model struct {
	*rapid.T
	ctx        context.Context
	twin, real *storetest.Fixture
	back       func() // to call when the log's clock goes back
	intents    []store.Intent
	sends      []uuid.UUID // refusals too
	codes      []string
	taken      map[string]time.Duration // of each limiter's clock, since epoch
}

var modelRules = [][]quota.Rule{
	nil, storetest.Rule(1, time.Minute), storetest.Rule(2, time.Hour), storetest.DefaultRules,
	{{Name: "a", Limit: 3, Window: 2 * time.Minute}, {Name: "b", Limit: 2, Window: time.Minute}},
	{{Name: "today", Limit: 2, Per: quota.Day, Zone: time.FixedZone("China", 8*3600)}, {Name: "b", Limit: 2, Window: time.Hour}},
	{{Name: "hourly", Limit: 1, Per: quota.Hour}},
	{{Name: "dates", Limit: 2, Days: 2, Zone: time.FixedZone("China", 8*3600)}, {Name: "b", Limit: 1, Window: time.Hour}},
}

// span is a length of time that matters to something: windows, lives, leases, and their neighbours.
func (m *model) span(label string) time.Duration {
	base := rapid.SampledFrom([]time.Duration{
		0, time.Second, 5 * time.Second, 8 * time.Second, 30 * time.Second, time.Minute, 2 * time.Minute, 8 * time.Minute, 10 * time.Minute,
		time.Hour, 24 * time.Hour, 25 * time.Hour,
		59*time.Minute + 59*time.Second + 876543*time.Microsecond, // from epoch to the turn of an hour
	}).Draw(m.T, label)
	return base + time.Duration(rapid.IntRange(-1, 1).Draw(m.T, "µs"))*time.Microsecond
}

// same makes one call on both logs and compares what they say.
func (m *model) same(what string, call func(f *storetest.Fixture) (any, error)) any {
	m.Helper()
	want, wantErr := call(m.twin)
	got, gotErr := call(m.real)
	for _, kind := range []error{store.ErrNotFound, store.ErrUnavailable, store.ErrUncertain, store.ErrBadRequest} {
		if errors.Is(wantErr, kind) != errors.Is(gotErr, kind) || (wantErr == nil) != (gotErr == nil) {
			m.Fatalf("%s: error %v, wanted %v", what, gotErr, wantErr)
		}
	}
	if g, w := storetest.Show(got), storetest.Show(want); wantErr == nil && g != w {
		m.Fatalf("%s:\n got %s\nwant %s", what, g, w)
	}
	return want
}

func (m *model) pass(*rapid.T) {
	d := m.span("pass")
	if rapid.IntRange(0, 9).Draw(m.T, "back") == 0 {
		d = -d
		m.back()
	}
	m.twin.Pass(d)
	m.real.Pass(d)
}

func (m *model) begin(*rapid.T) {
	in := m.real.Intent(rapid.IntRange(1, 2).Draw(m.T, "recipient"))
	in.Rules = rapid.SampledFrom(modelRules).Draw(m.T, "rules")
	if clock := rapid.SampledFrom([]string{"", store.LogClock, "redis", "redis", "redis", "other"}).Draw(m.T, "clock"); clock != "" {
		if m.taken == nil {
			m.taken = map[string]time.Duration{}
		}
		m.taken[clock] += m.span("later")
		if rapid.IntRange(0, 9).Draw(m.T, "back") == 0 {
			m.taken[clock] -= m.span("earlier") * 2
		}
		in.Send.Clock, in.Send.TakenAt = clock, storetest.Epoch.Add(m.taken[clock])
	}
	in.Send.Purpose = rapid.SampledFrom([]string{"login", "login", "signup", "gift"}).Draw(m.T, "purpose")
	if in.Send.Purpose == "gift" {
		in.Purposes = []string{"gift"}
	}
	if rapid.IntRange(0, 5).Draw(m.T, "sms") == 0 {
		in.Send.Channel = recipient.SMS
	}
	in.Verification.Holder = rapid.SampledFrom([]string{"", "s:1", "s:1", "s:2"}).Draw(m.T, "holder")
	in.Verification.ByBrowser = in.Verification.Holder == "" && rapid.Bool().Draw(m.T, "by browser")
	if len(m.codes) > 0 && rapid.IntRange(0, 3).Draw(m.T, "join") == 0 {
		in.Join = rapid.SampledFrom(m.codes).Draw(m.T, "named")
	}
	in.Rejections = rapid.SampledFrom([]quota.Rule{{}, {}, storetest.FailedAtMost(1, time.Minute),
		storetest.FailedAtMost(2, time.Hour)}).Draw(m.T, "rejections")
	in.Send.Observed = rapid.SampledFrom([][]string{nil, nil, {"office"}, {"office", "stricter"}}).Draw(m.T, "observed")
	in.MinLife = rapid.SampledFrom([]time.Duration{0, 2 * time.Minute}).Draw(m.T, "min life")
	in.Address = storetest.Address(rapid.SampledFrom([]byte{1, 1, 2}).Draw(m.T, "address"))
	m.intents = append(m.intents, in)
	begun := m.same("Begin", func(f *storetest.Fixture) (any, error) { return f.Begin(m.ctx, in) }).(store.Begun)
	if begun.Admitted {
		m.sends, m.codes = append(m.sends, in.Send.ID), append(m.codes, begun.Verification.ID)
	}
}

func (m *model) beginAgain(*rapid.T) {
	if len(m.intents) == 0 {
		return
	}
	in := rapid.SampledFrom(m.intents).Draw(m.T, "intent")
	begun := m.same("Begin again", func(f *storetest.Fixture) (any, error) { return f.Begin(m.ctx, in) }).(store.Begun)
	if begun.Admitted && !slices.Contains(m.sends, in.Send.ID) {
		m.sends, m.codes = append(m.sends, in.Send.ID), append(m.codes, begun.Verification.ID)
	}
}

// held names a row, with its attempt or another one.
func (m *model) held() store.Held {
	id := uuid.UUID{1}
	if len(m.sends) > 0 {
		id = rapid.SampledFrom(m.sends).Draw(m.T, "send")
	}
	return store.Held{ID: id, Attempt: rapid.SampledFrom([]int{1, 1, 1, 2, 2, 3, 0}).Draw(m.T, "attempt")}
}

func (m *model) finish(*rapid.T) {
	o := store.Outcome{Held: m.held(), Status: rapid.SampledFrom([]store.Status{store.Sent, store.Failed, store.Failed,
		store.Unknown}).Draw(m.T, "status"), Reason: rapid.SampledFrom([]string{"r", store.ReasonRejected, store.ReasonSuppressed,
		store.ReasonPaused}).Draw(m.T, "reason"), Provider: "p", ProviderCode: "250", Took: time.Second}
	o.Refund = o.Status == store.Failed && rapid.Bool().Draw(m.T, "refund")
	if o.Status == store.Failed && rapid.IntRange(0, 3).Draw(m.T, "bounce") == 0 {
		o.Suppress = store.SuppressAs{Cause: store.HardBounce, Address: storetest.Address(1), For: max(time.Microsecond, m.span("lasts"))}
	}
	m.same("Finish", func(f *storetest.Fixture) (any, error) { return f.Finish(m.ctx, o) })
}

func (m *model) postpone(*rapid.T) {
	p := store.Postponement{Held: m.held(), After: max(0, m.span("after")), Reason: "later", Provider: "p", ProviderCode: "451"}
	m.same("Postpone", func(f *storetest.Fixture) (any, error) { return f.Postpone(m.ctx, p) })
}

func (m *model) renew(*rapid.T) {
	held := []store.Held{m.held(), m.held()}
	m.same("Renew", func(f *storetest.Fixture) (any, error) { return nil, f.Renew(m.ctx, 30*time.Second, held) })
}

func (m *model) takeOver(*rapid.T) {
	limit := rapid.IntRange(1, 3).Draw(m.T, "limit")
	ch := rapid.SampledFrom(recipient.Channels()).Draw(m.T, "channel")
	m.same("TakeOver", func(f *storetest.Fixture) (any, error) { return f.TakeOver(m.ctx, ch, 8*time.Second, limit) })
}

func (m *model) refunds(*rapid.T) {
	limit := rapid.IntRange(1, 3).Draw(m.T, "limit")
	m.same("RefundsDue", func(f *storetest.Fixture) (any, error) { return f.RefundsDue(m.ctx, 5*time.Second, limit) })
}

func (m *model) refunded(*rapid.T) {
	held := m.held()
	m.same("Refunded", func(f *storetest.Fixture) (any, error) { return nil, f.Refunded(m.ctx, held) })
}

func (m *model) code() string {
	if len(m.codes) == 0 {
		return "none"
	}
	return rapid.SampledFrom(m.codes).Draw(m.T, "verification")
}

func (m *model) attempt(*rapid.T) {
	id := m.code()
	m.same("Attempt", func(f *storetest.Fixture) (any, error) {
		v, counted, now, err := f.Attempt(m.ctx, id)
		return fmt.Sprint(storetest.Show(v), counted, storetest.Show(now)), err
	})
}

func (m *model) approve(*rapid.T) {
	id := m.code()
	m.same("Approve", func(f *storetest.Fixture) (any, error) { return f.Approve(m.ctx, id, store.NewEvent{}) })
}

func (m *model) cancel(*rapid.T) {
	if id := m.code(); id != "none" && rapid.IntRange(0, 3).Draw(m.T, "really") == 0 {
		m.same("Cancel", func(f *storetest.Fixture) (any, error) { return f.Cancel(m.ctx, id) })
	}
}

func (m *model) suppress(*rapid.T) {
	s := store.Suppression{
		ID: uuid.UUID{0: byte(rapid.IntRange(1, 4).Draw(m.T, "id"))}, Channel: recipient.Email, Address: storetest.Address(1),
		Cause: store.Manual,
		App:   rapid.SampledFrom([]string{"", "shop", "desk"}).Draw(m.T, "app"),
	}
	lasts := max(time.Microsecond, m.span("lasts"))
	m.same("Suppress", func(f *storetest.Fixture) (any, error) {
		got, added, err := f.Suppress(m.ctx, s, lasts, nil)
		return fmt.Sprint(storetest.Show(got), added), err
	})
}

func (m *model) forgive(*rapid.T) {
	purposes := rapid.SampledFrom([][]string{{"login", "signup"}, {"gift"}}).Draw(m.T, "purposes")
	b := store.Bucket{App: "shop", Channel: recipient.Email, Recipient: recipient.Hash{15: byte(rapid.IntRange(1, 2).Draw(m.T, "recipient"))},
		Purposes: purposes}
	act := m.real.Act(func(a *store.AuditEntry) { a.ID = uuid.New() })
	m.same("ResetCounters", func(f *storetest.Fixture) (any, error) { return nil, f.ResetCounters(m.ctx, []store.Bucket{b}, act) })
}

func (m *model) erase(*rapid.T) {
	if rapid.IntRange(0, 3).Draw(m.T, "really") > 0 {
		return
	}
	h, keep := recipient.Hash{15: byte(rapid.IntRange(1, 2).Draw(m.T, "recipient"))}, max(time.Microsecond, m.span("keep"))
	act := m.real.Act(func(a *store.AuditEntry) { a.ID = uuid.New() })
	m.same("Erase", func(f *storetest.Fixture) (any, error) { return nil, f.Erase(m.ctx, h, keep, act) })
}

func (m *model) forget(*rapid.T) {
	m.same("Forget", func(f *storetest.Fixture) (any, error) { return f.Forget(m.ctx) })
}

func (m *model) refused(*rapid.T) {
	var rows []store.Send
	for range rapid.IntRange(1, 3).Draw(m.T, "rows") {
		r := m.real.Refusal(rapid.IntRange(1, 2).Draw(m.T, "recipient"), func(s *store.Send) {
			s.Count, s.RetryAfter = rapid.IntRange(0, 3).Draw(m.T, "count"), max(0, m.span("wait"))
			s.Clock, s.TakenAt = "redis", storetest.Epoch
		})
		if len(m.sends) > 0 && rapid.Bool().Draw(m.T, "old") {
			r.ID = rapid.SampledFrom(m.sends).Draw(m.T, "row")
		}
		rows, m.sends = append(rows, r), append(m.sends, r.ID)
	}
	m.same("Refused", func(f *storetest.Fixture) (any, error) { return nil, f.Refused(m.ctx, rows) })
}

func (m *model) read(*rapid.T) {
	send := m.held().ID
	m.same("Story", func(f *storetest.Fixture) (any, error) { return f.Story(m.ctx, send) })
	browsers := rapid.Bool().Draw(m.T, "browsers")
	m.same("LockedOut", func(f *storetest.Fixture) (any, error) {
		return f.LockedOut(m.ctx, store.Verification{App: "shop", Channel: recipient.Email, Recipient: recipient.Hash{15: 1},
			ByBrowser: browsers})
	})
	within := max(0, m.span("within"))
	bucket := store.Bucket{App: "shop", Channel: recipient.Email, Recipient: recipient.Hash{15: 1}, Purposes: []string{"login", "signup"}}
	m.same("History", func(f *storetest.Fixture) (any, error) {
		events, now, err := f.History(m.ctx, bucket, within)
		return storetest.Show(events) + storetest.Show(now), err
	})
	filter := store.Filter{Limit: rapid.IntRange(1, 5).Draw(m.T, "limit"),
		Status: rapid.SampledFrom([]store.Status{"", store.Refused, store.Sending, store.Failed}).Draw(m.T, "status")}
	if rapid.Bool().Draw(m.T, "one recipient") {
		filter.Recipient = &recipient.Hash{15: 1}
	}
	if rapid.Bool().Draw(m.T, "page") {
		filter.Before = &store.Mark{At: storetest.Epoch.Add(m.span("mark")), ID: send}
	}
	m.same("Sends", func(f *storetest.Fixture) (any, error) { return f.Sends(m.ctx, filter) })
}

// invariant: after every step the whole log is the same.
func (m *model) invariant(*rapid.T) {
	m.same("suppressions", func(f *storetest.Fixture) (any, error) {
		list, _, err := f.Suppressions(m.ctx, store.SuppressionFilter{Limit: store.MaxPage})
		return list, err
	})
	m.same("log", func(f *storetest.Fixture) (any, error) { return f.Sends(m.ctx, store.Filter{Limit: store.MaxPage}) })
}
