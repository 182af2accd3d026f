package interleave

// property is what holds in every state or, atRest, in those where nothing more is due.
type property struct {
	name   string // what is said of a state that breaks it
	atRest bool
	breaks func(m *model, s *state, i int) bool // asked for each send
}

// mayLack are the sends that the limiter may lack although it is marked as complete: those that are recorded before their answer.
func (s *state) mayLack() (lacking set) {
	for i, q := range s.requests {
		if q.pc == syncAdmitted {
			lacking = lacking.with(i)
		}
	}
	return lacking
}

const (
	overPolicy   = "the log counts more sends than the rule allows"
	uncounted    = "a mail is out that does not count"
	doubled      = "a mail was doubled, and no process was killed"
	changed      = "a mail was repeated with another Message-ID or code"
	untrue       = "the log says sent or failed of a send, and the mail server knows otherwise"
	lost         = "a send that was answered 202 has not ended"
	stuck        = "a send is in flight for ever"
	kept         = "a send failed for good, and its refund did not come to an end"
	leaked       = "the limiter counts a send that the log does not, and no process was killed before it gave that back"
	givenAway    = "the limiter does not count a send that the log does, and was not flushed"
	overCompared = "a code was compared more often than tries are counted, or than it has tries"
	overApproved = "a code was approved twice"
	shortWait    = "an answer gave a shorter wait than the log"
	shortLook    = "the limiter, marked as complete, gives a shorter wait than the log"
)

var properties = []property{
	{overPolicy, false, func(m *model, s *state, _ int) bool { logged, _ := s.logged(); return m.explain(logged).Used > m.limit }},
	{uncounted, false, func(_ *model, s *state, i int) bool { return s.mails[i].n > 0 && !s.rows[i].counts }},
	{doubled, false, func(_ *model, s *state, i int) bool { return s.mails[i].n > 1 && !s.seen.killed || s.mails[i].n > 2 }},
	{changed, false, func(_ *model, s *state, i int) bool { return s.mails[i].differ }},
	{untrue, false, func(_ *model, s *state, i int) bool {
		r, n := s.rows[i], s.mails[i].n
		return r.status == sent && n == 0 || r.status == failed && !r.inDoubt && n > 0
	}},
	{givenAway, false, func(m *model, s *state, i int) bool {
		logged, _ := s.logged()
		return logged[i] != never && s.limiter.events[i] == never && !s.seen.flushed && !s.mayLack().has(i)
	}},
	{overCompared, false, func(m *model, s *state, i int) bool {
		return s.seen.compared[i] > s.codes[i].tries || int(s.seen.compared[i]) > m.tries
	}},
	{overApproved, false, func(_ *model, s *state, i int) bool { return s.seen.approvals[i] > 1 }},
	{shortWait, false, func(_ *model, s *state, _ int) bool { return s.seen.shortWait }},
	{shortLook, false, func(m *model, s *state, _ int) bool {
		logged, which := s.logged()
		a := m.ask(s.limiter, call{op: peek})
		return (!a.incomplete || m.broken == noCompletion) && a.wait < m.explain(logged.of(which&^s.mayLack())).RetryAfter
	}},
	{stuck, true, func(_ *model, s *state, i int) bool { return s.rows[i].status == sending }},
	{lost, true, func(_ *model, s *state, i int) bool {
		return s.requests[i].pc == accepted && s.rows[i].status < sent
	}},
	{kept, true, func(_ *model, s *state, i int) bool {
		r := s.rows[i]
		return r.refund != 0 || r.status == failed && r.counts != r.inDoubt
	}},
	{leaked, true, func(m *model, s *state, i int) bool {
		abandoned := s.rows[i].status == unwritten && s.seen.abandoned.has(i)
		rewritten := s.seen.lostRefund.has(i) && m.broken != lostTombstones
		return s.limiter.events[i] != never && !s.rows[i].counts && !abandoned && !rewritten
	}},
}

// wrong names the first property that a state breaks.
func (m *model) wrong(s state, rest bool) string {
	for _, p := range properties {
		for i := range sends {
			if (rest || !p.atRest) && p.breaks(m, &s, i) {
				return p.name
			}
		}
	}
	return ""
}
