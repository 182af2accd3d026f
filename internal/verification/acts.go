package verification

import (
	"context"
	"errors"
	"net/netip"
	"time"

	"sendcode/internal/recipient"
	"sendcode/internal/store"
	"sendcode/internal/store/gate"
)

// What an administrator may do to a recipient or a code. Each is recorded before it happens, or with it; who may do it is
// asked for before (package admin).

// Person is whom something is done to, in one app or in all.
type Person struct {
	App       string // empty: every app
	Channel   recipient.Channel
	Purpose   string
	Recipient recipient.Hash
	Mailbox   recipient.Hash // of all spellings of the address; zero: not known
	To        string         // masked
}

// Person understands whom a request names. The reason must not name them: it is kept for good. Errors: *InvalidError.
func (s *Service) Person(app, channel, to, purpose, reason string) (Person, error) {
	r, err := parseRecipient(channel, to)
	if err != nil {
		return Person{}, err
	}
	terms := s.Terms()
	p, err := terms.purpose(purpose)
	if err != nil {
		return Person{}, err
	}
	if _, known := terms.Titles[app]; app != "" && !known {
		return Person{}, invalid("app", "unknown", "There is no such app.")
	}
	if err := CheckReason(reason, r.Address()); err != nil {
		return Person{}, err
	}
	return Person{App: app, Channel: r.Channel(), Purpose: p.Name, Recipient: s.hash(r), Mailbox: s.Folding.Mailbox(r, s.IndexKey), To: r.Masked()}, nil
}

// mailbox is that of the recipient; where only its hash is known, of an address in its simplest spelling.
func (p Person) mailbox() recipient.Hash {
	if p.Mailbox.IsZero() {
		return p.Recipient
	}
	return p.Mailbox
}

// on writes whom an act is done to into it.
func (p Person) on(act store.AuditEntry) store.AuditEntry {
	act.App, act.Channel, act.Purpose, act.Recipient, act.To = p.App, p.Channel, p.Purpose, p.Recipient, p.To
	return act
}

// apps are those that something is done in.
func (s *Service) apps(p Person) []string {
	if p.App != "" {
		return []string{p.App}
	}
	var all []string
	for name := range s.Terms().Titles {
		all = append(all, name)
	}
	return all
}

// ResetQuota has what counted for a recipient count no more: the sends under the purpose's policy, and whatever the purpose
// the rejections and the failed checks. Other scopes' rules (networks, apps) are not the recipient's and stay. First the log,
// or the limiter would learn the old history from it again; then the limiter. Where that does not answer, the log's part
// is done and ErrUnavailable says that the reset has to be repeated. Errors: *InvalidError, ErrUnavailable.
func (s *Service) ResetQuota(ctx context.Context, p Person, act store.AuditEntry) error {
	terms := s.terms.Load()
	purpose, err := terms.purpose(p.Purpose)
	if err != nil {
		return err
	}
	var logged []store.Bucket
	var limited []string
	for _, app := range s.apps(p) {
		logged = append(logged, store.Bucket{App: app, Channel: p.Channel, Recipient: p.Recipient, Purposes: purpose.Shares})
		limited = append(limited, failuresBucket(app, p.Channel, p.Recipient), spellingsBucket(app, p.mailbox()))
		for _, policy := range terms.counted(purpose.Name) {
			limited = append(limited, recipientBuckets(app, p.Channel, policy, p.Recipient)...)
		}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), logTimeout)
	defer cancel()
	act = p.on(act)
	act.Outcome = store.AuditBegun
	if err := s.Log.ResetCounters(ctx, logged, act); err != nil {
		return s.unreadable(err)
	}
	for _, app := range s.apps(p) {
		s.lockouts.forget(app, p.Channel, p.Recipient)
	}
	s.outbox.forgive(limited)
	err = errors.Join(s.limits.local.Reset(ctx, limited...), s.limits.Reset(ctx, limited...))
	if err != nil {
		s.ended(ctx, act, store.AuditFailed, "limiter")
		s.Logger.Error("a quota was reset in the log and not in the limiter", "error", err)
		return ErrUnavailable
	}
	s.ended(ctx, act, store.AuditDone, "")
	return nil
}

// ended tells how an act ended that was begun. If it can't be written, the act stands as begun, and the process's own log
// has the rest.
func (s *Service) ended(ctx context.Context, act store.AuditEntry, outcome store.AuditOutcome, detail string) {
	end, err := store.EndOfAuditEntry(act, outcome, detail)
	if err == nil {
		err = s.Log.AddAuditEntry(ctx, end)
	}
	if err != nil {
		s.Logger.Error("how an act ended could not be recorded", "act", act.ID, "outcome", string(outcome), "detail", detail, "error", err)
	}
}

// forgive drops what the limiter was still to hear of and would count again.
func (o *outbox) forgive(buckets []string) {
	forgiven := map[string]bool{}
	for _, b := range buckets {
		forgiven[b] = true
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	var left []debt
	for _, d := range o.debts {
		if d.at.IsZero() || !forgiven[d.buckets[0]] {
			left = append(left, d)
		}
	}
	o.debts = left
}

// Erase takes a recipient out of the log, in every app and for every purpose: see store.Store. What their rules counted counts
// on, under the keyed hash, until the longest window has passed. Errors: ErrUnavailable.
func (s *Service) Erase(ctx context.Context, p Person, act store.AuditEntry) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), eraseTimeout)
	defer cancel()
	p.App, p.Purpose = "", ""
	s.outbox.flushRefusals(ctx) // or they would be written after it
	return s.unavailable(s.Log.Erase(ctx, p.Recipient, s.Terms().remembers(), p.on(act)))
}

// eraseTimeout is more than the log's own, and longer than other calls have: somebody may have many rows.
const eraseTimeout = 90 * time.Second

// remembers is for how long any rule or bound can need to know a recipient.
func (t Terms) remembers() time.Duration {
	const life = 10 * time.Minute // of a code, at most: failures count from its end
	return max(longestWindow(t.Purposes), t.memory(), gate.RowWindow+life, gate.FailureWindow+life) + 24*time.Hour
}

// forgetEvery is how often the hashes of those who were erased are looked at.
const forgetEvery = time.Hour

// forgetInTime begins to forget when it is time. Not in the outbox's own turn: leases are renewed meanwhile, however many rows
// somebody had.
func (o *outbox) forgetInTime(ctx context.Context) {
	if o.Now().Sub(o.forgot) < forgetEvery {
		return
	}
	o.forgot = o.Now()
	o.done.Go(func() { o.forget(ctx) })
}

func (o *outbox) forget(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, eraseTimeout)
	defer cancel()
	switch n, err := o.Log.Forget(ctx); {
	case err != nil && ctx.Err() == nil:
		o.Logger.Warn("who was erased could not be forgotten", "error", err)
	case n > 0:
		o.Logger.Info("the hashes of recipients who were erased are gone", "count", n)
	}
}

// CancelFor is Cancel by an administrator. False: it had ended before. Errors: ErrUnavailable.
func (s *Service) CancelFor(ctx context.Context, v store.Verification, act store.AuditEntry) (bool, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), logTimeout)
	defer cancel()
	done, err := s.Log.CancelBy(ctx, v.ID, whose(v).on(act))
	return done, s.unavailable(err)
}

func whose(v store.Verification) Person {
	return Person{App: v.App, Channel: v.Channel, Purpose: v.Purpose, Recipient: v.Recipient, To: v.To}
}

// ResendFor has a code that is still open sent once more, as its own back end could: both gates decide, so nobody is sent more
// than the policy says, by whomever. An administrator who means that more should be sent resets the quota first, which
// is another act. from is where the request comes from: rules on networks look at it. Errors: *InvalidError when the
// code has ended, ErrUnavailable.
func (s *Service) ResendFor(ctx context.Context, v store.Verification, from netip.Addr, act store.AuditEntry) (Answer, error) {
	now, err := s.stillOpen(ctx, v)
	if err != nil {
		return Answer{}, err
	}
	return s.sendFor(ctx, Ask{Caller: Caller{App: v.App, Kind: Secret, IP: from}, Resend: now.ID}, whose(v).on(act))
}

// sendFor asks for a code as an administrator does: that it is asked for is recorded before, and what came of it after.
func (s *Service) sendFor(ctx context.Context, ask Ask, act store.AuditEntry) (Answer, error) {
	act.Outcome = store.AuditBegun
	if err := s.Log.AddAuditEntry(ctx, act); err != nil {
		return Answer{}, s.unavailable(err)
	}
	answer, err := s.Send(ctx, ask)
	ctx = context.WithoutCancel(ctx)
	var locked *TooManyChecksError
	switch blocking, _ := answer.Quota.Blocking(); {
	case errors.As(err, &locked):
		s.ended(ctx, act, store.AuditFailed, ChecksRule)
	case err != nil:
		s.ended(ctx, act, store.AuditFailed, "error")
	case !answer.Admitted:
		s.ended(ctx, act, store.AuditFailed, blocking.Name)
	default:
		s.ended(ctx, act, store.AuditDone, "")
	}
	return answer, err
}

// stillOpen reads a verification again that is to be sent once more. One that has ended, or is about to, would come as a new
// code, which nobody has asked for.
func (s *Service) stillOpen(ctx context.Context, v store.Verification) (store.Verification, error) {
	v, _, now, err := s.Log.Verification(ctx, v.ID)
	if err != nil {
		return v, s.unreadable(err)
	}
	life := v.ExpiresAt.Sub(v.CreatedAt)
	if stateOf(v, now) != Pending || v.ExpiresAt.Sub(now) < min(maxMinLife, life/minLifeShare) {
		return v, invalid("id", "ended", "This code has ended or is about to; they have to ask for a new one.")
	}
	return v, nil
}

// Reveal opens the full recipient of a verification, after it was recorded that somebody looks. Errors: *InvalidError when it
// is not kept any more, ErrUnavailable.
func (s *Service) Reveal(ctx context.Context, v store.Verification, act store.AuditEntry) (string, error) {
	if err := s.Log.AddAuditEntry(ctx, whose(v).on(act)); err != nil {
		return "", s.unavailable(err)
	}
	r, err := s.recipientOf(v)
	if err != nil {
		s.ended(ctx, whose(v).on(act), store.AuditFailed, reasonUnreadable)
		return "", invalid("id", "not_kept", "The full address is not kept any more, or its key has left the ring.")
	}
	return r.Address(), nil
}
