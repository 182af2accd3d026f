package verificationtest

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/base/fault"
	"sendcode/internal/base/recipient"
	"sendcode/internal/codes/policy"
	"sendcode/internal/limit/buckets"
	"sendcode/internal/verify/verification"
	"sendcode/quota"
)

// Answers show Ana as AnaMasked.
const (
	Ana         = "ana.maria@example.com"
	AnaMasked   = "a•••@example.com"
	Mobile      = "+4915123456789"
	OtherMobile = "+4915123456788"
	American    = "+12025550123"
	Jamaican    = "+18765550123"
)

// These are callers of the tests: the app shop with a secret key for a person that it knows, the
// same app for a stranger, and a browser on a page of the app.
var (
	BackEnd     = verification.Caller{App: "shop", Kind: verification.BackEnd, IP: netip.MustParseAddr("192.0.2.1"), Trust: verification.SaidKnown}
	ForStranger = verification.Caller{App: "shop", Kind: verification.BackEnd, IP: netip.MustParseAddr("192.0.2.1")}
	Browser     = verification.Caller{App: "shop", Kind: verification.Browser, IP: netip.MustParseAddr("192.0.2.1")}
)

// NthAddress returns the mail address of the nth person.
func NthAddress(n int) string { return fmt.Sprintf("person-%d@example.com", n) }

// NthNumber returns the German number of the nth person.
func NthNumber(n int) string { return fmt.Sprintf("+49151%08d", 20_000_000+n) }

// PumpedNumber returns the nth number of a German prefix that NthNumber doesn't use.
func PumpedNumber(n int) string { return fmt.Sprintf("+49151%08d", 30_000_000+n) }

// AskFor returns a back end's request for a mail to an address, unless the options change it.
func AskFor(to string, options ...Option) verification.Request {
	a := verification.Request{Caller: BackEnd, Channel: "email", To: to, Locale: "en"}
	for _, o := range options {
		o(&a)
	}
	return a
}

// Option sets a field of a request.
type Option func(*verification.Request)

func By(c verification.Caller) Option { return func(a *verification.Request) { a.Caller = c } }
func InApp(app string) Option         { return func(a *verification.Request) { a.App = app } }
func For(purpose string) Option       { return func(a *verification.Request) { a.Purpose = purpose } }
func InSession(name string) Option    { return func(a *verification.Request) { a.Session = name } }
func WithKey(key string) Option       { return func(a *verification.Request) { a.IdempotencyKey = key } }
func Resending(id string) Option      { return func(a *verification.Request) { a.Resend = id } }
func Waiting(d time.Duration) Option  { return func(a *verification.Request) { a.Wait = d } }
func From(client netip.Addr) Option   { return func(a *verification.Request) { a.IP = client } }

// TextTo returns a back end's request for a text message to a number.
func TextTo(to string) verification.Request {
	return verification.Request{Caller: BackEnd, Channel: "sms", To: to, Locale: "zh-CN"}
}

// AskAt sends a request to a process, and ends the test unless the request is admitted or refused
// as wanted.
func (r *Rig) AskAt(s *Service, ask verification.Request, admitted bool) verification.Answer {
	r.Helper()
	a, err := s.Send(r.Context(), ask)
	if err != nil || a.Admitted != admitted {
		r.Fatalf("Send: %v; admitted %v, refused by %v for %v", err, a.Admitted, a.Quota.Violated(), a.Quota.RetryAfter())
	}
	return a
}

// Send requests a code, and ends the test unless the request is admitted. It returns when the first
// attempt has ended or waits for the mail server.
func (r *Rig) Send(ask verification.Request) verification.Answer {
	r.Helper()
	a := r.AskAt(r.Svc, ask, true)
	synctest.Wait()
	return a
}

// WantInvalid fails the test unless err says that a field is invalid, for this reason; an empty
// reason stands for any.
func (r *Rig) WantInvalid(err error, field, reason string) {
	r.Helper()
	bad, ok := errors.AsType[*fault.InvalidError](err)
	if !ok || bad.Field != field || bad.Detail == "" || reason != "" && bad.Reason != reason {
		r.Errorf("%v, want that %s is invalid: %s", err, field, reason)
	}
}

// WantError fails the test unless err is want.
func (r *Rig) WantError(err, want error) {
	r.Helper()
	if !errors.Is(err, want) {
		r.Errorf("%v, want %v", err, want)
	}
}

// Err drops the result of a call and returns its error.
func Err[T any](_ T, err error) error { return err }

// SendError returns the error of a request.
func (r *Rig) SendError(ask verification.Request) error {
	_, err := r.Svc.Send(r.Context(), ask)
	return err
}

// SendTo is Send of a mail.
func (r *Rig) SendTo(address string, options ...Option) verification.Answer {
	r.Helper()
	return r.Send(AskFor(address, options...))
}

// Refuse sends a request, and ends the test unless it is refused.
func (r *Rig) Refuse(ask verification.Request) verification.Answer {
	r.Helper()
	return r.AskAt(r.Svc, ask, false)
}

// RefuseTo is Refuse of a mail.
func (r *Rig) RefuseTo(address string, options ...Option) verification.Answer {
	r.Helper()
	return r.Refuse(AskFor(address, options...))
}

// SendID sends a mail and returns the send's ID.
func (r *Rig) SendID(to string) uuid.UUID {
	r.Helper()
	return uuid.MustParse(r.SendTo(to).View.Send.ID)
}

// SendByDeadProcess lets a process without background work admit Ana's send, so nothing renews the
// send's lease. The process's mail server waits until release is called, and then gives answer, or
// accepts the mail if answer is nil.
func (r *Rig) SendByDeadProcess(answer func(context.Context) error, options ...Option) (a verification.Answer, dead *MailServer,
	release func(),
) {
	r.Helper()
	released := make(chan struct{})
	dead = &MailServer{}
	dead.Answer(func(ctx context.Context) error {
		<-released
		if answer == nil {
			return nil
		}
		return answer(ctx)
	})
	a = r.AskAt(r.Replica(dead), AskFor(Ana, options...), true)
	return a, dead, func() { close(released); synctest.Wait() }
}

// SendMany asks for codes for n persons, fails the test if a request waits for the mail server, and
// returns the IDs of the verifications.
func (r *Rig) SendMany(first, n int) []string {
	r.Helper()
	began := time.Now()
	ids := make([]string, n)
	for i := range ids {
		a := r.AskAt(r.Svc, AskFor(NthAddress(first+i)), true)
		r.Want("the status at once", a.View.Send.Status, "queued")
		ids[i] = a.View.ID
	}
	r.Want("the answers took", time.Since(began), "0s")
	return ids
}

// Pump asks for text messages to n numbers, and enters no code.
func (r *Rig) Pump(from, n int) {
	r.Helper()
	for i := range n {
		r.Send(TextTo(PumpedNumber(from + i)))
	}
}

// WantReplay asks again, and fails the test unless the answer is the first one's.
func (r *Rig) WantReplay(ask verification.Request, first verification.Answer) verification.Answer {
	r.Helper()
	a := r.Send(ask)
	Equal(r, "a replay: Replayed", a.Replayed, true)
	Equal(r, "a replay: ID", a.View.ID, first.View.ID)
	Equal(r, "a replay: ID of the send", a.View.Send.ID, first.View.Send.ID)
	return a
}

// Get returns a verification as a back end reads it.
func (r *Rig) Get(id string) verification.View {
	r.Helper()
	a, err := r.Svc.Get(r.Context(), BackEnd, id)
	r.NoError(err)
	return a.View
}

// Cancel cancels a verification for a back end.
func (r *Rig) Cancel(id string) verification.View {
	r.Helper()
	a, err := r.Svc.Cancel(r.Context(), BackEnd, id)
	r.NoError(err)
	return a.View
}

// QuotaAt returns Ana's quota as a process shows it to a back end.
func (r *Rig) QuotaAt(s *Service) quota.Decision {
	r.Helper()
	a, err := s.Quota(r.Context(), BackEnd, "email", Ana, "")
	r.NoError(err)
	return a.Quota
}

// QuotaOf returns Ana's quota for a purpose as the service shows it.
func (r *Rig) QuotaOf(purpose string) quota.Decision {
	r.Helper()
	a, err := r.Svc.Quota(r.Context(), BackEnd, "email", Ana, purpose)
	r.NoError(err)
	return a.Quota
}

// Remaining returns the remaining places of each rule.
func Remaining(d quota.Decision) string {
	var all []int
	for _, s := range d.Rules {
		all = append(all, s.Remaining())
	}
	return fmt.Sprint(all)
}

// WantBlockedBy fails the test unless only this rule refuses, and its wait equals wait.
func (r *Rig) WantBlockedBy(d quota.Decision, rule string, wait time.Duration) {
	r.Helper()
	r.Want("blocked by", d.Violated(), []string{rule})
	Equal(r, "blocked for", d.RetryAfter(), wait)
}

// WantWait fails the test unless the wait until the next send equals wait.
func (r *Rig) WantWait(d quota.Decision, wait time.Duration) {
	r.Helper()
	r.Want("the wait", d.RetryAfter(), wait)
}

// WantQuota fails the test unless the remaining places of each rule equal want, and the wait equals
// wait.
func (r *Rig) WantQuota(what string, d quota.Decision, want string, wait time.Duration) {
	r.Helper()
	Equal(r, what+": left", Remaining(d), want)
	Equal(r, what+": wait", d.RetryAfter(), wait)
}

// Counted returns the limiter's own count of Ana's sends.
func (r *Rig) Counted() quota.Decision {
	r.Helper()
	p := r.Svc.Policies().Purposes["default"]
	h, _ := r.Svc.Administration.HashRecipient("email", Ana)
	d, err := r.Limiter.Peek(r.Context(), quota.Request{Rules: p.Policy.Rules, Buckets: BucketsOf(p, h)})
	r.NoError(err)
	return d
}

// WantCounted fails the test unless the limiter itself counts want sends of Ana in the rule hour.
func (r *Rig) WantCounted(when string, want int) {
	r.Helper()
	r.Want(when, r.Counted().Rules[1].Used, want)
}

// CountedFailures returns the limiter's own count of Ana's failed sends.
func (r *Rig) CountedFailures() quota.State {
	r.Helper()
	h, _ := r.Svc.Administration.HashRecipient("email", Ana)
	d, err := r.Limiter.Peek(r.Context(), quota.Request{
		Rules:   []quota.Rule{{Name: "failures", Scope: policy.FailuresScope, Limit: 1, Window: 24 * time.Hour}},
		Buckets: map[quota.Scope]string{policy.FailuresScope: buckets.Failures("shop", "email", h)},
	})
	r.NoError(err)
	return d.Rules[0]
}

// BucketsOf returns the buckets in which a back end's mail to a recipient counts.
func BucketsOf(p policy.Purpose, h recipient.Hash) map[quota.Scope]string {
	return buckets.NewPlan(buckets.Subject{App: "shop", IP: BackEnd.IP, Channel: recipient.Email, Recipient: h, Purpose: p},
		p.Policy.Rules).Buckets
}
