package simulate

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/codes/code/codetest"
	"sendcode/internal/store"
)

// happen carries out an event. Requests run concurrently with later events.
func (w *world) happen(e Event) {
	w.count("event: " + string(e.Kind))
	if w.disturb(e) {
		return
	}
	p := w.people[e.Person]
	w.actors.Go(func() { w.act(e, p) })
}

// act performs an event as its person, back end, stranger or administrator.
func (w *world) act(e Event, p *person) {
	switch e.Kind {
	case SendByBackEnd:
		w.send(e, backEnd, p, outgoing{})
	case SendByBrowser:
		w.send(e, browser, p, outgoing{})
	case Resend:
		w.resend(e, p)
	case Repeat:
		w.repeat(e, p)
	case HangUp:
		w.send(e, backEnd, p, outgoing{hangUp: time.Duration(e.N) * time.Millisecond})
	case Check:
		w.check(e, e.actor(), p, "", ipOf(e.actor(), p.index))
	case Guess:
		for n := range e.N {
			w.guess(e, n, e.actor(), p, ipOf(e.actor(), p.index))
		}
	case Cancel:
		w.cancel(e, p)
	case Look:
		w.look(e, e.actor(), p)
	case WaitAsTold:
		w.waitAsTold(e, p)
	case Attack:
		w.attack(e, p)
	case Flood:
		w.flood(e)
	case Exhaust:
		w.exhaust(e)
	case Reset, Erase:
		w.administer(e, p)
	case NewPolicy, Remap, OtherFile:
		w.newPolicy(e)
	}
}

// guess enters the nth wrong code of an event. The code has letters, or digits if the real code has
// digits. Until the real code is known, the guess is almost never right.
func (w *world) guess(e Event, n int, by actor, p *person, ip string) {
	if right := w.codeOf(w.verificationOf(p, by)); right != "" {
		w.check(e, by, p, codetest.Wrong(right, e.ID+n), ip)
		return
	}
	if q := w.check(e, by, p, "BCDFGHJK", ip); q != nil && q.status == http.StatusUnprocessableEntity {
		w.check(e, by, p, "000000", ip)
	}
}

func (w *world) resend(e Event, p *person) {
	if !e.Browser {
		w.send(e, backEnd, p, outgoing{})
		return
	}
	if id := w.verificationOf(p, browser); id != "" {
		w.send(e, browser, p, outgoing{body: map[string]any{"verification_id": id}})
	}
}

func (w *world) repeat(e Event, p *person) {
	header := func() map[string]string {
		return map[string]string{"Idempotency-Key": fmt.Sprintf("key-of-event-%020d", e.ID)}
	}
	first := make(chan *request, 1)
	w.actors.Go(func() { first <- w.send(e, backEnd, p, outgoing{header: header()}) })
	time.Sleep(time.Duration(e.N) * 1500 * time.Microsecond)
	other := e
	other.Replica++
	again := w.send(other, backEnd, p, outgoing{header: header()})
	if again.answered && again.status == http.StatusConflict || !again.answered || again.status == http.StatusServiceUnavailable {
		time.Sleep(20 * time.Second) // longer than the lease of a key
		again = w.send(other, backEnd, p, outgoing{header: header()})
	}
	one := <-first
	if one.accepted() && again.accepted() && one.body.Send.ID != again.body.Send.ID {
		w.recordViolation("idempotency", "one Idempotency-Key gave the sends %s and %s", one.body.Send.ID, again.body.Send.ID)
	}
}

func (r *request) accepted() bool { return r.answered && r.status == http.StatusAccepted }

func (w *world) cancel(e Event, p *person) {
	id := w.verificationOf(p, e.actor())
	if id == "" {
		return
	}
	q := w.do(e, canceling, e.actor(), p,
		outgoing{method: http.MethodPost, path: "/v1/verifications/" + id + "/cancel", ip: ipOf(e.actor(), p.index)})
	q.verification = id
}

// waitAsTold requests codes until a request is refused, and waits as long as the answer says. The
// next request must be admitted.
func (w *world) waitAsTold(e Event, p *person) {
	for range 4 {
		before := w.state(p)
		q := w.send(e, backEnd, p, outgoing{})
		before.changes += 2
		if !q.refused() {
			time.Sleep(time.Second)
			continue
		}
		if q.body.RetryAfterMS > 180_000 || q.anyTrouble || !w.databaseNow().Equal(time.Now()) {
			return
		}
		time.Sleep(time.Duration(q.body.RetryAfterMS) * time.Millisecond)
		calm := !w.anyTrouble()
		again := w.send(e, backEnd, p, outgoing{})
		before.changes += 2
		calm = calm && w.state(p) == before // nothing else has happened to the person
		if calm && again.refused() {
			w.recordViolation("told wait", "person %d was told to wait %d ms, waited, and was refused by %s for %d s more",
				p.index, q.body.RetryAfterMS, again.body.BlockedBy, again.body.RetryAfter)
		}
		w.count(map[bool]string{true: "waited as told", false: "waited as told, and something happened meanwhile"}[calm])
		return
	}
}

// refused reports whether a rule refused the request.
func (r *request) refused() bool {
	return r.answered && r.status == http.StatusTooManyRequests && r.body.problem() == "quota-exceeded"
}

// snapshot is the state on which the answer to a person may depend.
type snapshot struct{ changes, troubles int }

func (w *world) state(p *person) snapshot {
	w.mu.Lock()
	defer w.mu.Unlock()
	return snapshot{p.changes, w.troubles}
}

func (w *world) anyTrouble() bool {
	for i := range w.plan.Replicas {
		if w.troubled(w.replica(i)) {
			return true
		}
	}
	return false
}

// attack makes a stranger request the person's codes, and guess in verifications of its own. Then
// the person needs a code.
func (w *world) attack(e Event, p *person) {
	by := oneOfStrangers(e.ID)
	ip := ipOf(by, e.ID)
	for range e.N {
		if w.send(e, by, p, outgoing{ip: ip}).accepted() {
			time.Sleep(time.Second)
			for n := range 5 {
				w.guess(e, n, by, p, ip)
			}
		}
		time.Sleep(61 * time.Second)
	}
	if w.send(e, backEnd, p, outgoing{}).accepted() {
		time.Sleep(2 * time.Second)
		w.check(e, backEnd, p, "", ipOf(backEnd, p.index))
	}
}

// exhaust makes strangers, each in another network, ask for codes for a recipient until an answer
// has a long wait. The next code of the recipient's back end is then due within a minute, from the
// reserve, unless the policies changed or a fault may have cost places.
func (w *world) exhaust(e Event) {
	victim := newPerson(200 + e.ID)
	victim.channel, victim.to = "email", fmt.Sprintf("victim%d@example.net", e.ID)
	policies := 0
	w.locked(func() { w.others, policies = append(w.others, victim), len(w.policies) })
	for n := range 12 {
		by := oneOfStrangers(n)
		if q := w.send(e, by, victim, outgoing{ip: ipOf(by, 3000+20*e.ID+n)}); q.refused() && q.body.RetryAfter > 60 {
			break
		}
		time.Sleep(61 * time.Second)
	}
	w.look(e, form, victim)
	calm := func() (calm bool) {
		w.locked(func() {
			calm = len(w.policies) == policies && w.crashes == 0 && w.movedWrites == 0 && w.stepped.IsZero()
		})
		return calm && !w.anyTrouble()
	}
	first := w.send(e, backEnd, victim, outgoing{})
	if first.accepted() {
		w.count("strangers were kept from the last places")
	}
	if !first.refused() || first.body.BlockedBy == "failures" || !calm() {
		return
	}
	time.Sleep(time.Duration(first.body.RetryAfterMS) * time.Millisecond)
	if last := w.send(e, backEnd, victim, outgoing{}); (first.body.RetryAfter > 60 || last.refused()) && calm() {
		w.recordViolation("attackers stop no one else",
			"strangers used up the places of a recipient, and its back end had to wait for %d s", first.body.RetryAfter)
	}
}

// flood makes strangers fail checks of their own codes, from many networks.
func (w *world) flood(e Event) {
	own := newPerson(100 + e.ID)
	own.channel, own.to = "email", fmt.Sprintf("stranger%d@example.net", e.ID)
	w.locked(func() { w.others = append(w.others, own) })
	for n := 0; n < e.N; n += 5 {
		own.to = fmt.Sprintf("stranger%d.%d@example.net", e.ID, n)
		if w.send(e, stranger, own, outgoing{ip: ipOf(stranger, 1000+10*e.ID+n)}).accepted() {
			for i := range 5 {
				w.guess(e, i, stranger, own, ipOf(stranger, 2000+10*e.ID+n+i))
			}
		}
	}
}

// administer resets or erases a person.
func (w *world) administer(e Event, p *person) {
	r := w.replica(e.Replica)
	if r.isDead() {
		return
	}
	ctx := labelled(context.Background(), fmt.Sprintf("event %d administrator", e.ID))
	who, err := r.Administration.ParseTarget("", string(p.channel), p.to, "", "ticket 7")
	if err != nil {
		w.recordViolation("surface", "an administrator's request was refused: %v", err)
		return
	}
	act := store.AuditEntry{ID: uuid.Must(uuid.NewV7()), Who: "mei", Role: "operator", What: "simulated", Reason: "ticket 7"}
	begun := time.Now()
	w.touch(p)
	if e.Kind == Reset {
		err = r.Administration.ResetQuota(ctx, who, act)
	} else {
		act.Outcome = store.AuditDone
		err = r.Administration.EraseRecipient(ctx, who, act)
	}
	w.touch(p)
	done := err == nil && !r.isDead()
	w.note("event %d: %s of person %d: %v", e.ID, e.Kind, p.index, done)
	w.locked(func() { w.acts = append(w.acts, administered{e.Kind, p, begun, time.Now(), done}) })
}

type administered struct {
	kind         Kind
	person       *person
	began, ended time.Time
	done         bool // the answer to the administrator reports success
}

// newPolicy puts other policies in force for NewPolicy, at each replica a little later. For Remap
// it maps a purpose to another policy for a while, at all replicas, and for OtherFile at one.
func (w *world) newPolicy(e Event) {
	if !w.changing.TryLock() {
		return
	}
	defer w.changing.Unlock()
	if e.Kind == NewPolicy {
		w.putInForce(otherLimits, e, false)
		return
	}
	w.putInForce(split, e, e.Kind == OtherFile)
	time.Sleep(e.For)
	w.putInForce(split, e, false)
}

// putInForce changes the policies of all replicas or, if alone is true, of the event's replica.
func (w *world) putInForce(change int, e Event, alone bool) {
	w.mu.Lock()
	before := len(w.policies)
	number := w.policies[before-1].number ^ change
	w.policies = append(w.policies, inForce{number: number, from: time.Now()})
	w.troubles++
	all := slices.Clone(w.replicas)
	w.mu.Unlock()
	if alone {
		all = all[e.Replica%len(all):][:1]
	}
	for _, r := range all {
		time.Sleep(time.Duration(e.N) * 700 * time.Millisecond)
		r.Policy.Change(w.policySet(number))
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.troubles++
	for i := range w.policies[:before] {
		if p := &w.policies[i]; p.to.IsZero() && !alone {
			p.to = time.Now()
		}
	}
}

// disturb makes a fault happen. It returns false if the event is no fault.
func (w *world) disturb(e Event) (fault bool) {
	if !slices.Contains(faults, e.Kind) {
		return false
	}
	r := w.replica(e.Replica)
	w.mu.Lock()
	w.troubles++
	w.faultEnds[e.Kind] = time.Now().Add(e.For)
	w.mu.Unlock()
	switch e.Kind {
	case Flush:
		w.redis.Flush()
	case FailOver, OtherClock:
		w.locked(func() {
			n, _ := w.redis.FailOver(e.N)
			w.movedWrites += n
		})
		if e.Kind == OtherClock {
			w.setClock(e.For)
		}
	case LimiterStalls:
		w.locked(func() { w.stalls = append(w.stalls, time.Now().Add(e.For)) })
	case ClockStep:
		w.setClock(w.ahead + e.For)
	case ClockRight:
		w.setClock(0)
	case DatabaseClockStep: // leases end at once, as after a crash
		w.locked(func() {
			w.databaseAhead, w.databaseStepped, w.crashes, w.crashed = w.databaseAhead+e.For, true, w.crashes+1,
				append(w.crashed, time.Now())
		})
	case CommitFails, CommitUnheard, CommitVague:
		w.locked(func() { r.commits = append(r.commits, slices.Repeat([]Event{e}, e.N)...) })
	case CallFails, CallUnheard, CallVague:
		w.locked(func() { w.failing = append(w.failing, e) })
	case Kill:
		w.crash(e, r)
	case Freeze:
		w.locked(func() {
			w.crashes, r.frozen = w.crashes+1, time.Now().Add(e.For)
			w.crashed = append(w.crashed, time.Now(), r.frozen)
		})
	}
	return true
}

// setClock sets the limiter's clock ahead by this duration.
func (w *world) setClock(ahead time.Duration) {
	if ahead != w.ahead {
		w.redis.Step(ahead - w.ahead)
		w.locked(func() {
			w.ahead = ahead
			if w.stepped.IsZero() {
				w.stepped = time.Now()
			}
		})
	}
}

// crash kills a replica, and starts another one later.
func (w *world) crash(e Event, r *Replica) {
	if r.isDead() {
		return
	}
	w.locked(func() { w.crashes, w.crashed = w.crashes+1, append(w.crashed, time.Now()) })
	close(r.died) // nothing that the replica begins after this has an effect
	r.cancel()
	w.actors.Go(func() {
		time.Sleep(e.For)
		again := w.start(r.index, e.ID+1)
		w.locked(func() { w.replicas[r.index] = again })
	})
}
