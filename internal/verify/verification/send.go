package verification

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"sendcode/internal/base/fault"
	"sendcode/internal/base/logs"
	"sendcode/internal/codes/policy"
	"sendcode/internal/limit/admission"
	"sendcode/internal/limit/bucketnames"
	"sendcode/internal/limit/gates"
	"sendcode/internal/store"
	"sendcode/quota"
)

// sendInProgress is a request on its way through both gates.
type sendInProgress struct {
	parsedRequest
	keyClaim
	humanCheck
	slot     *admission.Slot
	leave    func(decided bool)  // see admission.Admission.Enter
	endTurn  func(admitted bool) // see keyTurns.take
	answerBy time.Time
	unsure   bool // the limiter did not answer, and may count the send
	longCode bool // a new code has at least LongCodeLength characters
}

// decisionTimeout bounds the time until a send is decided. The key, the limiter and the database
// have bounds of their own, but their sum is longer than a proxy waits. The rest of answerTimeout
// is for releasing the Idempotency-Key of a request that was not decided in time, so that another
// replica can serve the request at once.
func decisionTimeout() time.Duration { return store.CallTimeout * 6 / 5 }

// answerTimeout is the longest time until a send has its answer, unless the caller waits for the
// outcome or the process gets no processor. It is less than the 8 s after which the proxies of
// deploy/ ask another replica.
func answerTimeout() time.Duration { return store.CallTimeout * 3 / 2 }

// Send decides a request for a code and, if both gates admit it, starts its delivery before it
// returns. A deadline of ctx bounds the decision too. While another request with the Idempotency-Key
// is under way, Send waits for that one's answer. Errors: *fault.InvalidError, *TooManyChecksError
// during a lockout, *HoldUntilError before Dependencies.HoldUntil, *admission.OverloadedError,
// ErrCallerCode, fault.NotFound, fault.Unavailable, fault.Uncertain, ErrKeyInProgress, ErrKeyReused, ErrKeptBack.
func (s *Service) Send(ctx context.Context, ask Request) (answer Answer, err error) {
	if err := s.refuseIfOverloaded(ask); err != nil {
		return Answer{}, err
	}
	began := time.Now()
	a, err := s.parseSend(ctx, ask)
	if err != nil {
		return Answer{}, err
	}
	defer func() {
		if errors.Is(err, fault.Unavailable) && ctx.Err() == nil {
			s.Observer.Decided(a.to.Channel(), a.App, "unavailable", "")
		}
	}()
	r := &sendInProgress{parsedRequest: a, answerBy: began.Add(answerTimeout()), endTurn: func(bool) {}}
	decideBy := began.Add(decisionTimeout())
	if end, ok := ctx.Deadline(); ok && end.Before(decideBy) {
		decideBy, r.answerBy = end, end
	}
	deciding, cancel := context.WithDeadline(context.WithoutCancel(ctx), decideBy)
	defer cancel()
	r.humanCheck = s.humanCheckFor(deciding, a)
	if most := r.check.MaxTokenLength(); len(ask.HumanCheck) > most {
		return Answer{}, fault.Invalid("human_check", "too_long", fmt.Sprintf("This token has at most %d bytes.", most))
	}
	if a.IdempotencyKey == "" {
		return s.sendChecked(ctx, deciding, r)
	}
	turn := turnName{s.idempotencyKeyHash(sendKeyLabel, a.Caller), s.fingerprint(a)}
	if r.endTurn, err = s.turns.take(ctx, deciding, turn); err != nil {
		return Answer{}, err
	}
	defer func() { r.endTurn(err == nil && answer.Admitted) }()
	for wait := minClaimInterval; ; wait = min(2*wait, maxClaimInterval) {
		answer, err = s.sendChecked(ctx, deciding, r)
		if !errors.Is(err, ErrKeyInProgress) || !s.turns.pause(ctx, deciding, wait) {
			return answer, err
		}
	}
}

// sendOnce is Send for a parsed request that has its turn. Error ErrKeyInProgress: a request with the
// key is under way in another process; the slot and the place in the admission are given back.
func (s *Service) sendOnce(ctx, deciding context.Context, r *sendInProgress) (answer Answer, err error) {
	a := r.parsedRequest
	r.slot, err = s.recipients.Acquire(ctx, a.buckets[quota.Recipient], a.subject.Class.IsStranger())
	if err != nil { // no slot in time, or the client hung up
		return Answer{}, fault.Unavailable
	}
	defer r.slot.ReleaseLater()
	if r.leave, err = s.enterAdmission(s.sends, sendsAdmissionName, a.subject.Class); err != nil {
		return Answer{}, err
	}
	defer func() { r.leave(!errors.Is(err, fault.Unavailable)) }()
	if r.keyClaim, err = s.claimKey(deciding, a); err != nil {
		return Answer{}, err
	}
	if r.done != nil {
		return s.replay(ctx, a, *r.done)
	}
	answer, err = s.decideSpending(deciding, ctx, r)
	s.releaseUnadmittedKey(ctx, r.answerBy, r.keyClaim, answer, err)
	return answer, err
}

// decide runs the steps of a send: carrier hold and lockout, limiter, database, outbox. ctx has the
// deadline for the steps until the send is written. It does not end if the client hangs up: else a
// send could be counted and never delivered. Only the wait for the outcome ends with waiting. Begin is
// the commit point: before it nothing was sent, after it any replica delivers the send.
func (s *Service) decide(ctx, waiting context.Context, r *sendInProgress) (Answer, error) {
	// If the process dies here, nothing was counted. The claim on the request's Idempotency-Key ends
	// after claimLease.
	if left := s.HoldUntil.Sub(s.Now()); left > 0 {
		return Answer{}, &HoldUntilError{s.HoldUntil, left}
	}
	if err := s.refuseIfLate(r); err != nil {
		return Answer{}, err
	}
	if refusal, refused, err := s.refuseIfLockedOutOrHeld(ctx, r.parsedRequest); refused || err != nil {
		return refusal, err
	}
	if !r.again { // else the rows may have this send
		told, refused, err := s.Gates.AnswerRefusedBefore(ctx, r.subject)
		if err != nil {
			return Answer{}, err
		}
		if refused {
			return s.refuse(ctx, r.parsedRequest, told, "refused"), nil
		}
	}
	asked := s.Now()
	var decision quota.Decision
	var err error
	if !r.needs || r.by != "" {
		decision, err = s.takeQuota(ctx, r)
	}
	// If the process dies here, the limiter may count a send without a row until its windows end. A
	// repetition with the key has the same ID, and counts once.
	var told gates.Answer
	aPassAdmits := false
	for again := false; err == nil && !decision.Admitted; again = true {
		if told, aPassAdmits, err = s.answerRefusal(ctx, r, decision, asked); err != nil || aPassAdmits || !told.Allowed() {
			break
		}
		if again {
			told.Rules = r.whole // a wait that has ended meanwhile is told, too
			break
		}
		asked = s.Now()
		decision, err = s.takeQuota(ctx, r)
	}
	if r.unsure && !decision.Admitted {
		s.Outbox.RefundLater(string(r.send[:]), r.buckets)
	}
	switch {
	case err != nil:
		return Answer{}, err
	case aPassAdmits:
		return s.askHuman(r, told.Decision, decision)
	case !decision.Admitted:
		return s.refuse(ctx, r.parsedRequest, told, "refused"), nil
	}
	begun, err := s.writeSend(ctx, r, decision)
	// If the process dies here and the send was written, another replica takes it over after its
	// lease, delivers it and settles it in the limiter. If it was not, the limiter may count it until its
	// windows end.
	ctx = context.WithoutCancel(waiting) // the database has decided: no deadline applies
	switch {
	case err != nil:
		return Answer{}, err
	case begun.Lockout.Wait > 0: // no row, as in the next case: if the process dies, the refund is lost
		s.Outbox.RefundLater(string(r.send[:]), r.buckets)
		s.lockouts.remember(r.lockoutKey(begun.Lockout.Class), begun.Lockout.Wait, s.Now())
		return Answer{}, s.refuseSendByLockout(r.parsedRequest, begun.Lockout.Wait)
	case !begun.Admitted:
		return s.refuseByDatabase(ctx, r, decision, asked, begun), nil
	case begun.Repeated: // another request with the key has written the send
		return s.replay(ctx, r.parsedRequest,
			store.IdempotencyClaimAnswer{Send: begun.Send, Verification: begun.Verification, Now: begun.Now})
	}
	// The send is in the database. From here on only the answer can be lost: the same key repeats it.
	// A process that dies now also loses what SettleLater has queued of a send that was decided while Redis was away. If it
	// dies before MaySend has returned, or before its no is written, another one sends the message.
	return s.deliverAdmitted(waiting, r, s.Gates.AnswerAdmitted(ctx, r.subject, decision, asked, begun), begun)
}

// answerRefusal returns the answer to a refusal by the limiter or this process, for which it was called at asked, by the whole
// limits. aPassAdmits: by them the send would be admitted. Rows are read for each request only where a pass may help, so that a
// flood has no reads of its own where all places are taken. Error: fault.Unavailable.
func (s *Service) answerRefusal(ctx context.Context, r *sendInProgress, d quota.Decision, asked time.Time) (told gates.Answer, aPassAdmits bool, err error) {
	if r.needs && r.by == "" || r.refusedByLowerLimits(d) {
		told, err = s.peek(ctx, r.subject)
		return told, err == nil && told.Allowed(), err
	}
	d.Rules = r.whole
	told, err = s.statesOfRefusal(ctx, r.parsedRequest, d, asked)
	return told, false, err
}

// refuseIfLockedOutOrHeld refuses a send during a cached lockout of the recipient or a carrier's hold;
// else the gates decide. If a rule refuses too, the refusal shows that rule and not the lockout, so that
// a caller over its own limits learns nothing about the recipient. A hold is shown as one of the rules.
// Errors: *TooManyChecksError; fault.Unavailable.
func (s *Service) refuseIfLockedOutOrHeld(ctx context.Context, a parsedRequest) (refusal Answer, refused bool, err error) {
	lockout, err := s.knownLockout(ctx, a)
	if err != nil {
		return Answer{}, false, err
	}
	// After an error here, peek below asks the database again, and returns its error.
	if _, held, err := s.carrierHold(ctx, a.subject); lockout == 0 && !held && err == nil {
		return Answer{}, false, nil
	}
	d, err := s.peek(ctx, a.subject)
	switch {
	case err != nil:
		return Answer{}, false, err
	case !d.Allowed():
		return s.refuse(ctx, a, d, "refused"), true, nil
	case lockout > 0:
		return Answer{}, false, s.refuseSendByLockout(a, lockout)
	}
	return Answer{}, false, nil
}

// takeQuota counts the send in the limiter, the first gate, and sets r.longCode. Errors: those of
// gates.Gates.TakeSend, and fault.Unavailable.
func (s *Service) takeQuota(ctx context.Context, r *sendInProgress) (quota.Decision, error) {
	whole := r.subject.Purpose.Policy.Rules
	lower := r.subject.Purpose.ForPass(r.subject.Class, r.pass).Policy.Rules
	take := quota.Request{ID: string(r.send[:]), Rules: withWholeLimits(lower, whole), Buckets: r.buckets}
	guessable := r.subject.Class != store.SecretKeyClass
	if guessable {
		take = s.withFailedChecksRule(r.parsedRequest, take)
	}
	d, unsure, err := s.Gates.TakeSend(ctx, take)
	r.unsure = r.unsure || unsure
	if errors.Is(err, quota.ErrRefunded) { // an earlier request with the key had this ID; the next one gets a new ID
		return d, fault.Unavailable
	}
	if guessable {
		d, r.longCode = splitFailedChecksRule(d)
	}
	r.whole = d.Rules
	if r.pass != policy.FullPass {
		d.Rules, r.whole = splitWholeLimits(d.Rules)
	}
	if d.Admitted {
		d.Rules = r.whole
	}
	return d, err
}

// writeSend lets the database, the second gate, decide the send and write it. After an error it
// queues a refund or, if the database may have written the send, a later look-up. Errors:
// fault.Unavailable, fault.Uncertain.
func (s *Service) writeSend(ctx context.Context, r *sendInProgress, d quota.Decision) (store.BeginAnswer, error) {
	id, buckets := string(r.send[:]), r.buckets
	intent, err := s.newIntent(r, d)
	if err != nil {
		s.Outbox.RefundLater(id, buckets)
		return store.BeginAnswer{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, store.CallTimeout) // the deadline of a send is later
	defer cancel()
	begun, err := s.Store.Begin(ctx, intent)
	if err == nil {
		return begun, nil
	}
	if errors.Is(err, fault.Uncertain) {
		s.Outbox.SettleLater(r.send, buckets)
	} else {
		s.Outbox.RefundLater(id, buckets)
	}
	return begun, err
}

// deliverAdmitted passes the send to the outbox, waits for the outcome if the request has a Wait,
// and returns the answer. If Request.MaySend returns false, it cancels the send and returns ErrKeptBack.
func (s *Service) deliverAdmitted(ctx context.Context, r *sendInProgress, d quota.Decision,
	begun store.BeginAnswer,
) (Answer, error) {
	r.slot.ReleaseNow()
	r.leave(true)
	held := r.MaySend != nil && !r.MaySend()
	outcome := "admitted"
	if d.Alone {
		outcome = "admitted_by_database_alone"
		s.Outbox.SettleLater(begun.Send.ID, r.buckets)
	}
	s.Observer.Decided(r.to.Channel(), r.App, outcome, "")
	for _, rule := range begun.Send.Observed {
		s.Observer.RuleWouldRefuse(r.to.Channel(), r.App, rule)
	}
	began := s.Now()
	work := store.Work{Send: begun.Send, Verification: begun.Verification, Code: begun.Code, Now: begun.Now}
	if begun.Opened() { // a joined verification may have another spelling of the address
		work.To, work.Address = r.to, r.address
	}
	if held {
		if err := s.cancel(context.WithoutCancel(ctx), work.Verification); err != nil {
			s.Logger.WarnContext(ctx, "a code that was not sent stays open", "send", work.Send.ID, "error", err, logs.SeeDatabaseAway)
		}
		work.Verification.CanceledAt = began // the outbox sends nothing, whatever the database says
		s.Outbox.Deliver(ctx, work, 0)
		return Answer{}, ErrKeptBack
	}
	r.endTurn(true)
	send := s.Outbox.Deliver(ctx, work, min(r.Wait, MaxWait))
	if r.Wait > 0 || d.Alone {
		d = s.refreshStates(ctx, r.parsedRequest, d)
	}
	view := s.view(begun.Verification, send, begun.Now.Add(s.Now().Sub(began)), work.Address)
	var told quota.Decision
	if begun.Opened() && len(begun.Verification.Replaces) == 0 { // it has only this send: no read is needed
		told = redactDecision(d, r.Caller, Pending,
			sendHistory{Own: []quota.Event{{ID: string(begun.Send.ID[:]), At: begun.Send.LoggedAt}}})
	} else {
		told = s.redact(context.WithoutCancel(ctx), r.subject, gates.Answer{Decision: d}, r.Caller, Pending,
			begun.Verification.IDsWithReplaced())
	}
	return Answer{Admitted: true, View: view, Quota: told, AsksNext: s.asksNext(r.subject, d)}, nil
}

// refreshStates reads the states of the rules again, since time has passed, the send may have been
// refunded, or the database decided alone. If the read fails, it returns old.
func (s *Service) refreshStates(ctx context.Context, a parsedRequest, old quota.Decision) quota.Decision {
	told, err := s.Gates.Peek(ctx, a.subject)
	if err == nil && !old.Alone {
		told.Decision, err = s.withCarrierHold(ctx, a.subject, told.Decision)
	}
	if err != nil {
		return old
	}
	return told.Decision
}

// statesOfRefusal returns the answer to a refusal by the limiter or this process; see gates.Gates.AnswerRefusal. A
// browser that is told a rule of another scope than recipient, failures or backoff is told nothing
// about the recipient's rules, so the database is asked only if the browser has a verification, and
// then it need not answer. Error: fault.Unavailable if the database does not answer, since only both
// gates know how long to wait.
func (s *Service) statesOfRefusal(ctx context.Context, a parsedRequest, d quota.Decision, asked time.Time) (gates.Answer, error) {
	shown, _ := visibleRefusal(d)
	wide := a.Kind != BackEnd && !policy.CountedInDatabase(shown.Rule) && shown.Scope != quota.Backoff
	if wide && a.joins.ID == "" {
		return gates.Answer{Decision: d}, nil
	}
	told, err := s.Gates.AnswerRefusal(ctx, a.subject, d, asked)
	if wide && err != nil {
		return gates.Answer{Decision: d}, nil
	}
	return told, err
}

// refuseByDatabase records and answers a send that the limiter admitted and the database refused.
// It removes the send from the limiter.
func (s *Service) refuseByDatabase(ctx context.Context, r *sendInProgress, taken quota.Decision, asked time.Time,
	begun store.BeginAnswer,
) Answer {
	d := s.Gates.RefundOverruled(ctx, r.subject, r.send, taken, asked, begun)
	outcome := "refused_by_database"
	switch {
	case s.Gates.WithoutRedis():
		outcome = "refused"
	case taken.Alone:
		outcome = "refused_by_database_alone"
	}
	return s.refuse(ctx, r.parsedRequest, d, outcome)
}

// refuse records a refusal, counts it in the metrics, and returns the answer.
func (s *Service) refuse(ctx context.Context, a parsedRequest, d gates.Answer, outcome string) Answer {
	blocking, _ := d.Blocking()
	s.countBreakerRefusal(a.App, blocking)
	s.recordRefusal(a, outcome, blocking.Name, blocking.Scope, blocking.RetryAfter)
	return Answer{
		Quota: s.redact(ctx, a.subject, d, a.Caller, a.joins.state(), a.joins.IDsWithReplaced()), View: a.refusedView(),
		AsksNext: s.asksNext(a.subject, d.Decision),
	}
}

// refusedView returns what a caller sees of a request that made no send.
func (a parsedRequest) refusedView() View {
	return View{To: a.to.Masked(), Channel: a.to.Channel(), Purpose: a.subject.Purpose.Name}
}

// LongCodeLength is the minimum length of a browser's new code while the app's bound on failed
// checks is exceeded. It makes a guess a hundred times less likely to be right than with 6 digits.
const LongCodeLength = 8

// withFailedChecksRule adds a rule on the app's failed checks to a Take. So the Take reads the failed
// checks in the same round trip. The rule only observes.
func (s *Service) withFailedChecksRule(a parsedRequest, r quota.Request) quota.Request {
	rule := s.Policy.Get().Checks.App
	rule.Scope, rule.Observe = quota.FailedChecks, true
	r.Rules = append(slices.Clip(r.Rules), rule)
	r.Buckets = maps.Clone(r.Buckets)
	r.Buckets[quota.FailedChecks] = bucketnames.AppFailedChecks(a.App, a.to.Channel())
	return r
}

// splitFailedChecksRule removes from d the rule that withFailedChecksRule added. longer reports
// whether that rule's limit is reached: a new code is then longer.
func splitFailedChecksRule(d quota.Decision) (own quota.Decision, longer bool) {
	ofChecks := func(r quota.State) bool { return r.Scope == quota.FailedChecks }
	i := slices.IndexFunc(d.Rules, ofChecks)
	if i < 0 {
		return d, false
	}
	longer = d.Rules[i].Used >= d.Rules[i].Limit
	own = d
	own.Rules = slices.DeleteFunc(slices.Clone(d.Rules), ofChecks)
	return own, longer
}

// codeLength returns the length of a new code, in characters.
func (r *sendInProgress) codeLength() int {
	if r.longCode {
		return max(LongCodeLength, r.subject.Purpose.CodeLength)
	}
	return r.subject.Purpose.CodeLength
}

// MaxWait bounds how long a request may wait for its outcome.
const MaxWait = 20 * time.Second
