package interleave

// The steps of package outbox. Its calls of the log are those of internal/store/sqlite/outbox.go.

// deliver is Outbox.Deliver: the replica that wrote the row makes the first attempt.
func (x *expansion) deliver(s *state, i, r int) {
	s.flights[r][i] = s.begun(i, flight{attempt: 1})
}

// begun is an attempt as far as Outbox.beforeSending: a code that was approved meanwhile is not sent.
func (s *state) begun(i int, f flight) flight {
	f.next = delivering
	if s.codes[s.rows[i].code].approved {
		f.next, f.outcome, f.refund = finishing, failed, true
	}
	return f
}

// advance makes the next call of a flight.
func (x *expansion) advance(r, i int) {
	switch x.from.flights[r][i].next {
	case delivering:
		for _, reply := range x.replies {
			x.send(r, i, reply)
		}
	case finishing:
		x.finish(r, i)
	case refunding:
		s := x.from
		s.limiter = x.ask(s.limiter, call{op: refund, send: int8(i)}).limiter
		s.flights[r][i].next = confirming
		x.called(s, "Replica {replica} refunds send {send} in the limiter", r, i)
	case confirming:
		x.confirm(r, i)
	}
}

// called adds a call of a flight. Nothing follows that of a process that was killed.
func (x *expansion) called(s state, text string, r, i int) {
	if x.from.flights[r][i].parked {
		s.flights[r][i] = flight{}
		x.may(s, text+", late", i, r)
		return
	}
	x.due(s, text, i, r)
}

// answerLost adds a call of a flight whose answer is lost. Outbox.retryWrite repeats it.
func (x *expansion) answerLost(s state, text string, r, i int) {
	if !x.from.flights[r][i].parked {
		x.mayFail(s, text+", but loses the answer", i, r)
	}
}

// send is Outbox.send, and what Outbox.classifyFailure makes of the reply.
func (x *expansion) send(r, i int, reply reply) {
	s := x.from
	f := &s.flights[r][i]
	f.next = finishing
	text := "The mail server accepts the mail of send {send} from replica {replica}"
	switch reply {
	case accepts:
		f.outcome = sent
		x.mail(&s, i, f.attempt)
	case refuses:
		f.outcome, f.refund = failed, true
		text = "The mail server refuses the mail of send {send} from replica {replica}"
	case breaks:
		f.outcome = unknown
		x.mail(&s, i, f.attempt)
		text = "The connection of replica {replica} breaks after the whole mail of send {send}"
		if x.broken == unknownFailed {
			f.outcome = failed
		}
	}
	x.called(s, text, r, i)
}

// mail adds a mail: its Message-ID is the send's, its code the verification's (Outbox.composeMail).
func (x *expansion) mail(s *state, i int, attempt uint8) {
	m, id, code := &s.mails[i], uint8(i), uint8(s.rows[i].code)
	if x.broken == newMessageID {
		id += sends * attempt
	}
	if m.n == 0 {
		m.id, m.code = id, code
	}
	m.n++
	m.differ = m.differ || m.id != id || m.code != code
}

// holds says whether a write of the flight applies to the row.
func (f flight) holds(r row) bool { return r.status == sending && r.attempt == f.attempt }

// finish is store.Finish.
func (x *expansion) finish(r, i int) {
	s, text := x.from, "Replica {replica} records the outcome of send {send}"
	f, row := s.flights[r][i], &s.rows[i]
	applied := f.holds(*row)
	if applied {
		row.status, row.due = f.outcome, false
		if f.refund && !row.inDoubt {
			row.counts, row.refund = false, row.attempt
		}
		x.answerLost(s, text, r, i)
	}
	s.flights[r][i] = flight{}
	if applied && f.refund && !f.inDoubt {
		s.flights[r][i] = flight{next: refunding, attempt: f.attempt}
	}
	x.called(s, text, r, i)
}

// confirm is store.Refunded. What fails is repeated by a tick.
func (x *expansion) confirm(r, i int) {
	s, f := x.from, x.from.flights[r][i]
	s.flights[r][i] = flight{}
	if !f.parked {
		x.mayFail(s, "Replica {replica} cannot confirm the refund of send {send}", i, r)
	}
	if row := &s.rows[i]; row.refund == f.attempt {
		row.refund, row.repeat = 0, false
	}
	x.called(s, "Replica {replica} confirms the refund of send {send}", r, i)
}

// takeOver is store.TakeOver at a tick. A flight that the replica still has goes on under the new number: Outbox.track.
func (x *expansion) takeOver(r, i int) {
	s := x.from
	row, f := &s.rows[i], &s.flights[r][i]
	if !s.alive[r] || row.status != sending || !row.due && x.broken != noLease || x.broken == neverTakenOver {
		return
	}
	row.inDoubt = x.broken != noDoubt
	row.due, row.attempt = false, row.attempt+1
	x.mayFail(s, "Replica {replica} takes send {send} over, but loses the answer", i, r)
	if f.next == noWork {
		*f = s.begun(i, *f)
	}
	f.attempt, f.inDoubt = row.attempt, row.inDoubt
	x.due(s, "Replica {replica} takes send {send} over", i, r)
}

// repeatRefund is store.RefundsDue at a tick.
func (x *expansion) repeatRefund(r, i int) {
	s := x.from
	row, f := &s.rows[i], &s.flights[r][i]
	if !s.alive[r] || !row.repeat || f.next != noWork || x.broken == refundOnce {
		return
	}
	row.repeat = false
	x.mayFail(s, "Replica {replica} leases the refund of send {send}, but loses the answer", i, r)
	*f = flight{next: refunding, attempt: row.refund}
	x.due(s, "Replica {replica} leases the refund of send {send}", i, r)
}
