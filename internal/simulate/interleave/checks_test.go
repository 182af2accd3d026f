package interleave

import (
	"sendcode/internal/store/gate"
	"sendcode/internal/verification"
)

// The steps of Service.Check, for a code that has arrived.

func (x *expansion) check(c int) {
	switch k := x.from.checks[c]; {
	case k.pc == unchecked:
		for v := range x.from.codes {
			for _, r := range x.reachable(sends) {
				if x.from.arrived(v) {
					x.attempt(c, check{at: int8(r), of: int8(v)})
				}
			}
		}
	case k.pc == approving:
		s := x.from
		x.approve(&s, c)
		x.due(s, "Replica {replica} approves the code of send {send}", int(k.of), int(k.at))
		s = x.from
		s.checks[c].pc = checked
		x.mayFail(s, "The approval fails, and replica {replica} answers 503", 0, int(k.at))
		s.checks[c].parked = true
		x.mayFail(s, "Replica {replica} loses its connection at the approval, and answers 503", 0, int(k.at))
	case k.parked:
		s := x.from
		x.approve(&s, c)
		x.may(s, "Replica {replica} approves the code of send {send}, late", int(k.of), int(k.at))
	}
}

// arrived says whether a mail with the code is out.
func (s *state) arrived(code int) bool {
	for i, r := range s.rows {
		if s.mails[i].n > 0 && int(r.code) == code {
			return true
		}
	}
	return false
}

// attempt is store.Attempt, which counts the try, and the comparison after it.
func (x *expansion) attempt(c int, k check) {
	s, v, r := x.from, int(k.of), int(k.at)
	s.checks[c] = check{pc: checked, at: k.at, of: k.of}
	before := x.verification(v, s.codes[v])
	if verification.StateOf(before, now) != verification.Pending {
		x.may(s, "Replica {replica} checks the code of send {send}, which has ended", v, r)
		return
	}
	x.mayFail(s, "The try at the code of send {send} is not counted, and replica {replica} answers 503", v, r)
	if gate.Pending(before, now) && x.broken != notCounted {
		s.codes[v].tries++
	}
	x.mayFail(s, "The try at the code of send {send} is counted, but replica {replica} loses the answer and answers 503", v, r)
	s.seen.compared[v]++
	x.may(s, "Replica {replica} counts a try at the code of send {send}, which is wrong", v, r)
	s.checks[c].pc = approving
	x.may(s, "Replica {replica} counts a try at the code of send {send}, which is right", v, r)
}

// approve is store.Approve.
func (x *expansion) approve(s *state, c int) {
	k := &s.checks[c]
	if v := &s.codes[k.of]; !v.approved || x.broken == approvedAgain {
		v.approved = true
		s.seen.approvals[k.of]++
	}
	k.pc, k.parked = checked, false
}
