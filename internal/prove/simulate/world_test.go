package simulate

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/cryptotest"
	"testing/synctest"
	"time"

	"sendcode/internal/kit/servertest"
	"sendcode/internal/store/sqlite/sqlitetest"
	"sendcode/internal/verify/verification/verificationtest"
)

// world is one run of a plan.
type world struct {
	*testing.T
	plan    Plan
	options Options
	begin   time.Time
	db      *sqlitetest.DB              // as the oracles read it: nothing goes wrong with it
	redis   *verificationtest.FakeRedis // the limiter
	logged  *servertest.Text            // what the replicas wrote to their logs
	posted  *servertest.Text            // the bodies of webhooks
	answers *servertest.Text            // the bodies of answers
	actors  sync.WaitGroup

	changing        sync.Mutex // while policies change
	mu              sync.Mutex
	lasts           map[Kind]time.Time // when each lasting fault ends
	replicas        []*Replica
	calls           map[string]int // so far, by label
	counts          map[string]int
	trace           []string
	committing      chan struct{} // closed when the commit under way has ended; nil: there is none
	people          []*person
	mails           []mail
	hooks           map[string]string // bodies that the receiver took, by webhook-id
	broken          []Violation
	policies        []inForce
	failing         []Event       // calls that will fail, each with the number of calls until then
	failed          int           // calls so far
	crashes         int           // kills and freezes so far
	crashed         []time.Time   // when
	movedWrites     int           // of the limiter: lost by failovers, or made late after a stall
	stalls          []time.Time   // when the limiter answered again after a stall
	stepped         time.Time     // when the limiter's clock was first set
	ahead           time.Duration // of the limiter's clock
	databaseAhead   time.Duration // of the database's clock
	databaseStepped bool
	troubles        int // faults so far
	requests        []*request
	acts            []administered
	others          []*person         // strangers
	verifications   map[string]string // by the ID of a send that was answered
}

// inForce is from when until when replicas had policies; zero: they still have.
type inForce struct {
	number   int
	from, to time.Time
}

func newWorld(t *testing.T, p Plan, o Options) *world {
	if p.MonthEnds { // in the middle of a burst
		time.Sleep(time.Until(countsUntil(month, time.Now()).Add(-p.Span/2 - 10*time.Second)))
	}
	w := &world{
		T: t, plan: p, options: o, begin: time.Now(), logged: &servertest.Text{}, posted: &servertest.Text{},
		lasts: map[Kind]time.Time{}, calls: map[string]int{}, counts: map[string]int{}, hooks: map[string]string{},
		verifications: map[string]string{}, answers: &servertest.Text{},
	}
	w.redis, w.db = verificationtest.NewFakeRedis(), sqlitetest.Open(t, w.databaseNow)
	w.policies = []inForce{{from: w.begin}}
	w.counts[map[bool]string{true: "world without Redis", false: "world with Redis"}[p.WithoutRedis]]++
	if p.MonthEnds {
		w.counts["world over a month's end"]++
	}
	if p.Split {
		w.policies[0].number = split
	}
	for i := range people {
		w.people = append(w.people, newPerson(i))
	}
	for i := range p.Replicas {
		w.replicas = append(w.replicas, w.start(i, 0))
	}
	return w
}

// settle is how long everything has at the end, without any trouble: longer than a code lives and a
// lockout of commits lasts.
const settle = 9 * time.Minute

// play runs the plan, repairs everything, lets it end, and asks the oracles.
func (w *world) play() {
	for _, e := range w.plan.Events {
		time.Sleep(time.Until(w.begin.Add(e.At)))
		w.note("event %d: %s", e.ID, e.Kind)
		w.happen(e)
	}
	time.Sleep(time.Until(w.begin.Add(w.plan.Span + time.Nanosecond))) // not with jobs of every ten minutes
	w.repair()
	if w.plan.Span == long || w.databaseStepped { // a lease may end so much later
		time.Sleep(settle)
	}
	time.Sleep(settle)
	w.actors.Wait()
	for _, p := range w.people { // when all is quiet
		p.last = w.look(Event{ID: -1}, backEnd, p)
	}
	w.judge()
	w.stop()
}

// databaseNow is the time on the database's clock.
func (w *world) databaseNow() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Now().Add(w.databaseAhead)
}

// repair ends all trouble.
func (w *world) repair() {
	w.locked(func() {
		w.stalls = append(w.stalls, time.Now()) // if it lasts
		clear(w.lasts)
		w.failing = nil
		for _, r := range w.replicas {
			r.frozen, r.commits = time.Time{}, nil
		}
	})
}

// stop ends every replica.
func (w *world) stop() {
	var ending sync.WaitGroup
	for _, r := range w.replicas {
		ending.Go(r.stop)
	}
	ending.Wait()
	time.Sleep(time.Minute) // what killed replicas had begun
	synctest.Wait()
}

// note writes an action into the trace.
func (w *world) note(format string, args ...any) {
	if !w.options.Trace {
		return
	}
	w.locked(func() { w.trace = append(w.trace, w.at(time.Now())+" "+fmt.Sprintf(format, args...)) })
}

// count counts events by name, for the table of coverage.
func (w *world) count(what string) {
	w.locked(func() { w.counts[what]++ })
}

// broke notes a broken promise.
func (w *world) broke(oracle, format string, args ...any) {
	detail := fmt.Sprintf(format, args...)
	w.note("broken: %s: %s", oracle, detail)
	w.locked(func() { w.broken = append(w.broken, Violation{oracle, detail}) })
}

// nth numbers the calls of a label.
func (w *world) nth(label string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls[label]++
	return w.calls[label]
}

func (w *world) locked(do func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	do()
}

// until says whether some trouble lasts.
func until(t time.Time) bool { return time.Now().Before(t) }

// wrong reports whether some fault lasts.
func (w *world) wrong(faults ...Kind) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.ContainsFunc(faults, func(k Kind) bool { return until(w.lasts[k]) })
}

// callFails returns the fault of a call of a part, or "". Only calls within the span of the plan
// are counted.
func (w *world) callFails(part string) (how Kind) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range w.failing {
		e := &w.failing[i]
		if e.Method != part || time.Since(w.begin) > w.plan.Span {
			continue
		}
		if e.N--; e.N == 0 && how == "" {
			how = e.Kind
			w.failed, w.troubles = w.failed+1, w.troubles+1
			w.lasts[map[string]Kind{"database": DatabaseAway, "commit": DatabaseAway, "limiter": LimiterAway}[part]] = time.Now()
			w.counts[string(how)+": "+part]++
		}
	}
	return how
}

type eventKey struct{}

// labelled names the event that a request belongs to.
func labelled(ctx context.Context, label string) context.Context {
	return context.WithValue(ctx, eventKey{}, label)
}

// Result of a world.
type Result struct {
	Plan       Plan
	Violations []Violation
	Trace      []string       // every action in order, one line each; only with Options.Trace
	Counts     map[string]int // how often what happened
}

// Violation is a promise that was broken.
type Violation struct {
	Oracle string // which promise
	Detail string
}

// Options are for tests of the simulation itself.
type Options struct {
	Trace bool
	// Break changes a replica before it starts, for tests that put a mended bug back.
	Break func(*Replica)
	// NoReserve lets strangers' browsers use up all places.
	NoReserve bool
}

// Run runs the world of a plan to its end.
func Run(t *testing.T, p Plan, o Options) (result Result) {
	t.Helper()
	servertest.Bubble(t, func(t *testing.T) {
		cryptotest.SetGlobalRandom(t, p.Seed)
		w := newWorld(t, p, o)
		w.play()
		result = Result{Plan: p, Violations: w.broken, Trace: w.trace, Counts: w.counts}
	})
	return result
}

// Shrink removes events from a plan while the same promise is still broken without them.
func Shrink(t *testing.T, p Plan, oracle string, o Options) Plan {
	t.Helper()
	breaks := func(p Plan) bool {
		return slices.ContainsFunc(Run(t, p, o).Violations, func(v Violation) bool { return v.Oracle == oracle })
	}
	for size := max(1, len(p.Events)/2); ; size = max(1, size/2) {
		shrunk := false
		for from := 0; from < len(p.Events); {
			less := p
			less.Events = slices.Concat(p.Events[:from], p.Events[min(from+size, len(p.Events)):])
			if breaks(less) {
				p, shrunk = less, true
				continue
			}
			from += size
		}
		if size == 1 && !shrunk {
			return p
		}
	}
}

// Story tells the plan and the result in sentences.
func (r Result) Story() string {
	var b strings.Builder
	redis := map[bool]string{true: "without", false: "with"}[r.Plan.WithoutRedis]
	over := map[bool]string{true: ", over a month's end"}[r.Plan.MonthEnds]
	fmt.Fprintf(&b, "Seed %d, %d replicas %s Redis%s:\n", r.Plan.Seed, r.Plan.Replicas, redis, over)
	for i, e := range r.Plan.Events {
		fmt.Fprintf(&b, "%3d. %s: %s\n", i+1, clock(e.At), e)
	}
	for _, v := range r.Violations {
		fmt.Fprintf(&b, "Broken promise (%s): %s\n", v.Oracle, v.Detail)
	}
	return b.String()
}

// at tells an instant since the begin.
func (w *world) at(t time.Time) string { return clock(t.Sub(w.begin)) }

func clock(d time.Duration) string {
	d = d.Round(time.Millisecond)
	return fmt.Sprintf("%d:%02d:%02d.%03d", d/time.Hour, d%time.Hour/time.Minute, d%time.Minute/time.Second, d%time.Second/time.Millisecond)
}

// source is a stream of random numbers of its own for each label.
func source(seed uint64, label string) *rand.Rand {
	h := uint64(14695981039346656037) // FNV-1a, 64 bits
	for _, c := range []byte(label) {
		h = (h ^ uint64(c)) * 1099511628211
	}
	return rand.New(rand.NewPCG(seed, h))
}
