package verification_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"sendcode/internal/base/fault"
	"sendcode/internal/run/app/core"
	"sendcode/internal/store"
	"sendcode/internal/store/sqlite/sqlitetest"
	"sendcode/internal/verify/verification"
	vtest "sendcode/internal/verify/verification/verificationtest"
)

var keyed = vtest.AskFor(vtest.Ana, vtest.WithKey("k"))

func TestIdempotencyKeyIsOneSend(t *testing.T) {
	vtest.InBubbleWith(t, vtest.MinuteTick(nil), func(r *vtest.Rig) {
		first := r.Send(keyed)
		r.Sleep(30 * time.Second)
		again := r.WantReplay(keyed, first)
		r.WantWait(again.Quota, 30*time.Second)
		r.WantApproved(first.View.ID, r.Code(0))
		again = r.WantReplay(keyed, first)
		r.Want("the send again", again.View.Send, first.View.Send)
		vtest.Equal(r, "the state: State", again.View.State, "pending")
		vtest.Equal(r, "the state: ExpiresAt", again.View.ExpiresAt, first.View.ExpiresAt)
		r.Sleep(store.IdempotencyKeyLife - 30*time.Second - time.Microsecond)
		r.WantReplay(keyed, first)
		r.Sleep(time.Microsecond)
		r.Want("replayed after a day", r.Send(keyed).Replayed, false)
		r.WantMails(2)
	})
}

func TestIdempotencyKeyOfAnotherRequest(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		first := r.Send(keyed)
		for _, change := range []func(*verification.Request){
			func(a *verification.Request) { a.To = "bob@example.com" },
			func(a *verification.Request) { a.Purpose = "login" },
			func(a *verification.Request) { a.Locale = "zh-CN" },
			func(a *verification.Request) { a.Reference = "order 7" },
			func(a *verification.Request) { a.Session = "s" },
			func(a *verification.Request) { a.Details = "Pay 40.00 EUR" },
			func(a *verification.Request) { a.Trust = verification.ImpliedStranger },
			func(a *verification.Request) { a.Resend = first.View.ID },
		} {
			a := keyed
			change(&a)
			r.WantError(r.SendError(a), verification.ErrKeyReused)
		}
		trusting := func(t verification.Trust) vtest.Option { return func(a *verification.Request) { a.Trust = t } }
		ofTrust := vtest.WithKey("of trust")
		r.SendTo("gina@example.com", ofTrust, trusting(verification.ImpliedKnown))
		r.WantError(r.SendError(vtest.AskFor("gina@example.com", ofTrust, trusting(verification.SaidStranger))), verification.ErrKeyReused)
		withKey := vtest.WithKey("of a caller's code")
		r.SendTo("cleo@example.com", withKey, withCode("123456", time.Hour))
		for _, other := range []vtest.Option{withCode("123457", time.Hour), withCode("123456", 2*time.Hour), withCode("", 0)} {
			r.WantError(r.SendError(vtest.AskFor("cleo@example.com", withKey, other)), verification.ErrKeyReused)
		}
		r.SendTo("finn@example.com", vtest.WithKey("of details"), withDetails("Pay 40.00 EUR"))
		for _, other := range []string{"Pay 41.00 EUR", ""} {
			r.WantError(r.SendError(vtest.AskFor("finn@example.com", vtest.WithKey("of details"), withDetails(other))), verification.ErrKeyReused)
		}
		accepting := func(languages string) vtest.Option {
			return func(a *verification.Request) {
				a.Locale, a.Languages, a.IdempotencyKey = "", languages, "of an Accept-Language"
			}
		}
		r.SendTo("dora@example.com", accepting("de"))
		r.WantError(r.SendError(vtest.AskFor("dora@example.com", accepting("en"))), verification.ErrKeyReused)
		for _, other := range []vtest.Option{vtest.By(vtest.Browser), vtest.InApp("bank")} {
			r.Want("replayed", r.SendTo("bob@example.com", other, vtest.WithKey("k")).Replayed, false)
			r.Sleep(time.Minute)
		}
	})
}

func withDetails(details string) vtest.Option {
	return func(a *verification.Request) { a.Details = details }
}

func TestIdempotencyKeyIsReleasedByARefusal(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		r.SendTo(vtest.Ana)
		r.Refuse(keyed)
		r.Refuse(keyed)
		r.Sleep(time.Minute)
		first := r.Send(keyed)
		r.WantReplay(keyed, first)
		r.WantMails(2)
	})
}

// A send that was admitted but not sent releases its key: the next request with the key is a new
// request.
func TestIdempotencyKeyIsReleasedIfNotSent(t *testing.T) {
	vtest.InForms(t, nil, func(r *vtest.Rig) {
		kept := keyed
		kept.MaySend = func() bool { return false }
		r.WantError(r.SendError(kept), verification.ErrKeptBack)
		r.Sleep(time.Second)
		r.Want("replayed", r.Send(keyed).Replayed, false)
		r.WantMails(1)
	})
}

// The same if the request's deadline has passed when the message is kept back.
func TestIdempotencyKeyIsReleasedIfKeptBackAfterTheDeadline(t *testing.T) {
	vtest.InForms(t, nil, func(r *vtest.Rig) {
		ctx, cancel := context.WithTimeout(r.Context(), 4*time.Second)
		defer cancel()
		kept := keyed
		kept.MaySend = func() bool { <-ctx.Done(); return false }
		_, err := r.Svc.Send(ctx, kept)
		r.WantError(err, verification.ErrKeptBack)
		r.Sleep(time.Second)
		r.Want("replayed", r.Send(keyed).Replayed, false)
		r.WantMails(1)
	})
}

func TestIdempotencyKeyDuringOutages(t *testing.T) {
	type row struct {
		method  string
		how     sqlitetest.Fault
		written bool // the write happened, although its answer was lost
	}
	vtest.EachInForm(t, map[string]row{
		"no claim":                     {"ClaimIdempotencyKey", sqlitetest.Down, false},
		"nothing written":              {"Begin", sqlitetest.Down, false},
		"written, and the answer lost": {"Begin", sqlitetest.Lost, true},
		// a request with the same key uses the taken place
		"uncertain, and not written": {"Begin", sqlitetest.Vague, false},
	}, nil, func(r *vtest.Rig, c row) {
		r.FailStore(c.how, c.method)
		r.WantError(r.SendError(keyed), fault.Unavailable)
		r.EndStoreFaults()
		synctest.Wait() // the place is given back at the same time as the answer
		if c.written || c.how == sqlitetest.Vague && r.Settings.Form == vtest.OnRedis {
			r.RefuseTo(vtest.Ana) // the place is taken
		}
		a := r.Send(keyed) // at once: neither refused nor sent twice
		r.Want("replayed", a.Replayed, c.written)
		r.Sleep(10 * time.Second)
		r.WantMails(1)
		r.WantReplay(keyed, a)
	})
}

// blockedBegin is a database whose Begin waits for wake, and then runs even if the caller has left.
type blockedBegin struct {
	core.Database
	wake <-chan struct{}
}

func (b *blockedBegin) Begin(ctx context.Context, in store.Intent) (store.BeginAnswer, error) {
	<-b.wake
	return b.Database.Begin(context.WithoutCancel(ctx), in)
}

// Two processes use one claim, because the first was delayed for longer than its lease. There is
// one send.
func TestIdempotencyKeyOfASleeper(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		wake := make(chan struct{})
		asleep := r.ReplicaOn(&blockedBegin{r.Store, wake}, r.MailServer, r.Carrier)
		var second verification.Answer
		go func() { second, _ = asleep.Send(r.Context(), keyed) }()
		r.Sleep(store.IdempotencyClaimLease())
		first := r.Send(keyed)
		close(wake)
		r.Sleep(10 * time.Second)
		vtest.Equal(r, "the sleeper's answer: Replayed", second.Replayed, true)
		vtest.Equal(r, "the sleeper's answer: ID", second.View.ID, first.View.ID)
		vtest.Equal(r, "the sleeper's answer: Replayed", first.Replayed, false)
		r.WantMails(1)
	})
}

// hookedClaim is a database that calls then after each claim.
type hookedClaim struct {
	core.Database
	afterClaim func()
}

func (c *hookedClaim) ClaimIdempotencyKey(ctx context.Context, in store.IdempotencyClaim) (store.IdempotencyClaimAnswer, error) {
	defer c.afterClaim()
	return c.Database.ClaimIdempotencyKey(ctx, in)
}

// A repeated request is not refused because of its own row, even if the row is written after the
// claim, and the process has refused the recipient before.
func TestRepetitionIgnoresOwnRow(t *testing.T) {
	vtest.InBubbleWith(t, func(s *vtest.Settings) { s.Form = vtest.WithoutRedis }, func(r *vtest.Rig) {
		wake, written := make(chan struct{}), make(chan struct{})
		asleep := r.ReplicaOn(&blockedBegin{r.Store, wake}, r.MailServer, r.Carrier)
		second := r.ReplicaOn(&hookedClaim{r.Store, func() { close(wake); <-written }}, r.MailServer, r.Carrier)
		r.AskAt(second, vtest.AskFor(vtest.Ana), true)
		r.AskAt(second, vtest.AskFor(vtest.Ana), false)
		r.NoError(r.Svc.Administration.ResetQuota(r.Context(), r.AnaTarget(), vtest.AuditEntry("quota.reset")))
		go func() { defer close(written); _, _ = asleep.Send(r.Context(), keyed) }()
		r.Sleep(store.IdempotencyClaimLease())
		a := r.AskAt(second, keyed, true)
		r.Want("replayed", a.Replayed, true)
	})
}

// A process that waits for the limiter longer than its lease sends nothing.
func TestIdempotencyKeyOfASleeperBeforeTheLimiter(t *testing.T) {
	vtest.InBubble(t, func(r *vtest.Rig) {
		asleep, wake := r.Replica(r.MailServer), make(chan struct{})
		asleep.Limiter.Intercept(func(_ context.Context, _ string, do func() error) error { <-wake; return do() })
		var late error
		go func() { _, late = asleep.Send(r.Context(), keyed) }()
		r.Sleep(store.IdempotencyClaimLease())
		r.Send(keyed)
		close(wake)
		r.Sleep(10 * time.Second)
		r.WantError(late, fault.Unavailable)
		r.WantMails(1)
	})
}
