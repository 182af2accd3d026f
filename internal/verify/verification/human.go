package verification

import (
	"context"
	"errors"
	"slices"
	"strings"

	"sendcode/internal/base/recipient"
	"sendcode/internal/codes/policy"
	"sendcode/internal/limit/bucketnames"
	"sendcode/internal/store"
	"sendcode/internal/verify/humancheck"
	"sendcode/quota"
)

// An app may ask strangers for a human check. Without a pass, a send stops at half of the places that strangers have in
// a scope that many recipients share; see policy.Pass. So the limiter decides first by the lower limits. If they refuse,
// and the whole limits and the recipient's rules would not, the request is asked, or its token is checked: outside of
// the recipient's slot and of the admission, since a vendor may take seconds. A pass is spent by one admitted send.

// The results of human checks in metrics.
const (
	CheckAsked       = "asked"
	CheckPassed      = "passed"
	CheckFailed      = "failed"
	CheckVendorError = "vendor_error"
)

// humanCheckLabel keeps the keyed hashes of human checks apart from others.
const humanCheckLabel = "human check"

// Budget knows what text messages have cost. Implementation: *outbox.Budget.
type Budget interface {
	// StrangersHoldHalf reports whether half of what strangers may spend by some cap is spent.
	StrangersHoldHalf(ctx context.Context, app, country string) bool
}

// SetHumanChecks replaces the human checks, by app. Apps without one ask nobody.
func (s *Service) SetHumanChecks(checks map[string]humancheck.Check) { s.human.Store(&checks) }

// humanCheckOf returns the check that is in force for a subject. False: there is none, or its class is asked by none.
func (s *Service) humanCheckOf(of bucketnames.Subject) (humancheck.Check, bool) {
	all := s.human.Load()
	if all == nil || of.Class == store.SecretKeyClass {
		return humancheck.Check{}, false
	}
	c, found := (*all)[of.App]
	return c, found
}

// asksNext reports whether a send of the subject would be asked for a check, by the states of its rules.
func (s *Service) asksNext(of bucketnames.Subject, d quota.Decision) bool {
	_, in := s.humanCheckOf(of)
	return in && slices.ContainsFunc(d.Rules, func(r quota.State) bool {
		return !r.Observe && policy.IsWiderScope(r.Scope) && r.Used >= policy.NoPass.Limit(of.Class, r.Rule)
	})
}

// isAlwaysAsked reports whether a send to a recipient needs a pass even where the rules have places. first: it is the first of
// its verification.
func (s *Service) isAlwaysAsked(ctx context.Context, c humancheck.Check, of bucketnames.Subject, to recipient.Recipient, first bool) bool {
	return c.Always && of.Class.IsStranger() && first ||
		to.Channel() == recipient.SMS && s.Budget != nil && s.Budget.StrangersHoldHalf(ctx, of.App, to.Country())
}

// humanCheck is what a request on its way has of its app's check.
type humanCheck struct {
	check humancheck.Check
	pass  policy.Pass
	needs bool     // a pass is needed even where the rules have places
	by    string   // who passed it; empty: nobody yet
	spent [32]byte // with by: the key of the claim that spends the pass

	whole []quota.State // of the last Take, by the whole limits
}

// humanCheckFor returns the check of a request, which has not shown anything yet.
func (s *Service) humanCheckFor(ctx context.Context, a parsedRequest) humanCheck {
	c, in := s.humanCheckOf(a.subject)
	if !in || s.Policy.Get().TestRecipients.Has(a.address, s.Now()) {
		return humanCheck{pass: policy.FullPass}
	}
	return humanCheck{check: c, needs: s.isAlwaysAsked(ctx, c, a.subject, a.to, a.joins.ID == "")}
}

// errTokenUnchecked says that the limits without a pass refuse a request, and that its token is not checked yet. The answer
// beside it is that of a request without a token.
var errTokenUnchecked = errors.New("verification: the token is not checked yet")

// sendChecked is sendOnce. If a pass is needed and the request has a token, it checks the token and runs sendOnce again.
func (s *Service) sendChecked(ctx, deciding context.Context, r *sendInProgress) (Answer, error) {
	answer, err := s.sendOnce(ctx, deciding, r)
	if !errors.Is(err, errTokenUnchecked) {
		return answer, err
	}
	verdict, by := s.checkToken(deciding, r)
	if verdict.Passed {
		r.by = by
		answer, err = s.sendOnce(ctx, deciding, r)
	} else {
		answer, err = s.offerAgain(r, answer, verdict)
	}
	result := CheckPassed
	switch {
	case verdict.Away:
		result = CheckVendorError
	case !verdict.Passed, answer.CheckFailed != "": // a pass may have been spent before
		result = CheckFailed
	}
	s.Observer.HumanChecked(r.App, by, result)
	return answer, err
}

// offerAgain returns the answer to a request whose token is no pass. A vendor that is away is no fault of the token: the
// answer is that of a request without one, by work. Work that would not pass stays left out while the vendor is in use: then a
// bound on its questions is reached, or it has just failed.
func (s *Service) offerAgain(r *sendInProgress, answer Answer, v humancheck.Verdict) (Answer, error) {
	answer.CheckFailed = v.Reason
	if v.Away {
		answer.CheckFailed = ""
		answer.HumanCheck.By, answer.HumanCheck.SiteKey = humancheck.ByWork, ""
	}
	if v.Away && answer.HumanCheck.Work == nil && !r.check.VendorAnswers() {
		var err error
		answer.HumanCheck.Work, err = s.newWork(r)
		return answer, err
	}
	return answer, nil
}

// checkToken checks the request's token and, if it is right, sets r.pass and r.spent. by names what was asked.
func (s *Service) checkToken(ctx context.Context, r *sendInProgress) (v humancheck.Verdict, by string) {
	now := s.Now()
	if payload, is := strings.CutPrefix(r.Request.HumanCheck, humancheck.WorkPrefix); is {
		signature, reason := humancheck.CheckWork(s.Vault.Ring, payload, r.humanCheckBinding(), now)
		r.pass, r.spent = r.passByWork(), s.Vault.KeyedHash(humanCheckLabel, humancheck.ByWork, signature)
		return humancheck.Verdict{Passed: reason == "", Reason: reason}, humancheck.ByWork
	}
	vendor := r.check.Vendor
	if vendor == nil {
		return humancheck.Verdict{Reason: humancheck.Rejected}, humancheck.ByWork
	}
	v = humancheck.Verdict{Away: true}
	if vendor.Available() {
		var err error
		v, err = vendor.Check(ctx, humancheck.Question{
			Token: r.Request.HumanCheck, App: r.App, Network: r.network(),
			ClientIP: r.clientIP(),
		})
		v.Away = v.Away || err != nil
		v.Passed = v.Passed && !v.Away
	}
	r.pass, r.spent = policy.FullPass, s.Vault.KeyedHash(humanCheckLabel, vendor.By(), r.Request.HumanCheck)
	return v, vendor.By()
}

// passByWork returns the pass that a solution is. While a vendor answers, an attacker shall gain little by choosing work.
func (h humanCheck) passByWork() policy.Pass {
	if h.check.VendorAnswers() {
		return policy.WorkPass
	}
	return policy.FullPass
}

// humanCheckBinding names for what a solution of work is good.
func (a parsedRequest) humanCheckBinding() string {
	return strings.Join([]string{a.App, string(a.to.Channel()), a.subject.Purpose.Name, a.subject.Recipient.String()}, "\x00")
}

func (s *Service) newWork(r *sendInProgress) (*humancheck.Challenge, error) {
	return humancheck.NewWork(s.Vault.Ring, r.humanCheckBinding(), r.check.Cost, s.Now())
}

// askHuman answers a request that only a pass would admit, by told, the states of its rules with their whole limits.
// refused is the refusal by the limits of the request's pass; without rules: none is in the way. Error:
// errTokenUnchecked if the request has a token that was not checked yet.
func (s *Service) askHuman(r *sendInProgress, told, refused quota.Decision) (Answer, error) {
	offer := &humancheck.Offer{By: r.check.By()}
	if r.check.VendorAnswers() {
		offer.SiteKey = r.check.Vendor.SiteKey()
	}
	pass := r.passByWork()
	worksToo := !slices.ContainsFunc(told.Rules, func(x quota.State) bool { return x.Used >= pass.Limit(r.subject.Class, x.Rule) && !x.Observe })
	if worksToo {
		var err error
		if offer.Work, err = s.newWork(r); err != nil {
			return Answer{}, err
		}
	}
	refused.Rules = slices.DeleteFunc(slices.Clone(refused.Rules), func(x quota.State) bool { return x.RetryAfter == 0 })
	answer := Answer{HumanCheck: offer, View: r.refusedView(), Quota: redactDecision(refused, r.Caller, "", sendHistory{})}
	switch {
	case r.Request.HumanCheck == "":
		s.Observer.HumanChecked(r.App, offer.By, CheckAsked)
	case r.by == "":
		return answer, errTokenUnchecked
	}
	return answer, nil
}

// decideSpending is decide. If the request has passed a check, it spends the pass first: by a claim of the
// pass for this send, which only the send's row completes. Of two requests with one pass, one gets the claim.
func (s *Service) decideSpending(ctx, waiting context.Context, r *sendInProgress) (Answer, error) {
	if r.by == "" {
		return s.decide(ctx, waiting, r)
	}
	claim := keyClaim{send: r.send, key: r.spent, keyed: true}
	bounded, cancel := context.WithTimeout(ctx, store.CallTimeout)
	defer cancel()
	got, err := s.Store.ClaimIdempotencyKey(bounded, store.IdempotencyClaim{
		Key: claim.key, SendID: r.send, Lease: claimLease(),
		Life: IdempotencyKeyLife, Fingerprint: s.Vault.KeyedHash(humanCheckLabel, string(r.send[:])),
	})
	if err != nil {
		return Answer{}, withoutUncertain(err)
	}
	if got.State != store.IdempotencyClaimGranted {
		return s.refuseSpent(r)
	}
	answer, err := s.decide(ctx, waiting, r)
	s.releaseUnadmittedKey(waiting, r.answerBy, claim, answer, err)
	return answer, err
}

// refuseSpent answers a request whose pass was spent by another send.
func (s *Service) refuseSpent(r *sendInProgress) (Answer, error) {
	answer, err := s.askHuman(r, quota.Decision{}, quota.Decision{})
	answer.CheckFailed = humancheck.Used
	return answer, err
}

// refusedByLowerLimits reports whether d refuses only by what the request's pass takes from the limits of shared rules.
func (r *sendInProgress) refusedByLowerLimits(d quota.Decision) bool {
	refused := false
	for _, x := range d.Rules {
		if x.RetryAfter == 0 || x.Observe {
			continue
		}
		if !policy.IsWiderScope(x.Scope) || x.Used >= wholeLimit(r.subject.Purpose.Policy.Rules, x) {
			return false
		}
		refused = true
	}
	return refused && r.pass != policy.FullPass
}

// wholeName begins the names of the rules that withWholeLimits adds. No configured rule has a space in its name.
const wholeName = "whole "

// withWholeLimits adds the rules whose limits a pass makes lower, with their whole limits. They only observe. So the answer, which
// is told by the whole limits, needs no second call.
func withWholeLimits(lower, whole []quota.Rule) []quota.Rule {
	rules := slices.Clip(lower)
	for i, rule := range whole {
		if rule.Limit != lower[i].Limit {
			rule.Name, rule.Observe = wholeName+rule.Name, true
			rules = append(rules, rule)
		}
	}
	return rules
}

// splitWholeLimits removes from states those of the rules that withWholeLimits added; whole has all states by the whole limits.
func splitWholeLimits(states []quota.State) (own, whole []quota.State) {
	for _, x := range states {
		name, added := strings.CutPrefix(x.Name, wholeName)
		if !added {
			own, whole = append(own, x), append(whole, x)
			continue
		}
		x.Name, x.Observe = name, false
		whole[slices.IndexFunc(whole, func(s quota.State) bool { return s.Name == x.Name && s.Scope == x.Scope })] = x
	}
	return own, whole
}

// wholeLimit returns the limit of a state's rule among rules; 0: it is none of them.
func wholeLimit(rules []quota.Rule, x quota.State) int {
	at := slices.IndexFunc(rules, func(r quota.Rule) bool { return r.Name == x.Name && r.Scope == x.Scope })
	if at < 0 {
		return 0
	}
	return rules[at].Limit
}
