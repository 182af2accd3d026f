package storetest

import (
	"context"
	"encoding/binary"
	"errors"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/base/fault"
	"sendcode/internal/base/recipient"
	"sendcode/internal/kit/servertest"
	"sendcode/internal/store"
	"sendcode/internal/store/rowrules"
	"sendcode/internal/store/sqldb"
	"sendcode/quota"
)

// Epoch is where tests start a clock that they move. It is not a whole second.
var Epoch = time.Date(2030, 3, 1, 12, 0, 0, 123457000, time.UTC)

// TestClock is a clock that tests move.
type TestClock struct {
	mu sync.Mutex
	At time.Time
}

// Now returns the clock's time.
func (c *TestClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.At
}

// Step moves the clock by d, which can be negative.
func (c *TestClock) Step(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.At = c.At.Add(d)
}

// Fixture is a database under test with its clock, and a replica: a second store on the same rows.
type Fixture struct {
	*sqldb.DB
	Replica *sqldb.DB
	step    func(time.Duration)
	Now     time.Time // time on the database's clock; Pass moves it
	Serial  uint64
}

// database is Postgres or SQLite.
type database interface{ Store() *sqldb.DB }

// NewFixture returns a fixture without a replica, on the present time.
func NewFixture(db database) *Fixture { return &Fixture{DB: db.Store()} }

// History reads the counted sends of a bucket and the rejected sends of its recipient, both no
// older than within.
func (f *Fixture) History(ctx context.Context, b store.SendBucket, within time.Duration) (rowrules.History, error) {
	return f.ReadHistory(ctx, rowrules.HistoryQuery{SendBucket: b, CountedWithin: within, RejectedWithin: within})
}

// Beside gives the fixture a replica.
func (f *Fixture) Beside(other database) *Fixture {
	f.Replica = other.Store()
	return f
}

// Clocked gives the fixture its clock: the present time, and step, which moves the clock.
func (f *Fixture) Clocked(now time.Time, step func(time.Duration)) *Fixture {
	f.Now, f.step = now, step
	return f
}

// Numbered makes the fixture number its IDs from this number on.
func (f *Fixture) Numbered(from uint64) *Fixture {
	f.Serial = from
	return f
}

// Pass moves the database's clock and f.Now by d, which can be negative.
func (f *Fixture) Pass(d time.Duration) {
	f.step(d)
	f.Now = f.Now.Add(d)
}

// DefaultRules has the rules of the default policy.
var DefaultRules = []quota.Rule{
	{Name: "minute", Scope: quota.Recipient, Limit: 1, Window: time.Minute},
	{Name: "hour", Scope: quota.Recipient, Limit: 5, Window: time.Hour},
	{Name: "day", Scope: quota.Recipient, Limit: 10, Window: 24 * time.Hour},
}

// Rule returns a policy of one rule.
func Rule(limit int, window time.Duration) []quota.Rule {
	return []quota.Rule{{Name: "rule", Scope: quota.Recipient, Limit: limit, Window: window}}
}

// Intent returns an intent for recipient n without rules, with the changes.
func (f *Fixture) Intent(n int, changes ...func(*store.Intent)) store.Intent {
	id := f.id()
	in := store.Intent{
		Send: store.Send{
			ID: id, App: "shop", Channel: recipient.Email, Purpose: "login", Recipient: recipient.Hash{15: byte(n), 14: byte(n >> 8)},
			To: "a•••@example.com", Locale: "en", Labels: store.Labels{Reference: "order 7"}, Network: "192.0.2.0/24",
		},
		Purposes: []string{"login", "signup"}, TTL: 10 * time.Minute, MinLife: 2 * time.Minute, Lease: 8 * time.Second,
		Verification: store.Verification{
			ID: "v-" + id.String(), Sealed: []byte{0, 1, 255}, Nonce: []byte("0123456789abcdef"), KeyID: "k1",
			CodeLength: 6, Alphabet: "digits", MaxAttempts: 5,
		},
	}
	for _, change := range changes {
		change(&in)
	}
	return in
}

// id returns an ID of the database's present time. Unless the clock was set back, it is greater
// than all earlier ones.
func (f *Fixture) id() uuid.UUID {
	f.Serial++
	now := f.Now
	if now.IsZero() {
		now = time.Now()
	}
	id := store.LowestID(now)
	id[6], id[8] = 0x70, 0x80
	binary.BigEndian.PutUint32(id[12:], uint32(f.Serial))
	return id
}

// WithRules gives an intent its rules.
func WithRules(rules []quota.Rule) func(*store.Intent) {
	return func(in *store.Intent) { in.Rules = rules }
}

// Joining makes an intent resend the code of a verification, which it names by its ID.
func Joining(verification string) func(*store.Intent) {
	return func(in *store.Intent) { in.Join = verification }
}

// MustBegin begins a send. Whether the send is admitted does not matter.
func (f *Fixture) MustBegin(t *testing.T, in store.Intent) store.BeginAnswer {
	t.Helper()
	begun, err := f.Begin(t.Context(), in)
	if err != nil {
		t.Fatalf("Begin: %v", err)
	}
	return begun
}

// Admit begins a send that must be admitted.
func (f *Fixture) Admit(t *testing.T, in store.Intent) store.BeginAnswer {
	t.Helper()
	begun := f.MustBegin(t, in)
	if !begun.Admitted {
		t.Fatalf("refused, wanted admitted: %s", Show(begun))
	}
	return begun
}

// BeginAll begins n sends at once, on the database and on its replica, so that they share round
// trips. It returns all answers, and how many sends were admitted.
func (f *Fixture) BeginAll(t *testing.T, n int, intent func(i int) store.Intent) (begun []store.BeginAnswer, admitted int) {
	t.Helper()
	intents := make([]store.Intent, n)
	for i := range intents {
		intents[i] = intent(i)
	}
	begun = make([]store.BeginAnswer, n)
	return begun, f.atOnce(t, n, func(db *sqldb.DB, i int) (did bool, err error) {
		begun[i], err = db.Begin(t.Context(), intents[i])
		return begun[i].Admitted, err
	})
}

// admitAll begins n sends at once, which must be admitted.
func (f *Fixture) admitAll(t *testing.T, n int, intent func(i int) store.Intent) []store.BeginAnswer {
	t.Helper()
	begun, admitted := f.BeginAll(t, n, intent)
	Equal(t, "admitted", admitted, n)
	return begun
}

// endAll finishes the first attempts of sends, all at once.
func (f *Fixture) endAll(t *testing.T, sends []store.BeginAnswer, outcome func(i int) store.Outcome) {
	t.Helper()
	outcomes := make([]store.Outcome, len(sends))
	for i := range outcomes {
		outcomes[i] = outcome(i)
		outcomes[i].AttemptID = Held(sends[i].Send.ID, 1)
	}
	Equal(t, "finished", f.atOnce(t, len(sends), func(db *sqldb.DB, i int) (bool, error) { return db.Finish(t.Context(), outcomes[i]) }),
		len(sends))
}

// Refuse begins a send that must be refused.
func (f *Fixture) Refuse(t *testing.T, in store.Intent) store.BeginAnswer {
	t.Helper()
	begun := f.MustBegin(t, in)
	if begun.Admitted {
		t.Fatal("admitted, wanted refused")
	}
	return begun
}

// All reads every row, page by page.
func (f *Fixture) All(t *testing.T) []store.SendOrRefusal {
	t.Helper()
	return f.pages(t, store.Filter{Limit: store.MaxPageRows}, false)
}

// RowOf returns a send as a row of a list.
func RowOf(s store.Send) store.SendOrRefusal {
	return store.SendOrRefusal{Send: s, Refusal: store.Refusal{Count: 1}}
}

func (f *Fixture) Row(t *testing.T, id uuid.UUID) store.SendOrRefusal {
	t.Helper()
	story := Must(f.SendDetails(t.Context(), id))(t)
	return story.Send
}

// OK ends the test at an error.
func OK(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Must returns the result of a call. If the call failed, it ends the test.
func Must[A any](a A, err error) func(testing.TB) A {
	return func(t testing.TB) A { t.Helper(); OK(t, err); return a }
}

// must2 is Must for two answers.
func must2[A, B any](a A, b B, err error) func(testing.TB) (A, B) {
	return func(t testing.TB) (A, B) { t.Helper(); OK(t, err); return a, b }
}

// Must3 is Must for three answers.
func Must3[A, B, C any](a A, b B, c C, err error) func(testing.TB) (A, B, C) {
	return func(t testing.TB) (A, B, C) { t.Helper(); OK(t, err); return a, b, c }
}

// Err returns only the error of a call. err2 and err3 do so for calls with more results.
func Err[A any](_ A, err error) error { return err }

func err2[A, B any](_ A, _ B, err error) error { return err }

func err3[A, B, C any](_ A, _ B, _ C, err error) error { return err }

// Code reads one verification.
func (f *Fixture) Code(t *testing.T, id string) store.Verification {
	t.Helper()
	v, _, _ := Must3(f.Verification(t.Context(), id))(t)
	return v
}

// Is ends the test unless err wraps want.
func Is(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("error %v, wanted %v", err, want)
	}
}

// Certain ends the test unless err says that the database failed, and that nothing was written.
func Certain(t *testing.T, err error) {
	t.Helper()
	Is(t, err, fault.Unavailable)
	if errors.Is(err, fault.Uncertain) {
		t.Fatalf("nothing was written, yet %v", err)
	}
}

// Equal ends the test unless Show returns the same text for both values. Of structs, it prints the
// fields that differ.
func Equal[T any](t *testing.T, what string, got, want T) {
	t.Helper()
	same := func(got, want any) bool { return Show(got) == Show(want) }
	if !same(got, want) {
		t.Fatalf("%s: %s", what, servertest.Difference(got, want, same))
	}
}

// IDs returns the rows' IDs, in the order of the rows.
func IDs(rows []store.SendOrRefusal) []uuid.UUID {
	var list []uuid.UUID
	for _, r := range rows {
		list = append(list, r.ID)
	}
	return list
}

func reversed[T any](list []T) []T {
	list = slices.Clone(list)
	slices.Reverse(list)
	return list
}

// Together calls f n times at once and waits.
func Together(n int, f func(i int)) {
	var start, done sync.WaitGroup
	start.Add(1)
	for i := range n {
		done.Go(func() { start.Wait(); f(i) })
	}
	start.Done()
	done.Wait()
}

// atOnce makes n calls at once, in turn on the database and on its replica. It returns how many
// calls returned true.
func (f *Fixture) atOnce(t *testing.T, n int, call func(db *sqldb.DB, i int) (bool, error)) int {
	t.Helper()
	var yes atomic.Int32
	Together(n, func(i int) {
		did, err := call(f.Both(i), i)
		if err != nil {
			t.Error(err)
		}
		if did {
			yes.Add(1)
		}
	})
	return int(yes.Load())
}

// eachOnce lets eight callers take items at once. It ends the test unless want items were taken,
// each by one caller.
func eachOnce[K comparable](t *testing.T, f *Fixture, want int, take func(db *sqldb.DB) ([]K, error)) {
	t.Helper()
	var mu sync.Mutex
	taken := map[K]int{}
	Together(8, func(i int) {
		for range 10 {
			list, err := take(f.Both(i))
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			for _, k := range list {
				taken[k]++
			}
			mu.Unlock()
		}
	})
	Equal(t, "taken", len(taken), want)
	for k, n := range taken {
		if n != 1 {
			t.Errorf("%v was taken %d times", k, n)
		}
	}
}

// pages reads the rows of a filter page by page: from the newest on or, with up, from the mark
// After on.
func (f *Fixture) pages(t *testing.T, filter store.Filter, up bool) (all []store.SendOrRefusal) {
	t.Helper()
	for {
		page := Must(f.Sends(t.Context(), filter))(t)
		if up {
			all = append(page, all...)
		} else {
			all = append(all, page...)
		}
		if len(page) < filter.Limit {
			return all
		}
		newest, oldest := page[0], page[len(page)-1]
		if up {
			filter.After = &store.Cursor{At: newest.LoggedAt, ID: newest.ID}
		} else {
			filter.Before = &store.Cursor{At: oldest.LoggedAt, ID: oldest.ID}
		}
	}
}

// TempFile returns the path of a database that is removed with the test.
func TempFile(t *testing.T) string { return filepath.Join(t.TempDir(), "test.db") }

// Count counts the rows, up to 200, through the replica.
func (f *Fixture) Count(t *testing.T) int {
	t.Helper()
	rows := Must(f.Replica.Sends(t.Context(), store.Filter{Limit: store.MaxPageRows}))(t)
	return len(rows)
}

// SumRefusals counts the refusals' rows of one recipient, the rows that recipients share, and the
// requests of all rows.
func SumRefusals(rows []store.SendOrRefusal) (own, shared, requests int) {
	for _, row := range rows {
		if row.Recipients > 0 {
			shared++
		} else {
			own++
		}
		requests += row.Count
	}
	return own, shared, requests
}
