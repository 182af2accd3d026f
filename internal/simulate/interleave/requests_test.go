package interleave

import "time"

// The steps of Service.Send, and of a look, over Gate of internal/gates.

// request makes the next call of a request, and one that was parked.
func (x *expansion) request(i int) {
	s, q := x.from, x.from.requests[i]
	switch q.pc {
	case idle:
		x.start(i)
	case beginning:
		x.begin(i, int(q.at))
	case reading:
		_, s.requests[i].read = s.logged()
		s.requests[i].pc = restoring
		x.due(s, "Replica {replica} reads the history in the log", i, int(q.at))
	case overruled, syncRefused, syncAdmitted, restoring:
		x.sync(&s, i, q.pc)
		x.due(s, calls[q.pc], i, int(q.at))
	}
	if q.parked != idle {
		s = x.from
		s.requests[i].parked = idle
		if q.parked == beginning {
			x.write(&s, i)
		} else {
			x.change(&s, i, q.parked)
		}
		x.may(s, calls[q.parked]+", late", i, int(q.at))
	}
}

var calls = map[pc]string{
	beginning:    "Replica {replica} writes send {send} into the log",
	overruled:    "Replica {replica} takes send {send}, which the log refused, out of the limiter",
	syncRefused:  "Replica {replica} records the history of the log in the limiter and refuses send {send}",
	syncAdmitted: "Replica {replica} records the history of the log in the limiter and answers 202 to send {send}",
	restoring:    "Replica {replica} restores that history in the limiter as complete, and answers",
}

// start is the first call: Take in Gate.TakeSend for a send, Peek in Gate.Look for a look. The send that comes first is called A.
func (x *expansion) start(i int) {
	if i == 1 && x.from.requests[0].pc == idle {
		return
	}
	c, text := call{op: take, send: int8(i)}, "Replica {replica} takes send {send} in the limiter"
	if i >= sends {
		c, text = call{op: peek}, "Replica {replica} looks at the limiter"
	}
	for _, r := range x.reachable(i) {
		s := x.from
		a := x.ask(s.limiter, c)
		q := &s.requests[i]
		_, q.before = s.logged()
		s.limiter, q.at, q.met = a.limiter, int8(r), a.events
		switch {
		case a.admitted:
			q.pc = beginning
		case a.incomplete && x.broken != noCompletion:
			q.pc = reading // Gate.Complete
		default:
			x.answer(&s, i, ended, a.wait)
		}
		x.may(s, text, i, r)
	}
}

// begin is store.Begin, and what Service.decide makes of its answer.
func (x *expansion) begin(i, r int) {
	s := x.from
	q := &s.requests[i]
	admitted, history := x.write(&s, i)
	q.read = history
	logged, limited := x.explain(s.ages(history.with(i))), x.explain(q.met)
	switch {
	case !admitted && x.broken == noUndo:
		q.pc = syncRefused
	case !admitted:
		q.pc = overruled
	case x.broken == limiterAlone:
		x.deliver(&s, i, r)
		x.answer(&s, i, accepted, limited.RetryAfter)
	case logged.Used > limited.Used || logged.RetryAfter > limited.RetryAfter: // lacks, in Gate.Agreed
		q.pc = syncAdmitted
	default:
		x.deliver(&s, i, r)
		x.answer(&s, i, accepted, max(logged.RetryAfter, limited.RetryAfter))
	}
	x.due(s, map[bool]string{true: calls[beginning], false: "The log refuses send {send} from replica {replica}"}[admitted], i, r)
	x.beginFails(i, r)
}

// beginFails is a Begin that failed, and one whose connection broke: its commit may be done later, or never.
func (x *expansion) beginFails(i, r int) {
	s := x.from
	s.requests[i] = request{pc: ended, at: int8(r), settle: giveBack}
	if x.broken == failureAccepted {
		s.requests[i].pc = accepted
	}
	x.mayFail(s, "The commit of send {send} fails, and replica {replica} answers 503", i, r)
	settle := lookUp // SettleLater
	switch x.broken {
	case noSettlement:
		settle = settled
	case uncertainGivenBack:
		settle = giveBack
	}
	s.requests[i] = request{pc: ended, at: int8(r), settle: settle, parked: beginning}
	x.mayFail(s, "Replica {replica} loses its connection at the commit of send {send}, and answers 503", i, r)
}

// write is the transaction of store.Begin.
func (x *expansion) write(s *state, i int) (admitted bool, read set) {
	f := facts{send: i, codes: s.codes}
	f.logged, read = s.logged()
	if x.broken == noSecondGate {
		f.logged = ages{}
	}
	d := x.decide(f)
	if d.admitted {
		s.rows[i] = d.row
		s.codes[d.row.code].exists, s.codes[d.row.code].sends = true, d.sends
	}
	return d.admitted, read
}

// change is the call that changes the limiter, with the Peek that follows it.
func (x *expansion) change(s *state, i int, at pc) answer {
	read := s.requests[i].read
	c := call{op: record, events: s.ages(read)}
	switch at {
	case overruled:
		c = call{op: refund, send: int8(i)}
	case restoring:
		c.op = restore
		s.seen.lostEvent, s.seen.unread = s.seen.lostEvent&^read, s.seen.unread&^read
	}
	a := x.ask(s.limiter, c)
	s.limiter = a.limiter
	return a
}

// sync makes that call, and then answers: the ends of Gate.Overruled, Gate.Agreed and Gate.Complete.
func (x *expansion) sync(s *state, i int, at pc) {
	q := s.requests[i]
	wait := x.change(s, i, at).wait
	switch at {
	case overruled:
		s.requests[i].pc = syncRefused
	case syncAdmitted:
		x.deliver(s, i, int(q.at))
		x.answer(s, i, accepted, max(wait, x.explain(s.ages(q.read.with(i))).RetryAfter))
	default:
		x.answer(s, i, ended, max(wait, x.explain(s.ages(q.read)).RetryAfter))
	}
}

// answer ends a request. Its wait is compared with that of the log: of its own send, and of those that counted when the request
// began and still do.
func (x *expansion) answer(s *state, i int, end pc, wait time.Duration) {
	q := s.requests[i]
	known := q.before
	if end == accepted {
		known = known.with(i)
	}
	logged, _ := s.logged()
	s.seen.shortWait = s.seen.shortWait || wait < x.explain(logged.of(known&^x.mayLack(s))).RetryAfter
	s.requests[i] = request{pc: end, at: q.at}
}

// settle is the background work for a request that was answered 503: Outbox.flush and Outbox.settleUncertain.
func (x *expansion) settle(i int) {
	s := x.from
	q := &s.requests[i]
	text := "Replica {replica} looks for the row of send {send}"
	switch written := s.rows[i].status != unwritten; {
	case q.settle == giveBack:
		s.limiter, q.settle = x.ask(s.limiter, call{op: refund, send: int8(i)}).limiter, settled
		text = "Replica {replica} gives back in the limiter what send {send} took"
	case q.settle != lookUp && q.settle != overdue:
		return
	case written:
		q.settle = settled
	case q.settle == lookUp && x.broken != settledAtOnce:
		q.settle = missed
	default:
		q.settle = giveBack
	}
	x.due(s, text, i, int(q.at))
}
