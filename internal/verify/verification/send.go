package verification

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/base/fault"
	"sendcode/internal/limit/gates"
	"sendcode/internal/store"
	"sendcode/quota"
)

// A send has these steps. Each takes the result of the step before:
//
//	Send                parses the request (parse_ask.go), and waits for the turn of its Idempotency-Key (turns.go)
//	decideInTurn        calls decide, again after another process had the key or after a token gave a pass
//	decide              takes a slot, a place, the send's ID (idempotency.go) and its pass (human.go)
//	refuseBeforeGates   refuses for reasons that count nothing (refuse_early.go)
//	takeQuota           lets the limiter, the first gate, decide (first_gate.go)
//	write               lets the database, the second gate, decide (second_gate.go)
//	deliver             gives the send to the outbox, and answers (deliver.go)
//
// Slots bound how many requests for one recipient are decided at once, and places how many for all
// recipients. A pass shows that the caller passed a human check.
//
// Each function releases in a defer what it has taken. If the send was written, the key and the
// pass are not released, unless Request.MaySend kept the message back.
//
// A step may answer the request, because a rule refuses it, because it needs a human check, or
// because it repeats an earlier request. Then the step returns an *Answer besides its error, and no
// later step runs.
//
// The context client ends when the client hangs up: it is for steps that only wait. The context
// deciding ends when the time for the decision is over, but not when the client hangs up. Otherwise
// a send could be counted and never delivered.

// Send decides a request for a code. If both gates admit it, Send starts the delivery before it
// returns. A deadline of client also bounds the time for the decision. If another request with the
// same Idempotency-Key is under way, Send waits for its answer. Errors: *fault.InvalidError,
// *FailedCheckLimitError during a lockout, *HoldUntilError before SendDependencies.HoldUntil,
// *admission.OverloadedError, ErrCallerCode, fault.NotFound, fault.Unavailable, fault.Uncertain,
// ErrKeyInProgress, ErrKeyReused, ErrKeptBack.
func (s *sendService) Send(client context.Context, ask Request) (answer Answer, err error) {
	if err := s.refuseIfOverloaded(ask); err != nil {
		return Answer{}, err
	}
	deciding, cancel := decidingContext(client)
	defer cancel()
	r, err := s.parseSend(client, deciding, ask)
	if err != nil {
		return Answer{}, err
	}
	defer func() {
		if errors.Is(err, fault.Unavailable) && client.Err() == nil {
			s.Observer.Decided(r.to.Channel(), r.App, "unavailable", "")
		}
	}()
	turn, err := s.takeTurn(client, deciding, r)
	if err != nil {
		return Answer{}, err
	}
	defer func() { turn.end(err == nil && answer.Admitted) }()
	send, early, err := s.decideInTurn(client, deciding, r)
	switch {
	case err != nil:
		return Answer{}, err
	case early != nil:
		return *early, nil
	}
	// The send is written. From here on only the answer can be lost, and a repeated request with
	// the same key gets it again. If this process dies before MaySend has returned, or before it
	// has written that the code is canceled, another process sends the message.
	mayLeave := send.MaySend == nil || send.MaySend()
	s.countAdmitted(send)
	if !mayLeave {
		return Answer{}, s.keepBack(client, deciding, send)
	}
	turn.end(true) // repetitions do not wait for the outcome
	return s.deliver(client, send), nil
}

// decideInTurn decides a request that has its turn. It decides again after another process has
// worked on a request with the same Idempotency-Key, and after the request's token has passed the
// human check that decide asked for. Between two decisions, the request holds neither a slot of its
// recipient nor a place. Errors: those of decide.
func (s *sendService) decideInTurn(client, deciding context.Context, r *parsedRequest) (writtenSend, *Answer, error) {
	pass := r.passWithoutToken()
	for wait := minClaimInterval; ; {
		written, early, err := s.decide(client, deciding, r, pass)
		switch {
		case errors.Is(err, ErrKeyInProgress) && s.turns.pause(client, deciding, wait, r.plan.Class.IsStranger()):
			wait = min(2*wait, maxClaimInterval)
		case early.asksForCheck() && r.HumanCheck != "" && pass.checker == "":
			if pass, early, err = s.checkToken(deciding, r, *early); early != nil || err != nil {
				return written, early, err
			}
		default:
			s.countPass(r, pass, early)
			return written, early, err
		}
	}
}

// decide takes what the request needs, then lets both gates decide. Unless its error is
// fault.Uncertain, an error means that this request has written no send. Errors:
// *FailedCheckLimitError, *HoldUntilError, *admission.OverloadedError, fault.Unavailable,
// fault.Uncertain, ErrKeyInProgress, ErrKeyReused.
func (s *sendService) decide(client, deciding context.Context, r *parsedRequest, pass humanPass) (
	written writtenSend, early *Answer, err error,
) {
	// Because of the slots, a flood of requests for one recipient delays no other recipient.
	slot, err := s.recipients.Acquire(client, r.plan.Buckets[quota.Recipient], r.plan.Class.IsStranger())
	if err != nil { // no slot became free in time, or the client hung up
		return written, nil, fault.Unavailable
	}
	defer func() { slot.Release(early == nil && err == nil) }()

	leave, err := s.places.enter(r.plan.Class)
	if err != nil {
		return written, nil, err
	}
	defer func() { leave(!errors.Is(err, fault.Unavailable)) }()

	send, early, err := s.claimKey(deciding, r)
	if early != nil || err != nil {
		return written, early, err
	}
	defer func() { s.releaseClaims(client, deciding, send, early, err) }()
	if send, early, err = s.spendPass(deciding, send, pass); early != nil || err != nil {
		return written, early, err
	}

	// A request that is refused here is not counted. After write, any replica delivers the send.
	if early, err = s.refuseBeforeGates(deciding, send); early != nil || err != nil {
		return written, early, err
	}
	counted, early, err := s.takeQuota(deciding, send)
	if early != nil || err != nil {
		return written, early, err
	}
	return s.write(deciding, counted)
}

// claimedSend is a request with the ID of its send. While the request lasts, no other request has
// this ID.
type claimedSend struct {
	*parsedRequest
	id           uuid.UUID
	mayBeWritten bool // an earlier request with the same Idempotency-Key, and so the same ID, may have written the send
	pass         humanPass
	claims       [][32]byte // of its Idempotency-Key and its pass
}

func (c claimedSend) limiterID() string { return string(c.id[:]) }

// countedSend is a send that the first gate has admitted and counts.
type countedSend struct {
	claimedSend
	limiterDecision quota.Decision // the first gate's decision, by the full limits
	askedAt         time.Time      // when the gate was called
}

// writtenSend is a send in the database, which this process or another one delivers.
type writtenSend struct {
	countedSend
	beginAnswer store.BeginAnswer
	states      quota.Decision // states of the send's rules in both gates
}

func (s *sendService) refuse(ctx context.Context, r *parsedRequest, refusal gates.Answer, outcome string) *Answer {
	blocking, _ := refusal.Blocking()
	s.alarms.countRefusal(r, blocking)
	s.recordRefusal(r, outcome, blocking.Name, blocking.Scope, blocking.RetryAfter)
	return &Answer{
		Quota: s.redact(ctx, r.plan, refusal, r.Caller, r.resendOf.state(), r.resendOf.IDsWithReplaced()), View: r.refusedView(),
		AsksNext: s.asksNext(r.Kind, r.plan, refusal.Decision),
	}
}

func (p *parsedRequest) refusedView() View {
	return View{To: p.to.Masked(), Channel: p.to.Channel(), Purpose: p.plan.Purpose.Name}
}

// decisionTimeout bounds the time until a send is decided. Each call to the limiter and the
// database has a timeout of its own, but their sum is longer than a proxy waits.
func decisionTimeout() time.Duration { return store.CallTimeout * 6 / 5 }

// releaseTimeout returns how long a request that was not decided in time may take to release its
// Idempotency-Key, so that another replica can serve it at once. The sum of releaseTimeout and
// decisionTimeout is the longest time until a send has its answer, unless the caller waits for the
// outcome or the process gets no CPU time. The sum is less than the 8 s after which the proxies of
// deploy/ ask another replica.
func releaseTimeout() time.Duration { return store.CallTimeout * 3 / 10 }

// decidingContext begins now, and ends no later than a deadline of client.
func decidingContext(client context.Context) (context.Context, context.CancelFunc) {
	by := time.Now().Add(decisionTimeout())
	if end, ok := client.Deadline(); ok && end.Before(by) {
		by = end
	}
	return context.WithDeadline(context.WithoutCancel(client), by)
}

// answerBy returns when the answer to a send is due if the caller does not wait for the outcome.
func answerBy(client, deciding context.Context) time.Time {
	by, _ := deciding.Deadline()
	if end, ok := client.Deadline(); ok && end.Equal(by) {
		return by
	}
	return by.Add(releaseTimeout())
}
