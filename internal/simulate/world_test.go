package simulate

import (
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sendcode/internal/servertest"
	"sendcode/internal/store/sqlite"
	"sendcode/internal/store/sqlite/sqlitetest"
	"sendcode/internal/verification/verificationtest"
)

// world is one run of a plan.
type world struct {
	*testing.T
	plan    Plan
	options Options
	begin   time.Time
	log     *sqlite.DB                  // as the oracles read it: nothing goes wrong with it
	redis   *verificationtest.FakeRedis // the limiter
	logged  *servertest.Text            // what the replicas wrote to their logs
	posted  *servertest.Text            // the bodies of webhooks
	answers *servertest.Text            // the bodies of answers
	actors  sync.WaitGroup

	mu            sync.Mutex
	lasts         map[Kind]time.Time // until when what goes wrong for a while does
	replicas      []*Replica
	calls         map[string]int // so far, by label
	counts        map[string]int
	trace         []string
	committing    chan struct{} // closed when the commit under way has ended; nil: there is none
	people        []*person
	mails         []mail
	hooks         map[string]string // bodies that the receiver took, by webhook-id
	broken        []Violation
	policies      []inForce
	crashes       int // kills and freezes so far
	lostWrites    int // of the limiter, by failovers
	stepped       bool
	troubles      int // faults so far
	requests      []*request
	acts          []administered
	others        []*person         // strangers
	verifications map[string]string // by the ID of a send that was answered
}

// inForce is when a policy was put in force first.
type inForce struct {
	at     time.Time
	number int
}

func newWorld(t *testing.T, p Plan, o Options) *world {
	w := &world{
		T: t, plan: p, options: o, begin: time.Now(), log: sqlitetest.Open(t, time.Now), logged: &servertest.Text{}, posted: &servertest.Text{},
		lasts: map[Kind]time.Time{}, calls: map[string]int{}, counts: map[string]int{}, hooks: map[string]string{}, verifications: map[string]string{}, answers: &servertest.Text{},
	}
	w.redis = verificationtest.NewFakeRedis(clockName)
	w.policies = []inForce{{w.begin, 0}}
	for i := range people {
		w.people = append(w.people, newPerson(i))
	}
	for i := range p.Replicas {
		w.replicas = append(w.replicas, w.start(i, 0))
	}
	return w
}

// settle is how long everything has at the end, without any trouble: longer than a code lives and a lockout of commits lasts.
const settle = 9 * time.Minute

// play runs the plan, repairs everything, lets it end, and asks the oracles.
func (w *world) play() {
	for _, e := range w.plan.Events {
		time.Sleep(time.Until(w.begin.Add(e.At)))
		w.note("event %d: %s", e.ID, e.Kind)
		w.happen(e)
	}
	time.Sleep(time.Until(w.begin.Add(w.plan.Span)))
	w.repair()
	if w.plan.Span == long {
		time.Sleep(settle)
	}
	time.Sleep(settle)
	w.actors.Wait()
	w.lookAround()
	w.judge()
	w.stop()
}

// repair ends all trouble.
func (w *world) repair() {
	w.mu.Lock()
	clear(w.lasts)
	all := append([]*Replica(nil), w.replicas...)
	w.mu.Unlock()
	for _, r := range all {
		r.heal()
	}
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

func (w *world) result() Result {
	return Result{Plan: w.plan, Violations: w.broken, Trace: w.trace, Digest: sha256.Sum256([]byte(strings.Join(w.trace, "\n"))), Counts: w.counts}
}

// note writes an action into the trace.
func (w *world) note(format string, args ...any) {
	if !w.options.Trace {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.trace = append(w.trace, clock(time.Since(w.begin))+" "+fmt.Sprintf(format, args...))
}

// count counts what happened, for the table of what was covered.
func (w *world) count(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counts[what]++
}

// broke notes a broken promise.
func (w *world) broke(oracle, format string, args ...any) {
	detail := fmt.Sprintf(format, args...)
	w.note("broken: %s: %s", oracle, detail)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.broken = append(w.broken, Violation{oracle, detail})
}

// nth numbers the calls of a label.
func (w *world) nth(label string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls[label]++
	return w.calls[label]
}

// until says whether some trouble lasts.
func until(t time.Time) bool { return time.Now().Before(t) }

// wrong reports whether some fault lasts.
func (w *world) wrong(faults ...Kind) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.ContainsFunc(faults, func(k Kind) bool { return until(w.lasts[k]) })
}

func (w *world) logger(name string) *slog.Logger {
	return slog.New(slog.NewTextHandler(w.logged, nil)).With("replica", name)
}

type eventKey struct{}

// labelled names the event that a request belongs to.
func labelled(ctx context.Context, label string) context.Context {
	return context.WithValue(ctx, eventKey{}, label)
}

func labelOf(ctx context.Context) string {
	label, _ := ctx.Value(eventKey{}).(string)
	return label
}
