package interleave

import (
	"context"
	"fmt"
	"reflect"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/gates"
	"sendcode/internal/recipient"
	"sendcode/internal/store"
	"sendcode/internal/store/gate"
	"sendcode/quota"
)

// Here the model asks the real functions. An answer depends on its arguments alone, so each is computed once.

const (
	window = time.Minute
	clock  = "redis"
	bucket = "recipient"
)

// life is as quota.Memory names it for the log named in Request.Logged.
var life = func() string {
	d, _ := quota.NewMemory(time.Now, clock).Peek(context.Background(), (&model{setup: setup{limit: 1}}).request(0))
	return d.Incomplete[quota.Recipient]
}()

// now is the instant of every step: all else is ages.
var now = time.Date(2030, 3, 1, 12, 0, 0, 0, time.UTC)

func sendID(i int) uuid.UUID { return uuid.UUID{15: byte(i + 1)} }

func eventID(i int) string { id := sendID(i); return string(id[:]) }

func (m *model) rules() []quota.Rule {
	return []quota.Rule{{Name: "minute", Scope: quota.Recipient, Limit: m.limit, Window: window}}
}

// events are as HistoryAt hands them out.
func (a ages) events() []quota.Event { return gate.EventsBefore(a.rows(), window, clock, now, now) }

func (a ages) rows() (rows []gate.CountedSend) {
	for i, t := range a {
		if t.counts() {
			rows = append(rows, gate.CountedSend{ID: sendID(i), Clock: clock, TakenAt: t.at(), LoggedAt: t.at()})
		}
	}
	return rows
}

// call is one call of the limiter.
type call struct {
	op     op
	send   int8
	events ages // that are written
}

type op uint8

const (
	peek op = iota
	take
	refund
	resync // a Restore for no life: it marks nothing
	restore
)

type question struct {
	limiter
	call
}

// answer is the bucket that a call leaves, and what a Peek says of it.
type answer struct {
	limiter
	admitted   bool
	incomplete bool
	wait       time.Duration
}

// ask has quota.Memory answer a call. A Memory does not show what it holds, so the model keeps a bucket of its own, and compares.
func (m *model) ask(l limiter, c call) answer {
	a, known := m.answers[question{l, c}]
	if known {
		return a
	}
	admitted, after := m.call(l, c)
	a.limiter, a.admitted = m.apply(l, c, admitted), admitted
	applied, _ := m.memory(a.limiter).Peek(context.Background(), m.request(0))
	if m.broken == nothing && !(reflect.DeepEqual(after.Rules, applied.Rules) && reflect.DeepEqual(after.Incomplete, applied.Incomplete)) {
		panic(fmt.Sprintf("%+v of %+v leaves\n%+v, not\n%+v", c, l, after, applied))
	}
	a.wait, a.incomplete = applied.RetryAfter(), len(applied.Incomplete) > 0
	m.answers[question{l, c}] = a
	return a
}

func (m *model) request(i int) quota.Request {
	return quota.Request{
		ID: eventID(i), Rules: m.rules(), Buckets: map[quota.Scope]string{quota.Recipient: bucket},
		Logged: map[quota.Scope]string{quota.Recipient: "login"},
	}
}

// call makes the call, and a Peek after it.
func (m *model) call(l limiter, c call) (admitted bool, after quota.Decision) {
	memory, ctx := m.memory(l), context.Background()
	h := quota.History{Bucket: bucket, Keep: window, Events: c.events.events(), DoubtFor: gates.DoubtFor}
	switch i := int(c.send); c.op {
	case take:
		taken, _ := memory.Take(ctx, m.request(i))
		admitted = taken.Admitted
	case refund:
		_ = memory.Refund(ctx, eventID(i), bucket)
	case restore:
		h.Epoch, h.Read = life, now
		fallthrough
	case resync:
		_ = memory.Restore(ctx, h)
	}
	after, _ = memory.Peek(ctx, m.request(0))
	return admitted, after
}

// apply is the bucket that the call leaves.
func (m *model) apply(l limiter, c call, admitted bool) limiter {
	switch i := c.send; {
	case admitted && l.events[i] == never:
		l.events[i] = fresh
	case c.op == refund:
		l.events[i], l.tombstones[i] = never, fresh
	}
	had, lacked := false, false
	for i, t := range c.events {
		if t.counts() && l.tombstones[i] == never {
			had, lacked = had || l.events[i] != never, lacked || l.events[i] == never
		}
		if t.counts() && l.tombstones[i] == never && (l.events[i] == never || t < l.events[i]) { // of two instants the later one
			l.events[i] = t
		}
	}
	foreign := false
	for i, t := range l.events {
		if c.op == restore && !c.events[i].counts() && t == half { // the log must have it by now
			l.events[i] = never
		}
		foreign = foreign || !c.events[i].counts() && t == fresh
	}
	switch {
	case c.op < resync:
	case lacked:
		l.mark, l.doubt = never, true
	case c.op == restore && had && !foreign && !l.doubt:
		l.mark = fresh
	}
	return l
}

// memory is a limiter that holds the bucket.
func (m *model) memory(l limiter) *quota.Memory {
	at, ctx := now, context.Background()
	memory := quota.NewMemory(func() time.Time { return at }, clock)
	if l.doubt {
		_ = memory.Restore(ctx, quota.History{Bucket: bucket, Keep: window, Epoch: life, Events: ages{fresh}.events(), DoubtFor: gates.DoubtFor})
		_ = memory.Reset(ctx, bucket)
	}
	for _, t := range []age{half, fresh} {
		for i := range sends {
			if at = t.at(); l.tombstones[i] == t {
				_ = memory.Refund(ctx, eventID(i), bucket)
			}
		}
	}
	_ = memory.Record(ctx, bucket, window, l.events.events())
	if l.mark != never {
		_ = memory.Restore(ctx, quota.History{Bucket: bucket, Keep: window, Epoch: life})
	}
	return memory
}

// explain is what the rule says of events.
func (m *model) explain(events ages) quota.State {
	s, known := m.states[events]
	if !known {
		s = quota.Evaluate(m.rules(), map[quota.Scope][]quota.Event{quota.Recipient: events.events()}, now).Rules[0]
		m.states[events] = s
	}
	return s
}

// facts are what a Begin decides by, and decision what it writes.
type facts struct {
	send   int
	logged ages
	codes  [sends]code
}

type decision struct {
	admitted bool
	row      row
	sends    uint8
}

// decide is gate.Decide. All sends are of one holder.
func (m *model) decide(f facts) decision {
	d, known := m.decisions[f]
	if known {
		return d
	}
	in, err := store.ValidatedIntent(m.intent(f.send))
	if err != nil {
		panic(err)
	}
	has := gate.Facts{Past: f.logged.rows()}
	for i, c := range f.codes {
		if c.exists {
			has.Candidates = append(has.Candidates, m.verification(i, c))
		}
	}
	if r := gate.Decide(in, now, has); r.Admitted {
		d = decision{true, row{sending, uint8(r.Send.Attempt), r.Send.Counts, r.Send.InDoubt, false, 0, false, codeOf(r.Verification), fresh}, uint8(r.Verification.Sends)}
	}
	m.decisions[f] = d
	return d
}

func (m *model) intent(i int) store.Intent {
	v := m.verification(i, code{})
	return store.Intent{
		Send:         store.Send{ID: sendID(i), App: v.App, Channel: v.Channel, Purpose: v.Purpose, Recipient: v.Recipient, Clock: clock, TakenAt: now},
		Verification: v, Rules: m.rules(), Purposes: []string{v.Purpose}, TTL: 10 * time.Minute, MinLife: 2 * time.Minute, Lease: 8 * time.Second,
	}
}

// verification is a code as the store has it. Its life does not end within a path.
func (m *model) verification(i int, c code) store.Verification {
	v := store.Verification{
		ID: string(rune('A' + i)), App: "shop", Channel: recipient.Email, Purpose: "login", Recipient: recipient.Hash{1}, Holder: "session",
		CreatedAt: now.Add(time.Duration(i) - window), ExpiresAt: now.Add(9 * time.Minute),
		Attempts: int(c.tries), MaxAttempts: m.tries, Sends: int(c.sends),
	}
	if c.approved {
		v.ApprovedAt = now
	}
	return v
}

func codeOf(v store.Verification) int8 { return int8(v.ID[0] - 'A') }
