package quota

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"sendcode/internal/servertest"
)

// counting counts the Takes of a limiter, and can make them slow or fail.
type counting struct {
	Limiter
	takes atomic.Int64
	slow  time.Duration
	fail  error
}

func (c *counting) Take(ctx context.Context, req Request) (Decision, error) {
	c.takes.Add(1)
	if c.slow > 0 {
		time.Sleep(c.slow)
	}
	d, err := c.Limiter.Take(ctx, req)
	if c.fail != nil {
		return Decision{}, c.fail
	}
	return d, err
}

// rememberedWorld refuses from the start: an event a second ago used the limit.
func rememberedWorld(t *testing.T) (*world, *counting) {
	w := memoryWorld(t)
	behind := &counting{Limiter: w.Limiter}
	w.Limiter = Remember(behind, func() time.Time { return w.now })
	w.admits(true, minute)
	w.pass(time.Second)
	behind.takes.Store(0)
	return w, behind
}

var minute = sliding(Recipient, 1, time.Minute)

func (c *counting) asked(t *testing.T, what string, want int64) {
	t.Helper()
	same(t, what+": asked", c.takes.Swap(0), want)
}

func TestARememberedRefusalIsAnsweredAsTheLimiterWould(t *testing.T) {
	w, behind := rememberedWorld(t)
	for i := range 250 {
		d := w.admits(false, minute)
		same(t, "wait", d.RetryAfter(), 59*time.Second-time.Duration(i)*time.Millisecond)
		same(t, "reset", d.Rules[0].ResetAfter, d.RetryAfter())
		same(t, "instant", d.At, w.now)
		d.Rules[0].RetryAfter = 0 // an answer is the caller's own
		w.pass(time.Millisecond)
	}
	behind.asked(t, "in 250 ms", 1)
	w.admits(false, minute)
	behind.asked(t, "after 250 ms", 1)
	w.pass(-µs)
	w.admits(false, minute)
	behind.asked(t, "when the clock was set back", 1)
}

// A refusal is forgotten when the first event of any of its rules leaves, also of one that does not
// refuse, and when a period ends.
func TestARefusalIsForgottenWhenAnAnswerChanges(t *testing.T) {
	second, hour := sliding(IP, 9, time.Second), calendar(1, Hour, nil)
	hour.Scope = IP // it counts no event, so only its period changes
	for name, c := range map[string]struct {
		rules []Rule
		begin func(w *world) // sets the clock to 100 ms before the end
	}{
		"its event leaves": {[]Rule{minute}, func(w *world) { w.pass(59*time.Second - 100*time.Millisecond) }},
		"another event leaves": {[]Rule{minute, second},
			func(w *world) { w.takeID("two", second); w.pass(900 * time.Millisecond) }},
		"a period ends": {[]Rule{minute, hour}, func(w *world) {
			w.set(w.now.Truncate(time.Hour).Add(time.Hour - 101*time.Millisecond))
			w.takeID("again", minute)
			w.pass(time.Millisecond)
		}},
	} {
		w, behind := rememberedWorld(t)
		c.begin(w)
		behind.takes.Store(0)
		w.admits(false, c.rules...)
		w.pass(100*time.Millisecond - µs)
		w.admits(false, c.rules...)
		behind.asked(t, name+", before", 1)
		w.pass(µs)
		same(t, name+": admitted", w.take(c.rules...).Admitted, len(c.rules) == 1)
		behind.asked(t, name+", after", 1)
	}
}

func TestWhatIsChangedThroughTheMemoryIsNoticedAtOnce(t *testing.T) {
	ctx := t.Context()
	for about, change := range map[string]func(w *world) error{
		"refund": func(w *world) error { return w.Refund(ctx, "first", ann()) },
		"reset":  func(w *world) error { return w.Reset(ctx, ann()) },
		"record": func(w *world) error {
			return w.Record(ctx, ann(), time.Minute, []AgedEvent{{"more", time.Second}})
		},
		"take": func(w *world) error { w.take(sliding(Recipient, 9, time.Minute)); return nil },
	} {
		w, behind := rememberedWorld(t)
		must(t, w.Reset(ctx, ann()))
		w.takeID("first", minute)
		w.pass(time.Second)
		w.admits(false, minute)
		w.pass(time.Millisecond)
		must(t, change(w))
		behind.takes.Store(0)
		want, err := behind.Peek(ctx, request("", minute))
		must(t, err)
		d := w.take(minute)
		behind.asked(t, about, 1)
		if same(t, about+": admitted", d.Admitted, want.Allowed()); !d.Admitted {
			sameDecision(t, d, want)
		}
	}
}

func TestOtherRulesAndOtherBucketsAreAskedFor(t *testing.T) {
	w, behind := rememberedWorld(t)
	w.admits(false, minute)
	behind.asked(t, "the first", 1)
	longer := minute
	longer.Window = time.Hour
	w.admits(false, longer)
	behind.asked(t, "another rule of that name", 1)
	w.admits(true, sliding(Recipient, 5, time.Minute))
	d, err := w.Take(t.Context(), Request{ID: w.id(), Rules: []Rule{minute}, Buckets: buckets("bob", "office")})
	must(t, err)
	same(t, "another bucket", d.Admitted, true)
	w.admits(false, minute)
}

func TestAnIDThatWasAdmittedIsAdmittedWhileOthersAreRefused(t *testing.T) {
	w, behind := rememberedWorld(t)
	two := sliding(Recipient, 3, time.Minute)
	w.takeID("mine", two)
	behind.fail = ErrUnavailable
	_, err := w.Take(t.Context(), request("lost", two))
	same(t, "lost", errors.Is(err, ErrUnavailable), true)
	behind.fail = nil
	must(t, behind.Limiter.Reset(t.Context(), buckets("", "office")[IP]))
	w.pass(time.Millisecond)
	w.admits(false, two)
	for _, id := range []string{"mine", "lost"} {
		same(t, id, w.takeID(id, two).Admitted, true)
	}
	must(t, behind.Record(t.Context(), ann(), time.Minute, []AgedEvent{{"elsewhere", time.Second}}))
	w.admits(false, two)
	w.pass(time.Millisecond)
	req := request("elsewhere", two)
	req.Repeated = true
	d, err := w.Take(t.Context(), req)
	must(t, err)
	same(t, "of another process", d.Admitted, true)
	must(t, w.Refund(t.Context(), "gone", buckets("", "office")[IP]))
	w.admits(false, two)
	_, err = w.Take(t.Context(), request("gone", two, sliding(IP, 1, time.Hour)))
	same(t, "refunded", errors.Is(err, ErrRefunded), true)
}

// The wait for an event that was in the future goes down like any other.
func TestARefusalByAnEventFromTheFutureIsRemembered(t *testing.T) {
	w, behind := rememberedWorld(t)
	w.pass(-3 * time.Second)
	for ms := range 3 {
		same(t, "wait", w.admits(false, minute).RetryAfter(), time.Minute-time.Duration(ms)*time.Millisecond)
		w.pass(time.Millisecond)
	}
	behind.asked(t, "once", 1)
}

func TestCallersShareOneQuestionWhenTheMemoryRunsOut(t *testing.T) {
	servertest.Bubble(t, func(t *testing.T) {
		memory := NewMemory(time.Now)
		behind := &counting{Limiter: memory, slow: 10 * time.Millisecond}
		m := Remember(behind, time.Now)
		var admitted atomic.Int64
		rules := []Rule{sliding(Recipient, 2, time.Minute)}
		take := func(ctx context.Context, i int) error {
			d, err := m.Take(ctx, request(fmt.Sprint("id", i), rules...))
			if d.Admitted {
				admitted.Add(1)
			}
			return err
		}
		many := func(ids int, want error) {
			var wg sync.WaitGroup
			for i := range 100 {
				wg.Go(func() { same(t, "error", errors.Is(take(t.Context(), ids+i), want), true) })
			}
			wg.Wait()
		}
		many(1000, nil)
		same(t, "admitted", admitted.Load(), 2)
		time.Sleep(time.Second)
		many(2000, nil)
		time.Sleep(300 * time.Millisecond)
		behind.takes.Store(0)
		many(3000, nil)
		behind.asked(t, "for all", 1)

		time.Sleep(time.Second) // a waiting caller may leave
		ctx, leave := context.WithTimeout(t.Context(), 5*time.Millisecond)
		defer leave()
		go func() { _ = take(t.Context(), 1) }()
		synctest.Wait()
		same(t, "left", errors.Is(take(ctx, 2), ErrUnavailable), true)
		synctest.Wait()
		time.Sleep(time.Second)

		go func() { _ = take(t.Context(), 3) }()
		synctest.Wait()
		go func() { _ = take(t.Context(), 4) }()
		synctest.Wait()
		// makes the first one's answer outdated
		must(t, m.Record(t.Context(), ann(), time.Minute, []AgedEvent{{ID: "more"}}))
		time.Sleep(behind.slow)
		synctest.Wait()
		must(t, take(t.Context(), 5)) // the second one asks now; this one goes on
		time.Sleep(time.Second)

		must(t, memory.Reset(t.Context(), ann())) // another process has reset it
		behind.takes.Store(0)
		admitted.Store(0)
		many(4000, nil)
		same(t, "admitted after a reset", admitted.Load(), 2)
		behind.fail = ErrUnavailable
		time.Sleep(time.Second)
		many(5000, ErrUnavailable)
	})
}

func TestTheMemoryOfRefusalsIsBounded(t *testing.T) {
	w, behind := rememberedWorld(t)
	m := w.Limiter.(*Remembering)
	for i := range 18_000 {
		name := Bucket("r", fmt.Sprint(i))
		must(t, behind.Record(t.Context(), name, time.Minute, []AgedEvent{{"x", time.Second}}))
		d, err := m.Take(t.Context(), Request{ID: fmt.Sprint("x", i), Rules: []Rule{minute},
			Buckets: map[Scope]string{Recipient: name}})
		must(t, err)
		same(t, "admitted", d.Admitted, false)
	}
	refusals, ids := 0, 0
	for i := range m.shards {
		refusals += len(m.shards[i].refusals.young) + len(m.shards[i].refusals.old)
		ids += len(m.shards[i].ids.young) + len(m.shards[i].ids.old)
	}
	if refusals > 16384 || refusals < 8192 || ids > 20_000 {
		t.Errorf("%d refusals, %d IDs", refusals, ids)
	}
	behind.takes.Store(0)
	must(t, second(m.Take(t.Context(),
		Request{ID: "z", Rules: []Rule{minute}, Buckets: map[Scope]string{Recipient: Bucket("r", "17999")}})))
	behind.asked(t, "the newest", 0)
}
