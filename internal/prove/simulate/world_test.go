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
	db      *sqlitetest.DB              // the oracles read it without faults
	redis   *verificationtest.FakeRedis // the limiter
	logged  *servertest.Text            // the logs of the replicas
	posted  *servertest.Text            // the bodies of webhooks
	answers *servertest.Text            // the bodies of answers
	actors  sync.WaitGroup

	changing        sync.Mutex // locked while policies change
	mu              sync.Mutex
	faultEnds       map[Kind]time.Time // when each lasting fault ends
	replicas        []*Replica
	calls           map[string]int // how many calls there were, by label
	counts          map[string]int
	trace           []string
	committing      chan struct{} // closed when the commit under way has ended; nil: there is none
	people          []*person
	mails           []mail
	hooks           map[string]string // the bodies that the receiver accepted, by webhook-id
	broken          []Violation
	policies        []inForce
	failing         []Event       // calls that will fail, each with the number of calls until then
	failed          int           // how many of these calls have failed
	crashes         int           // how many kills, freezes and steps of the database's clock there were
	crashed         []time.Time   // when they happened, and when freezes end
	movedWrites     int           // the limiter's writes that failovers lost, or that were late after a stall
	stalls          []time.Time   // when the limiter answered again after a stall
	stepped         time.Time     // when the limiter's clock was first set
	ahead           time.Duration // how far the limiter's clock is ahead
	databaseAhead   time.Duration // how far the database's clock is ahead
	databaseStepped bool
	troubles        int // how many faults there were, and beginnings and ends of changes of policies
	requests        []*request
	acts            []administered
	others          []*person         // strangers, and recipients whose codes they exhaust
	verifications   map[string]string // the IDs of verifications, by the ID of a send in an answer
}

// inForce is the span in which replicas had the policies of a number. If its end is zero, they
// still have them.
type inForce struct {
	number   int
	from, to time.Time
}

func newWorld(t *testing.T, p Plan, o Options) *world {
	if p.MonthEnds { // the month ends in the middle of a burst
		time.Sleep(time.Until(countsUntil(month, time.Now()).Add(-p.Span/2 - 10*time.Second)))
	}
	w := &world{
		T: t, plan: p, options: o, begin: time.Now(), logged: &servertest.Text{}, posted: &servertest.Text{},
		faultEnds: map[Kind]time.Time{}, calls: map[string]int{}, counts: map[string]int{}, hooks: map[string]string{},
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

// settle is the time at the end, without faults, in which everything may end. It is longer than the
// life of a code.
const settle = 9 * time.Minute

// play runs the plan and repairs everything. When everything has ended, it runs the oracles.
func (w *world) play() {
	for _, e := range w.plan.Events {
		time.Sleep(time.Until(w.begin.Add(e.At)))
		w.note("event %d: %s", e.ID, e.Kind)
		w.happen(e)
	}
	time.Sleep(time.Until(w.begin.Add(w.plan.Span + time.Nanosecond))) // not at the same instant as jobs that run every ten minutes
	w.repair()
	if w.plan.Span == long || w.databaseStepped { // a lease may end this much later
		time.Sleep(settle)
	}
	time.Sleep(settle)
	w.actors.Wait()
	for _, p := range w.people { // now nothing else happens
		p.last = w.look(Event{ID: -1}, backEnd, p)
	}
	w.judge()
	w.stop()
}

func (w *world) databaseNow() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Now().Add(w.databaseAhead)
}

// repair ends all faults that last. Clocks that were set stay as they are.
func (w *world) repair() {
	w.locked(func() {
		w.stalls = append(w.stalls, time.Now()) // even if no stall lasts
		clear(w.faultEnds)
		w.failing = nil
		for _, r := range w.replicas {
			r.frozen, r.commits = time.Time{}, nil
		}
	})
}

func (w *world) stop() {
	var ending sync.WaitGroup
	for _, r := range w.replicas {
		ending.Go(r.stop)
	}
	ending.Wait()
	time.Sleep(time.Minute) // until the calls end that killed replicas had begun
	synctest.Wait()
}

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

// recordViolation records a broken promise.
func (w *world) recordViolation(oracle, format string, args ...any) {
	detail := fmt.Sprintf(format, args...)
	w.note("broken: %s: %s", oracle, detail)
	w.locked(func() { w.broken = append(w.broken, Violation{oracle, detail}) })
}

// nth returns how many calls with a label there were, including this one.
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

func isFuture(t time.Time) bool { return time.Now().Before(t) }

// faultLasts reports whether one of the faults lasts.
func (w *world) faultLasts(faults ...Kind) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.ContainsFunc(faults, func(k Kind) bool { return isFuture(w.faultEnds[k]) })
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
			w.faultEnds[map[string]Kind{"database": DatabaseAway, "commit": DatabaseAway, "limiter": LimiterAway}[part]] = time.Now()
			w.counts[string(how)+": "+part]++
		}
	}
	return how
}

type eventKey struct{}

// labelled returns a context with the name of the event to which a request belongs.
func labelled(ctx context.Context, label string) context.Context {
	return context.WithValue(ctx, eventKey{}, label)
}

// Result is what Run returns: whether a world kept the promises, and what happened in it.
type Result struct {
	Plan       Plan
	Violations []Violation
	Trace      []string       // every action in order, one line each; only with Options.Trace
	Counts     map[string]int // how often each thing happened, by its name
}

// Violation is a promise that was broken.
type Violation struct {
	Oracle string // the oracle whose promise was broken
	Detail string
}

// Options are for tests of the simulation itself.
type Options struct {
	Trace bool
	// Break changes a replica before it starts, for tests that put a fixed bug back.
	Break func(*Replica)
	// NoReserve lets strangers use up all places.
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

// Story describes the plan and the result in sentences.
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

// at formats an instant as the time since the beginning.
func (w *world) at(t time.Time) string { return clock(t.Sub(w.begin)) }

func clock(d time.Duration) string {
	d = d.Round(time.Millisecond)
	return fmt.Sprintf("%d:%02d:%02d.%03d", d/time.Hour, d%time.Hour/time.Minute, d%time.Minute/time.Second, d%time.Second/time.Millisecond)
}

// source returns a stream of random numbers of its own for each label.
func source(seed uint64, label string) *rand.Rand {
	h := uint64(14695981039346656037) // FNV-1a, 64 bits
	for _, c := range []byte(label) {
		h = (h ^ uint64(c)) * 1099511628211
	}
	return rand.New(rand.NewPCG(seed, h))
}
