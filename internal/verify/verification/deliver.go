package verification

import (
	"context"
	"time"

	"sendcode/internal/base/logs"
	"sendcode/internal/limit/gates"
	"sendcode/internal/store"
	"sendcode/internal/store/rowrules"
)

// MaxWait bounds how long a request may wait for its outcome.
const MaxWait = 20 * time.Second

// deliver gives the send to the outbox, and waits for the outcome if the request has a Wait.
func (s *sendService) deliver(ctx context.Context, send writtenSend) Answer {
	began, work, v := s.Now(), send.work(), send.beginAnswer.Verification
	delivered, states := s.Outbox.Submit(ctx, work, min(send.Wait, MaxWait)), gates.Answer{Decision: send.states}
	if send.Wait > 0 { // time has passed, and the send may have been refunded
		if current, err := s.peek(ctx, send.plan); err == nil {
			states = current
		}
	}
	view := s.view(v, delivered, send.beginAnswer.Now.Add(s.Now().Sub(began)), work.Address)
	if send.beginAnswer.Opened() && len(v.Replaces) == 0 { // the verification has only this send, so no read is needed
		states.History = &rowrules.History{
			Now: states.At, Past: []rowrules.PastSend{{ID: send.id, At: send.beginAnswer.Send.LoggedAt, Verification: v.ID}},
		}
	}
	visible := s.redact(context.WithoutCancel(ctx), send.plan, states, send.Caller, Pending, v.IDsWithReplaced())
	return Answer{Admitted: true, View: view, Quota: visible, AsksNext: s.asksNext(send.Kind, send.plan, states.Decision)}
}

// keepBack cancels a send whose message Request.MaySend kept back, and releases the
// Idempotency-Key: the next request with the key makes a new send. Error: ErrKeptBack.
func (s *sendService) keepBack(client, deciding context.Context, send writtenSend) error {
	defer s.releaseClaims(client, deciding, send.claimedSend, nil, ErrKeptBack)
	work := send.work()
	if err := cancel(context.WithoutCancel(client), s.Store, s.Events, work.Verification); err != nil {
		s.Logger.WarnContext(client, "a code that was not sent stays open", "send", send.id, "error", err, logs.SeeDatabaseAway)
	}
	work.Verification.CanceledAt = s.Now() // the outbox sends nothing, even if the database fails
	s.Outbox.Submit(client, work, 0)
	return ErrKeptBack
}

func (w writtenSend) work() store.Work {
	work := store.Work{Send: w.beginAnswer.Send, Verification: w.beginAnswer.Verification, Code: w.beginAnswer.Code, Now: w.beginAnswer.Now}
	if w.beginAnswer.Opened() { // a joined verification may have another spelling of the address
		work.To, work.Address = w.to, w.addressHash
	}
	return work
}

func (s *sendService) countAdmitted(send writtenSend) {
	outcome := "admitted"
	if send.states.Local {
		outcome = "admitted_by_database_alone"
	}
	s.Observer.Decided(send.to.Channel(), send.App, outcome, "")
	s.alarms.countUnnamed(send.parsedRequest)
	for _, rule := range send.beginAnswer.Send.Observed {
		s.Observer.RuleWouldRefuse(send.to.Channel(), send.App, rule)
	}
}
