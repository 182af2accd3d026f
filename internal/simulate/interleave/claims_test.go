package interleave

import (
	"time"

	"sendcode/internal/store"
	"sendcode/internal/store/gate"
)

// The steps of Service.claim and Service.releaseKey, where both sends carry one Idempotency-Key.

// claim is store.Claim. A lease on the key that has ended goes to the next request, with the ID of the send.
func (x *expansion) claim(s state, i int) {
	q, before := &s.requests[i], s
	if !s.claim.made {
		s.claim = claim{made: true, send: q.send}
		x.claimed(s, before, i, store.ClaimHeld)
		return
	}
	held, row := s.claim.lapsed, store.Send{}
	if s.rows[s.claim.send].status != unwritten {
		row.ID = sendID(int(s.claim.send))
	}
	s.claim.lapsed, q.send = false, s.claim.send
	claimed := store.ClaimRow{Fingerprint: make([]byte, 32)}.Claimed(store.Claim{}, held, row, store.Verification{}, now)
	if q.inherited = claimed.State == store.ClaimHeld; q.inherited && x.broken == ownID {
		q.send, s.claim.send, q.inherited = int8(i), int8(i), false
	}
	x.claimed(s, before, i, claimed.State)
}

// claimed is what Service.Send makes of the claim.
func (x *expansion) claimed(s, before state, i int, as store.ClaimState) {
	q, text := &s.requests[i], "Replica {replica} claims the Idempotency-Key for send {send}"
	r, send := int(q.at), int(q.send)
	switch as {
	case store.ClaimHeld:
		q.pc = taking
	case store.ClaimDone:
		x.answer(&s, i, accepted, window) // replay looks again
		text = "Replica {replica} finds send {send} by its Idempotency-Key, and answers 202"
	default:
		s = before
		s.requests[i].pc = ended
		text = "Replica {replica} finds the Idempotency-Key in use, and answers 409"
	}
	x.may(s, text, send, r)
	if as == store.ClaimHeld {
		before.requests[i].pc, s.requests[i].pc = ended, ended
		x.mayFail(before, "Replica {replica} cannot claim the Idempotency-Key, and answers 503", send, r)
		x.mayFail(s, "Replica {replica} claims the Idempotency-Key, but loses the answer and answers 503", send, r)
	}
}

// release is store.Release.
func (x *expansion) release(i int) {
	s := x.from
	q := &s.requests[i]
	q.pc = ended
	x.mayFail(s, "Replica {replica} cannot release the Idempotency-Key", int(q.send), int(q.at))
	s.free(q)
	x.due(s, calls[releasing], int(q.send), int(q.at))
}

// free forgets the claim, or ends its lease so that the next request goes on with its send.
func (s *state) free(q *request) {
	switch {
	case !s.claim.made || s.claim.send != q.send:
	case q.forget:
		s.claim = claim{}
	default:
		s.claim.lapsed = true
	}
}

// repeated says that gate.AnswerRepeated knows the send of a Begin by its row.
func (m *model) repeated(send int) bool {
	in := m.intent(send)
	b, err := gate.AnswerRepeated(in, store.Send{ID: in.Send.ID, App: in.Send.App, Channel: in.Send.Channel, Recipient: in.Send.Recipient, LoggedAt: now.Add(-time.Second)}, in.Verification)
	return err == nil && b.Admitted && b.Repeated
}
