package interleave

import "sendcode/quota"

// setup is one configuration of the service, its clients and its faults.
type setup struct {
	limit   int     // of the rule: so many a minute
	tries   int     // of a code
	sends   int     // requests of one holder for one recipient
	checks  int     // of a code that has arrived
	replies []reply // that the mail server may give
	faults  faults  // that may happen
	broken  mutation
}

// reply is what a mail server says to a mail.
type reply uint8

const (
	accepts reply = iota
	refuses       // for good
	breaks        // nothing, after the whole mail was handed over
)

// model gives the steps of a setup.
type model struct {
	setup
	answers   map[question]answer
	states    map[ages]quota.State
	decisions map[facts]decision
}

func (s setup) model() *model {
	return &model{s, map[question]answer{}, map[ages]quota.State{}, map[facts]decision{}}
}

func (m *model) initial() state { return state{alive: [replicas]bool{true, true}, left: m.faults} }

// expansion gathers the steps of one state.
type expansion struct {
	*model
	from state
	out  []step
}

func (m *model) next(s state, buffer []step) []step {
	x := &expansion{m, s, buffer}
	for i := range m.sends {
		x.request(i)
		x.settle(i)
		for r := range replicas {
			x.advance(r, i)
			x.takeOver(r, i)
			x.repeatRefund(r, i)
		}
	}
	for c := range m.checks {
		x.check(c)
	}
	x.flush()
	x.kill()
	x.passTime()
	return x.out
}

// due adds a step that a live process takes sooner or later.
func (x *expansion) due(to state, text string, send, replica int) {
	x.out = append(x.out, step{to.normal(), note{text, send, replica}, true})
}

// may adds a step that may be taken or not.
func (x *expansion) may(to state, text string, send, replica int) {
	x.out = append(x.out, step{to.normal(), note{text, send, replica}, false})
}

// mayFail adds what follows a commit that failed, or whose answer was lost. An outbox repeats what failed, as if nothing had been.
func (x *expansion) mayFail(to state, text string, send, replica int) {
	if to.left.commits > 0 {
		to.left.commits--
		x.may(to, text, send, replica)
	}
}

// reachable are the replicas that a request may go to. The one that A goes to is called the first.
func (x *expansion) reachable(send int) (rs []int) {
	for r, alive := range x.from.alive {
		if alive && (send != 0 || r == 0) {
			rs = append(rs, r)
		}
	}
	return rs
}

// flush is FLUSHALL: it takes events, tombstones and marks. The server stays the same, and so does its life.
func (x *expansion) flush() {
	if x.from.left.flushes == 0 {
		return
	}
	s := x.from
	s.left.flushes--
	s.seen.flushed = true
	for i, t := range s.limiter.tombstones {
		if t != never {
			s.seen.lostRefund = s.seen.lostRefund.with(i)
		}
	}
	s.limiter = limiter{}
	x.may(s, "The limiter is flushed", 0, 0)
}

// kill ends a process. Each call that it has under way may still arrive.
func (x *expansion) kill() {
	for _, r := range x.reachable(sends) {
		s := x.from
		if s.left.kills == 0 {
			return
		}
		s.left.kills--
		s.alive[r], s.seen.killed = false, true
		for i := range s.requests {
			if int(s.requests[i].at) == r {
				s.abandon(i)
			}
		}
		for c := range s.checks {
			if k := &s.checks[c]; int(k.at) == r && k.pc == approving {
				k.pc, k.parked = checked, true
			}
		}
		for i := range s.flights[r] {
			s.flights[r][i].parked = s.flights[r][i].next != noWork
		}
		x.may(s, "Replica {replica} is killed", 0, r)
	}
}

// abandon ends a request whose process was killed.
func (s *state) abandon(i int) {
	q := &s.requests[i]
	if q.pc == beginning || q.pc == overruled || q.settle != settled {
		s.seen.abandoned = s.seen.abandoned.with(i)
	}
	if q.settle = settled; !q.pc.underWay() {
		return
	}
	if q.pc != reading && q.parked == idle {
		q.parked = q.pc
	}
	q.pc = ended
}

// passTime lets half a window pass, where no request is between two calls. What clients had on its way has arrived by then or never will.
func (x *expansion) passTime() {
	s := x.from
	for i := range s.requests {
		if s.requests[i].pc.underWay() {
			return
		}
		s.requests[i].parked = idle
	}
	for c := range s.checks {
		if s.checks[c].pc == approving {
			return
		}
		s.checks[c].parked = false
	}
	waited := false
	for i := range sends {
		waited = s.endWaits(i) || waited
		s.rows[i].logged = s.rows[i].logged.older()
	}
	s.limiter = s.limiter.older()
	switch {
	case waited:
		x.due(s, "Half a minute passes", 0, 0)
	case s != x.from:
		x.may(s, "Half a minute passes", 0, 0)
	}
}

// endWaits ends what waits for time on behalf of one send. A live process has renewed its leases: Outbox.renew.
func (s *state) endWaits(i int) (waited bool) {
	r, q, held := s.rows[i], s.requests[i], false
	for n, alive := range s.alive {
		f := s.flights[n][i]
		held = held || alive && f.next != noWork && f.attempt == r.attempt
	}
	r.due = r.due || r.status == sending && !held
	r.repeat = r.repeat || r.refund != 0
	if q.settle == missed {
		q.settle = overdue
	}
	waited = r != s.rows[i] || q != s.requests[i]
	s.rows[i], s.requests[i] = r, q
	return waited
}
