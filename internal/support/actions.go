package support

import (
	"context"
	"errors"
	"net/netip"
	"time"

	"sendcode/internal/policy"
	"sendcode/internal/recipient"
	"sendcode/internal/store"
	"sendcode/internal/verification"
)

// Person is the recipient of an action, in one app or in all.
type Person struct {
	App       string // empty: every app
	Channel   recipient.Channel
	Purpose   string
	Recipient recipient.Hash
	Mailbox   recipient.Hash // of all spellings of the address; zero: not known
	To        string         // masked
}

// ParsePerson reads the recipient that a request names. The reason must not name it: it is kept for good. Errors: *InvalidError.
func (d *Desk) ParsePerson(app, channel, to, purpose, reason string) (Person, error) {
	r, err := verification.ParseRecipient(channel, to, "")
	if err != nil {
		return Person{}, err
	}
	set := d.Policy.Get()
	p, err := verification.FindPurpose(set, purpose)
	if err != nil {
		return Person{}, err
	}
	if app != "" && !set.HasApp(app) {
		return Person{}, invalid("app", "unknown", "There is no such app.")
	}
	if err := CheckReason(reason, r.Address()); err != nil {
		return Person{}, err
	}
	h := d.Vault.Hashes(r)
	return Person{App: app, Channel: r.Channel(), Purpose: p.Name, Recipient: h.Counted, Mailbox: h.Mailbox, To: r.Masked()},
		nil
}

// mailbox returns the hash of the recipient's mailbox; if only the recipient's hash is known, that.
func (p Person) mailbox() recipient.Hash {
	if p.Mailbox.IsZero() {
		return p.Recipient
	}
	return p.Mailbox
}

// inEntry returns the audit entry with the person in it.
func (p Person) inEntry(act store.AuditEntry) store.AuditEntry {
	act.App, act.Channel, act.Purpose, act.Recipient, act.To = p.App, p.Channel, p.Purpose, p.Recipient, p.To
	return act
}

// apps returns the apps that an action is for.
func (d *Desk) apps(p Person) []string {
	if p.App != "" {
		return []string{p.App}
	}
	var all []string
	for name := range d.Policy.Get().Apps {
		all = append(all, name)
	}
	return all
}

// ResetQuota makes a recipient's sends under the purpose's policy count no more, and its rejections and failed checks under every
// policy. Rules of other scopes (networks, apps) keep their counts. The log is reset first, or the limiter would learn the old history
// from it again. If the limiter does not answer, the log is reset and ErrUnavailable says that the reset has to be repeated. Errors: *InvalidError, verification.ErrUnavailable.
func (d *Desk) ResetQuota(ctx context.Context, p Person, act store.AuditEntry) error {
	set := d.Policy.Get()
	purpose, err := verification.FindPurpose(set, p.Purpose)
	if err != nil {
		return err
	}
	var logged []store.Bucket
	var limited []string
	for _, app := range d.apps(p) {
		logged = append(logged, store.Bucket{App: app, Channel: p.Channel, Recipient: p.Recipient, Purposes: purpose.Shares})
		limited = append(limited, policy.FailuresBucket(app, p.Channel, p.Recipient), policy.SpellingsBucket(app, p.mailbox()))
		for _, name := range set.CurrentAndFormerPolicies(purpose.Name) {
			limited = append(limited, policy.RecipientBuckets(app, p.Channel, name, p.Recipient)...)
		}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), store.CallTimeout)
	defer cancel()
	act = p.inEntry(act)
	act.Outcome = store.AuditBegun
	if err := d.Store.ResetCounters(ctx, logged, act); err != nil {
		return d.mapStoreError(ctx, err)
	}
	for _, app := range d.apps(p) {
		d.Codes.ForgetLockouts(app, p.Channel, p.Recipient)
	}
	if err := d.Limiter.Reset(ctx, limited...); err != nil {
		d.recordEnd(ctx, act, store.AuditFailed, "limiter")
		d.Logger.ErrorContext(ctx, "a quota was reset in the log and not in the limiter", "error", err)
		return verification.ErrUnavailable
	}
	d.recordEnd(ctx, act, store.AuditDone, "")
	return nil
}

// recordEnd records how an action ended. If it can't be written, the action stands as begun, and the process's own log has the rest.
func (d *Desk) recordEnd(ctx context.Context, act store.AuditEntry, outcome store.AuditOutcome, detail string) {
	end, err := store.CompleteAuditEntry(act, outcome, detail)
	if err == nil {
		err = d.Store.AddAuditEntry(ctx, end)
	}
	if err != nil {
		d.Logger.ErrorContext(ctx, "the end of an action could not be recorded", "act", act.ID, "outcome", string(outcome), "detail", detail,
			"error", err)
	}
}

// Erase takes a recipient out of the log, in every app and for every purpose: see store.Store. Its sends go on
// counting, under the keyed hash, until the longest window has passed. Errors: verification.ErrUnavailable.
func (d *Desk) Erase(ctx context.Context, p Person, act store.AuditEntry) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), eraseTimeout)
	defer cancel()
	p.App, p.Purpose = "", ""
	d.Refusals.Flush(ctx) // or they would be written after it
	return d.mapStoreError(ctx, d.Store.Erase(ctx, p.Recipient, d.Policy.Get().RecipientHashRetention(), p.inEntry(act)))
}

// eraseTimeout is more than the log's own, and longer than other calls have: a recipient may have many rows.
const eraseTimeout = 90 * time.Second

// CancelFor is Cancel by an administrator. False: it had ended before. Errors: verification.ErrUnavailable.
func (d *Desk) CancelFor(ctx context.Context, v store.Verification, act store.AuditEntry) (bool, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), store.CallTimeout)
	defer cancel()
	done, err := d.Store.CancelBy(ctx, v.ID, personOf(v).inEntry(act))
	return done, d.mapStoreError(ctx, err)
}

func personOf(v store.Verification) Person {
	return Person{App: v.App, Channel: v.Channel, Purpose: v.Purpose, Recipient: v.Recipient, To: v.To}
}

// ResendFor sends a code that is still open once more, for an administrator, as if the app had asked for it with its secret key. The
// limiter and the log both decide; a refusal is an Answer that is not Admitted. To send more, the administrator resets the quota first.
// from is the administrator's address, which rules on addresses and networks count. Errors: *InvalidError when the code has ended or
// is about to, and those of verification.Service.Send.
func (d *Desk) ResendFor(ctx context.Context, v store.Verification, from netip.Addr, act store.AuditEntry) (verification.Answer, error) {
	now, err := d.loadOpen(ctx, v)
	if err != nil {
		return verification.Answer{}, err
	}
	return d.sendFor(ctx, verification.Ask{Caller: verification.Caller{App: v.App, Kind: verification.Secret, IP: from}, Resend: now.ID},
		personOf(v).inEntry(act))
}

// sendFor asks for a code as an administrator does: that it is asked for is recorded before, and what came of it after.
func (d *Desk) sendFor(ctx context.Context, ask verification.Ask, act store.AuditEntry) (verification.Answer, error) {
	act.Outcome = store.AuditBegun
	if err := d.Store.AddAuditEntry(ctx, act); err != nil {
		return verification.Answer{}, d.mapStoreError(ctx, err)
	}
	answer, err := d.Codes.Send(ctx, ask)
	ctx = context.WithoutCancel(ctx)
	var locked *verification.TooManyChecksError
	switch blocking, _ := answer.Quota.Blocking(); {
	case errors.As(err, &locked):
		d.recordEnd(ctx, act, store.AuditFailed, verification.ChecksRule)
	case err != nil:
		d.recordEnd(ctx, act, store.AuditFailed, "error")
	case !answer.Admitted:
		d.recordEnd(ctx, act, store.AuditFailed, blocking.Name)
	default:
		d.recordEnd(ctx, act, store.AuditDone, "")
	}
	return answer, err
}

// loadOpen reads a verification again that is to be sent once more. One that has ended, or is about to, would come as a new
// code, which was not asked for.
func (d *Desk) loadOpen(ctx context.Context, v store.Verification) (store.Verification, error) {
	v, _, now, err := d.Store.Verification(ctx, v.ID)
	if err != nil {
		return v, d.mapStoreError(ctx, err)
	}
	life := v.ExpiresAt.Sub(v.CreatedAt)
	if verification.StateOf(v, now) != verification.Pending || v.ExpiresAt.Sub(now) < verification.MinResendLife(life) {
		return v, invalid("id", "ended", "This code has ended or is about to; they have to ask for a new one.")
	}
	return v, nil
}

// Reveal opens the full recipient of a verification, after the look was recorded. Errors: *InvalidError when it
// is not kept any more, verification.ErrUnavailable.
func (d *Desk) Reveal(ctx context.Context, v store.Verification, act store.AuditEntry) (string, error) {
	if err := d.Store.AddAuditEntry(ctx, personOf(v).inEntry(act)); err != nil {
		return "", d.mapStoreError(ctx, err)
	}
	r, err := d.Vault.Recipient(v)
	if err != nil {
		d.recordEnd(ctx, personOf(v).inEntry(act), store.AuditFailed, "unreadable")
		return "", invalid("id", "not_kept", "The full address is not kept any more, or its key has left the ring.")
	}
	return r.Address(), nil
}
