package interleave

import "time"

const (
	sends    = 2
	replicas = 2
)

// set is a set of sends.
type set uint8

const all set = 1<<sends - 1

func (s set) has(i int) bool { return s&(1<<i) != 0 }
func (s set) with(i int) set { return (s | 1<<i) & all }

// age is how long ago an event was, in halves of the window.
type age uint8

const (
	never age = iota
	fresh
	half
	passed // a window ago or longer
)

func (a age) counts() bool  { return a == fresh || a == half }
func (a age) at() time.Time { return now.Add(-time.Duration(a-fresh) * window / 2) }

func (a age) older() age {
	if a == never || a == passed {
		return a
	}
	return a + 1
}

// kept is never for what has passed.
func (a age) kept() age {
	if a == passed {
		return never
	}
	return a
}

// ages are those of the events of each send.
type ages [sends]age

func (a ages) of(s set) (some ages) {
	for i := range a {
		if s.has(i) {
			some[i] = a[i]
		}
	}
	return some
}

// state is all that a step reads or changes. It is a plain value, so that it can be a key.
type state struct {
	requests [sends]request
	checks   [2]check
	flights  [replicas][sends]flight
	alive    [replicas]bool
	limiter  limiter
	rows     [sends]row
	codes    [sends]code // by the send that opened the verification
	mails    [sends]mails
	left     faults
	seen     history
}

// request is a send from the first gate to its answer.
type request struct {
	pc     pc
	parked pc   // a call that may still arrive: its process was killed, or its connection broke
	at     int8 // its replica
	before set  // sends that counted in the log when it began
	read   set  // sends in the history that the log handed out to it
	met    ages // the limiter's events once it had taken its own
	settle settlement
}

// pc is the call that a request makes next, or its end.
type pc uint8

const (
	idle         pc = iota
	beginning       // store.Begin
	overruled       // Refund of its own event, after a refusal by the log
	syncRefused     // Record of the log's history, before the refusal is answered
	syncAdmitted    // Record of the log's history, before the 202
	reading         // store.HistoryAt
	restoring       // Restore of what was read, before the answer
	accepted        // answered 202
	ended           // answered anything else, or not at all
)

func (p pc) underWay() bool { return p > idle && p < accepted }

// settlement is what an outbox still has to do about a request that was answered 503; see pendingSync and pendingReconciliation there.
type settlement uint8

const (
	settled  settlement = iota
	giveBack            // Refund in the limiter
	lookUp              // is there a row?
	missed              // there was none; it is looked for again after MissingFor
	overdue             // MissingFor has passed
)

// limiter is the recipient's bucket in Redis.
type limiter struct {
	events, tombstones ages
	mark               age  // since Restore marked it as complete
	doubt              bool // Restore found that it lacked an event: it is not marked
}

// older is the bucket after half a window. A mark lives for a window, and for as long as anything else in the bucket.
func (l limiter) older() limiter {
	for i := range sends {
		l.events[i], l.tombstones[i] = l.events[i].older().kept(), l.tombstones[i].older().kept()
	}
	l.mark, l.doubt = l.mark.older(), false
	if l.events == (ages{}) && l.tombstones == (ages{}) {
		l.mark = l.mark.kept()
	}
	return l
}

type status uint8

const (
	unwritten status = iota
	sending
	sent
	failed
	unknown
)

// row is a send in the log, with its rows in outbox and refunds.
type row struct {
	status  status
	attempt uint8
	counts  bool
	inDoubt bool
	due     bool  // in outbox: its lease has ended
	refund  uint8 // in refunds: the attempt; 0: none is due
	repeat  bool  // in refunds: the lease on it has ended
	code    int8
	logged  age
}

// code is a verification, as far as checks and resends read it.
type code struct {
	exists, approved bool
	tries, sends     uint8
}

// flight is what a replica does for a send that it holds: flight of package outbox, or a refund that is repeated.
type flight struct {
	next    work
	outcome status
	refund  bool // with the outcome
	inDoubt bool
	parked  bool // its process was killed: this call may still arrive
	attempt uint8
}

type work uint8

const (
	noWork     work = iota
	delivering      // Sender.Send
	finishing       // store.Finish
	refunding       // Refund in the limiter
	confirming      // store.Refunded
)

// check is a request that compares a code.
type check struct {
	pc     checkPC
	parked bool // its Approve may still arrive
	at     int8
	of     int8 // the verification
}

type checkPC uint8

const (
	unchecked checkPC = iota
	approving         // store.Approve
	checked
)

// mails are those that the mail server has taken for a send.
type mails struct {
	n        uint8
	id, code uint8 // of the first: Message-ID and code
	differ   bool
}

// faults are those that are left. A commit fails, or it is not known what became of it.
type faults struct{ flushes, kills, commits uint8 }

// history is what properties need of the past. No step reads it.
type history struct {
	killed, flushed bool

	abandoned  set // by a process that was killed between the gates, or before it had given back what it took
	lostRefund set // a flush took the tombstone
	compared   [sends]uint8
	approvals  [sends]uint8
	shortWait  bool // an answer gave a shorter wait than the log
}

// logged are the events that count in the log.
func (s *state) logged() (a ages, which set) {
	for i, r := range s.rows {
		if r.counts && r.logged.counts() {
			a[i], which = r.logged, which.with(i)
		}
	}
	return a, which
}

// ages are those of some rows, whether they count or not.
func (s *state) ages(of set) (a ages) {
	for i, r := range s.rows {
		if of.has(i) {
			a[i] = max(r.logged, fresh)
		}
	}
	return a
}

// normal is the state without what no later step and no property reads, so that fewer states differ.
func (s state) normal() state {
	for i := range s.requests {
		if q := &s.requests[i]; q.pc >= accepted && q.parked == idle && q.settle == settled {
			*q = request{pc: q.pc}
		}
	}
	for c := range s.checks {
		if k := &s.checks[c]; k.pc == checked && !k.parked {
			*k = check{pc: checked}
		}
	}
	for i := range s.rows {
		if r := &s.rows[i]; r.status >= sent && r.refund == 0 {
			r.attempt = 0
		}
	}
	return s
}
