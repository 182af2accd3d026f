package interleave

import "time"

// The steps of Service.Send over Gate of internal/gates.

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
		x.arrive(i, q.parked)
	}
}

var calls = map[pc]string{
	beginning:    "Replica {replica} writes send {send} into the log",
	overruled:    "Replica {replica} takes send {send}, which the log refused, out of the limiter",
	syncRefused:  "Replica {replica} records the history of the log in the limiter and refuses send {send}",
	syncAdmitted: "Replica {replica} records the history of the log in the limiter and answers 202 to send {send}",
	restoring:    "Replica {replica} restores that history in the limiter as complete, and answers",
}

// arrive makes a parked call, whose answer is lost.
func (x *expansion) arrive(i int, at pc) {
	s := x.from
	q := &s.requests[i]
	if q.parked = idle; at == beginning {
		x.write(&s, i)
	} else {
		x.change(&s, i, at)
	}
	x.may(s, calls[at]+", late", i, int(q.at))
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
		q.at = int8(r)
		x.take(&s, i)
		x.may(s, "Replica {replica} takes send {send} in the limiter", i, r)
	}
}

// take is Gate.TakeSend, with Gate.CompleteFromLog where the limiter refused and that is called for.
func (x *expansion) take(s *state, i int) {
	q := &s.requests[i]
	a := x.ask(s.limiter, call{op: take, send: int8(i)})
	if s.limiter, q.met = a.limiter, a.events; a.admitted {
		q.pc = beginning
	} else if a.incomplete && x.broken != noCompletion {
		q.pc = reading
	} else {
		x.answer(s, i, ended, a.wait)
	}
}

// begin is store.Begin, and what Service.decide makes of its answer.
func (x *expansion) begin(i, r int) {
	s, text := x.from, calls[beginning]
	q := &s.requests[i]
	admitted, history := x.write(&s, i)
	q.read = history
	logged, limited := x.explain(s.ages(history.with(i))), x.explain(q.met)
	switch {
	case !admitted:
		q.pc, text = overruled, "The log refuses send {send} from replica {replica}"
		if x.broken == noUndo {
			q.pc = syncRefused
		}
	case x.broken != limiterAlone && (logged.Used > limited.Used || logged.RetryAfter > limited.RetryAfter): // limiterLacks, in Gate.MergeAdmitted
		q.pc = syncAdmitted
	default:
		x.deliver(&s, i, r)
		x.answer(&s, i, accepted, limited.RetryAfter)
	}
	x.due(s, text, i, r)
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
	x.mayFail(s, "The commit of send {send} fails, and replica {replica} answers 503", i, r)
	q.parked, q.settle = beginning, lookUp // Outbox.ReconcileLater
	if x.broken == uncertainGivenBack {
		q.settle = giveBack
	}
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
	q := s.requests[i]
	read := q.read
	if at == syncAdmitted {
		read = read.with(i)
	}
	c := call{op: resync, events: s.ages(read)}
	if at == overruled {
		c = call{op: refund, send: int8(i)}
	} else if at == restoring {
		c.op = restore
	}
	a := x.ask(s.limiter, c)
	s.limiter = a.limiter
	return a
}

// sync makes that call, and then answers: the ends of Gate.RevertOverruled, Gate.MergeAdmitted and Gate.CompleteFromLog.
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

// answer ends a request. Its wait is compared with that of the log: of its own send, and of those that
// counted when the request began and still do.
func (x *expansion) answer(s *state, i int, end pc, wait time.Duration) {
	q := s.requests[i]
	known := q.before
	if end == accepted {
		known = known.with(i)
	}
	logged, _ := s.logged()
	s.seen.shortWait = s.seen.shortWait || wait < x.explain(logged.of(known&^s.mayLack())).RetryAfter
	s.requests[i] = request{pc: end, at: q.at}
}

// settle is the background work for a request that was answered 503: Outbox.flush and Outbox.reconcile.
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
	case q.settle == lookUp:
		q.settle = missed
	default:
		q.settle = giveBack
	}
	x.due(s, text, i, int(q.at))
}
