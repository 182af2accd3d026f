package gates

import (
	"context"
	"errors"
	"slices"
	"time"

	"sendcode/internal/codes/policy"
	"sendcode/internal/limit/buckets"
	"sendcode/quota"
)

// Send is a send that the first gate decides.
type Send struct {
	buckets.Plan
	ID string // the same for a repetition, so that a send counts once
	// Lower has some rules of the plan once more, with lower limits, for example for a request
	// without a pass of a human check. These rules must admit the send as well.
	Lower []quota.Rule
	// Browser is true if the caller sees of a refusal only the rule that VisibleRefusal returns.
	// Named is true if the browser names a verification. Then its answer has other rules, too.
	Browser, Named bool
}

// Taken is the first gate's decision about a send.
type Taken struct {
	quota.Decision           // by the plan's rules
	AskedAt        time.Time // when the limiter was called
	// OnlyLower is true if the plan's rules admit the send, and only rules of Send.Lower refuse it.
	// Lower is the limiter's decision then: their states come first.
	OnlyLower bool
	Lower     quota.Decision
	// Refusal has the states of both gates if the plan's rules refuse the send.
	Refusal Answer
}

// TakeSend counts a send in every bucket or, if the send is refused, in no bucket. If the plan has
// no rules, TakeSend admits the send and counts nothing. If the limiter is unavailable, this
// process decides the rules that the database does not decide, and the decision has only the states
// of these rules.
//
// If the plan's rules refuse the send, TakeSend reads the recipient's rows, since the wait depends
// on both gates. If the wait has ended by then, or if the sends that the rule backoff counted no
// longer count, TakeSend asks the limiter once more. The second refusal is shown even if its wait
// has ended.
//
// If the limiter did not answer and the send is not admitted, TakeSend refunds the send later. If
// the process dies after TakeSend, the limiter may count a send that has no row, until the rules'
// windows end. Errors: fault.Unavailable if the rows are needed and cannot be read;
// quota.ErrRefunded.
func (g *Gates) TakeSend(ctx context.Context, s Send) (taken Taken, err error) {
	mayCount := false // the limiter did not answer, and may count the send
	defer func() {
		if mayCount && !taken.Admitted {
			g.RefundLater(s.ID, buckets.OfCountedScopes(s.Buckets)...)
		}
	}()
	for range 2 {
		taken.AskedAt = g.now()
		d, unanswered, err := g.takeSendOnce(ctx, s)
		mayCount = mayCount || unanswered
		if err != nil {
			return taken, err
		}
		taken.Decision = d
		taken.Rules = d.Rules[len(s.Lower):]
		if d.Admitted {
			return taken, nil
		}
		if taken.Allowed() && !d.Allowed() {
			taken.OnlyLower, taken.Lower = true, d
			return taken, nil
		}
		if taken.Refusal, err = g.answerRefusal(ctx, s, taken.Decision, taken.AskedAt); err != nil || !taken.Refusal.Allowed() {
			return taken, err
		}
	}
	taken.Refusal.Rules = taken.Rules
	return taken, nil
}

// takeSendOnce asks the limiter or, if the limiter is unavailable, this process. The decision has
// the states of Send.Lower first. If unanswered is true, the limiter was called and did not answer,
// so it may have counted the send.
func (g *Gates) takeSendOnce(ctx context.Context, s Send) (d quota.Decision, unanswered bool, err error) {
	if len(s.Rules) == 0 { // the limiter takes none
		return quota.Decision{Admitted: true, At: g.now()}, false, nil
	}
	r := quota.Request{ID: s.ID, Rules: s.Rules, Also: s.Also, Buckets: s.Buckets}
	own := r
	own.Rules = s.LimiterRules
	if len(s.Lower) > 0 {
		r.Rules, own.Rules = slices.Concat(s.Lower, r.Rules), slices.Concat(s.Lower, own.Rules)
	}
	d, err = g.callLimiter(ctx, r, own, Limiter.Take, true) // the database knows which sends were admitted
	if !errors.Is(err, errLimiterAway) {
		return d, false, err
	}
	unanswered = errors.Is(err, quota.ErrUnavailable)
	g.outage.sends.Add(1)
	if len(own.Rules) > 0 {
		d, err = g.takeLocally(ctx, own)
	} else {
		d, err = g.local.Peek(ctx, own)
		d.Admitted, d.Alone = err == nil, g.shared != nil
	}
	return d, unanswered, err
}

// answerRefusal returns the states of both gates for a send that the limiter or this process
// refused with the decision d, when it was asked at askedAt. If the database fails, answerRefusal
// returns its error.
//
// There is one exception: VisibleRefusal returns for a browser a rule whose scope is not recipient,
// failures or backoff. The wait for such a rule does not depend on the database. So an error of the
// database is ignored. If the browser names no verification, the rows are not even read, and the
// answer shows nothing of the recipient's rules.
func (g *Gates) answerRefusal(ctx context.Context, s Send, d quota.Decision, askedAt time.Time) (Answer, error) {
	shown, _ := VisibleRefusal(d)
	wide := s.Browser && !policy.CountedInDatabase(shown.Rule) && shown.Scope != quota.Backoff
	if wide && !s.Named {
		return Answer{Decision: d}, nil
	}
	answer, err := g.mergeRefusal(ctx, s.Plan, d, askedAt)
	if wide && err != nil {
		return Answer{Decision: d}, nil
	}
	return answer, err
}

// mergeRefusal merges a refusal of the limiter with the states of the recipient's rows.
func (g *Gates) mergeRefusal(ctx context.Context, p buckets.Plan, d quota.Decision, askedAt time.Time) (Answer, error) {
	d = g.correctBackoff(ctx, p, d)
	answeredAt := g.now()
	rows, err := g.readHistory(ctx, p, &d)
	if err != nil || rows == nil {
		return Answer{Decision: d}, err
	}
	h := g.asOfNow(rows.rows.History, rows.answeredAt)
	return Answer{g.merge(p, d, askedAt, answeredAt, g.countedRows(p, h, rows.askedAt)), &h}, nil
}

// VisibleRefusal returns the one rule of a refusal that is shown to a browser. If rules with a
// wider scope than the recipient block, it is the one of them that blocks longest. Otherwise it is
// the rule on the recipient that blocks longest. So a client over its own limits gets the same
// answer for every recipient. The result is false if no rule blocks.
func VisibleRefusal(d quota.Decision) (quota.State, bool) {
	wide := d
	wide.Rules = slices.DeleteFunc(slices.Clone(d.Rules), func(s quota.State) bool { return !policy.IsWiderScope(s.Scope) })
	if s, blocks := wide.Blocking(); blocks {
		return s, true
	}
	return d.Blocking()
}
