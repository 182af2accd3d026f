package interleave

import "time"

// The steps of Service.Send, and of a look, over Gate of internal/gates.

// request makes the next call of a request, and one that was parked.
func (x *expansion) request(i int) {
	s, q := x.from, x.from.requests[i]
	switch q.pc {
	case idle:
		x.start(i)
	case taking:
		x.take(&s, i)
		x.due(s, calls[taking], int(q.send), int(q.at))
	case retaking:
		x.change(&s, i, retaking)
		s.requests[i].pc = beginning
		x.due(s, calls[retaking], int(q.send), int(q.at))
	case beginning:
		x.begin(i, int(q.at))
	case reading:
		_, s.requests[i].read = s.logged()
		s.requests[i].pc = restoring
		x.due(s, "Replica {replica} reads the history in the log", i, int(q.at))
	case overruled, syncRefused, syncAdmitted, restoring:
		x.sync(&s, i, q.pc)
		x.due(s, calls[q.pc], int(q.send), int(q.at))
	case releasing:
		x.release(i)
	}
	if q.parked != idle {
		x.arrive(i, q.parked)
	}
}

var calls = map[pc]string{
	taking:       "Replica {replica} takes send {send} in the limiter",
	retaking:     "Replica {replica} records in the limiter that send {send} counts from now",
	beginning:    "Replica {replica} writes send {send} into the log",
	overruled:    "Replica {replica} takes send {send}, which the log refused, out of the limiter",
	syncRefused:  "Replica {replica} records the history of the log in the limiter and refuses send {send}",
	syncAdmitted: "Replica {replica} records the history of the log in the limiter and answers 202 to send {send}",
	restoring:    "Replica {replica} restores that history in the limiter as complete, and answers",
	releasing:    "Replica {replica} releases the Idempotency-Key",
}

// arrive makes a parked call, whose answer is lost.
func (x *expansion) arrive(i int, at pc) {
	s := x.from
	q := &s.requests[i]
	switch q.parked = idle; at {
	case taking:
		s.limiter = x.ask(s.limiter, call{op: take, send: q.send}).limiter
	case beginning:
		x.write(&s, i)
	case releasing:
		s.free(q)
	default:
		x.change(&s, i, at)
	}
	x.may(s, calls[at]+", late", int(q.send), int(q.at))
}

// start is the first call of a request. The send that comes first is called A.
func (x *expansion) start(i int) {
	if i == 1 && x.from.requests[0].pc == idle {
		return
	}
	for _, r := range x.reachable(i) {
		s := x.from
		q := &s.requests[i]
		_, q.before = s.logged()
		switch q.at, q.send = int8(r), int8(i); {
		case i >= sends:
			x.look(&s, i, x.ask(s.limiter, call{op: peek}))
			x.may(s, "Replica {replica} looks at the limiter", i, r)
		case x.keyed:
			x.claim(s, i)
		default:
			x.take(&s, i)
			x.may(s, calls[taking], i, r)
		}
	}
}

// take is Gate.TakeSend. Gate.Recount follows where the ID is that of an earlier request.
func (x *expansion) take(s *state, i int) {
	q := &s.requests[i]
	a := x.ask(s.limiter, call{op: take, send: q.send})
	switch s.limiter, q.met = a.limiter, a.events; {
	case a.admitted && q.inherited:
		q.pc = retaking
	case a.admitted:
		q.pc = beginning
	case a.refunded:
		x.answer(s, i, ended, window) // a 503 has no waits
	default:
		x.look(s, i, a)
	}
}

// look is the end of Gate.Peek, and of a Take that the limiter refused: Gate.Complete, where that is called for.
func (x *expansion) look(s *state, i int, a answer) {
	if a.incomplete && x.broken != noCompletion {
		s.requests[i].pc = reading
		return
	}
	x.answer(s, i, ended, a.wait)
}

// begin is store.Begin, and what Service.decide makes of its answer.
func (x *expansion) begin(i, r int) {
	s, text := x.from, calls[beginning]
	q := &s.requests[i]
	admitted, repeated, history := x.write(&s, i)
	q.read = history
	logged, limited := x.explain(s.ages(history.with(int(q.send)))), x.explain(q.met)
	switch {
	case repeated:
		text = "Replica {replica} finds send {send} in the log, and answers 202"
		x.answer(&s, i, accepted, window) // replay looks again
	case !admitted:
		q.pc, text = overruled, "The log refuses send {send} from replica {replica}"
		if x.broken == noUndo {
			q.pc = syncRefused
		}
	case x.broken != limiterAlone && (logged.Used > limited.Used || logged.RetryAfter > limited.RetryAfter): // limiterLacks, in Gate.MergeAdmitted
		q.pc = syncAdmitted
	default:
		x.deliver(&s, int(q.send), r)
		x.answer(&s, i, accepted, limited.RetryAfter)
	}
	x.due(s, text, int(q.send), r)
	x.beginFails(i, r)
}

// beginFails is a Begin that failed, and one whose connection broke: its commit may be done later, or never.
func (x *expansion) beginFails(i, r int) {
	s := x.from
	q := &s.requests[i]
	x.answer(&s, i, ended, window)
	if q.settle = giveBack; x.broken == failureAccepted {
		q.pc = accepted
	}
	x.mayFail(s, "The commit of send {send} fails, and replica {replica} answers 503", int(q.send), r)
	q.forget, q.parked, q.settle = false, beginning, lookUp // Outbox.ReconcileLater
	s.seen.unheard = s.seen.unheard.with(int(q.send))
	if x.broken == uncertainGivenBack {
		q.settle = giveBack
	}
	x.mayFail(s, "Replica {replica} loses its connection at the commit of send {send}, and answers 503", int(q.send), r)
}

// write is the transaction of store.Begin.
func (x *expansion) write(s *state, i int) (admitted, repeated bool, read set) {
	send := int(s.requests[i].send)
	if s.rows[send].status != unwritten {
		return true, x.repeated(send), 0
	}
	f := facts{send: send, codes: s.codes}
	f.logged, read = s.logged()
	if x.broken == noSecondGate {
		f.logged = ages{}
	}
	d := x.decide(f)
	if d.admitted {
		s.rows[send] = d.row
		s.codes[d.row.code].exists, s.codes[d.row.code].sends = true, d.sends
	}
	return d.admitted, false, read
}

// change is the call that changes the limiter, with the Peek that follows it.
func (x *expansion) change(s *state, i int, at pc) answer {
	q := s.requests[i]
	read := q.read
	if at == syncAdmitted {
		read = read.with(int(q.send))
	}
	c := call{op: resync, events: s.ages(read)}
	switch at {
	case retaking:
		c = call{op: record}
		c.events[q.send] = fresh
	case overruled:
		c = call{op: refund, send: q.send}
	case restoring:
		c.op = restore
	}
	a := x.ask(s.limiter, c)
	s.limiter = a.limiter
	return a
}

// sync makes that call, and then answers: the ends of Gate.RevertOverruled, Gate.MergeAdmitted and Gate.Complete.
func (x *expansion) sync(s *state, i int, at pc) {
	q := s.requests[i]
	wait := x.change(s, i, at).wait
	switch at {
	case overruled:
		s.requests[i].pc = syncRefused
	case syncAdmitted:
		x.deliver(s, int(q.send), int(q.at))
		x.answer(s, i, accepted, max(wait, x.explain(s.ages(q.read.with(int(q.send)))).RetryAfter))
	default:
		x.answer(s, i, ended, max(wait, x.explain(s.ages(q.read)).RetryAfter))
	}
}

// answer ends a request, but for the release of its key. Its wait is compared with that of the log: of its own send, and of those that
// counted when the request began and still do.
func (x *expansion) answer(s *state, i int, end pc, wait time.Duration) {
	q := s.requests[i]
	known := q.before
	if end == accepted {
		known = known.with(int(q.send))
	}
	logged, _ := s.logged()
	s.seen.shortWait = s.seen.shortWait || wait < x.explain(logged.of(known&^x.mayLack(s))).RetryAfter
	s.requests[i] = request{pc: end, at: q.at, send: q.send}
	if x.keyed && i < sends && end == ended {
		s.requests[i].pc, s.requests[i].forget = releasing, true
	}
}

// settle is the background work for a request that was answered 503: Outbox.flush and Outbox.reconcile.
func (x *expansion) settle(i int) {
	s := x.from
	q := &s.requests[i]
	text := "Replica {replica} looks for the row of send {send}"
	switch written := s.rows[q.send].status != unwritten; {
	case q.settle == giveBack:
		s.limiter, q.settle = x.ask(s.limiter, call{op: refund, send: q.send}).limiter, settled
		text = "Replica {replica} gives back in the limiter what send {send} took"
		if other := s.requests[1-i]; other.send == q.send && other.pc >= retaking {
			s.seen.tooLate = s.seen.tooLate.with(int(q.send))
		}
	case q.settle != lookUp && q.settle != overdue:
		return
	case written:
		q.settle = settled
	case q.settle == lookUp:
		q.settle = missed
	default:
		q.settle = giveBack
	}
	x.due(s, text, int(q.send), int(q.at))
}
