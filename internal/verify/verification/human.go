package verification

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"sendcode/internal/base/fault"
	"sendcode/internal/base/logs"
	"sendcode/internal/base/recipient"
	"sendcode/internal/codes/policy"
	"sendcode/internal/limit/buckets"
	"sendcode/internal/limit/gates"
	"sendcode/internal/store"
	"sendcode/internal/verify/humancheck"
	"sendcode/quota"
)

// An app may require a human check from strangers. A request whose token has passed the check has a
// pass, which is good for one admitted send. In a scope that many recipients share, a send without
// a pass may use only half of the strangers' places; see policy.Pass. So the limiter first decides
// by these lower limits. A pass helps if the lower limits refuse the request, but the full limits
// and the recipient's rules admit it. Then Send checks the request's token, or asks the caller for
// a human check. A vendor may take seconds to check a token. Meanwhile the request holds none of
// the recipient's slots, and package admission doesn't count it.

// These are the results of human checks, in metrics.
const (
	CheckAsked       = "asked"
	CheckPassed      = "passed"
	CheckFailed      = "failed"
	CheckVendorError = "vendor_error"
)

// humanCheckLabel keeps the keyed hashes of human checks apart from other hashes.
const humanCheckLabel = "human check"

// Budget is implemented by *outbox.Budget.
type Budget interface {
	// StrangersHoldHalf reports whether, under one of the caps that apply to a text message, half
	// of the strangers' share is spent, by strangers or by others.
	StrangersHoldHalf(ctx context.Context, app, country string) bool
}

// SetHumanChecks replaces the human checks, by app. An app without one asks only unknown browsers,
// and only while it is in AskStrangers.
func (s *readService) SetHumanChecks(checks map[string]humancheck.Check) { s.human.Store(&checks) }

// AskStrangers replaces the set of apps whose strangers are asked for a human check before the
// first send of a verification. The strangers of an app whose check is Always are asked in any
// case. A browser is asked for a proof of work if its app has no human check, because our page and
// the widget can show that without a setting. A back end may be unable to show a check. So its
// requests are asked only if the app has one.
func (s *readService) AskStrangers(apps []string) {
	asked := map[string]bool{}
	for _, app := range apps {
		asked[app] = true
	}
	s.askStrangers.Store(&asked)
}

// humanCheckOf returns the human check that a caller may be asked for. It returns nil for a back
// end that knows the person. Without a check of the app, it returns one only for an unknown browser
// of an app in AskStrangers.
func (s *readService) humanCheckOf(by CallerKind, plan buckets.Plan) *humancheck.Check {
	if plan.Class == store.SecretKeyClass {
		return nil
	}
	asked := false
	if all := s.askStrangers.Load(); all != nil {
		asked = (*all)[plan.App] && plan.Class.IsStranger()
	}
	if all := s.human.Load(); all != nil {
		if c, found := (*all)[plan.App]; found {
			c.Always = c.Always || asked
			return &c
		}
	}
	if asked && by == Browser {
		return &humancheck.Check{Cost: humancheck.DefaultCost, Always: true}
	}
	return nil
}

// asksNext reports whether the next send would need a human check, by the states of the rules in d.
func (s *readService) asksNext(by CallerKind, plan buckets.Plan, d quota.Decision) bool {
	return s.humanCheckOf(by, plan) != nil && slices.ContainsFunc(d.Rules, func(x quota.State) bool {
		return !x.Observe && policy.IsWiderScope(x.Scope) && x.Used >= policy.NoPass.Limit(plan.Class, x.Rule)
	})
}

// needsPassAnyway reports whether a send needs a pass even if the rules have free places. An app
// may ask strangers for one before the first send of a verification. A text message also needs a
// pass if half of the strangers' budget is spent.
func (s *readService) needsPassAnyway(ctx context.Context, c humancheck.Check, plan buckets.Plan, to recipient.Recipient, first bool) bool {
	return c.Always && plan.Class.IsStranger() && first ||
		to.Channel() == recipient.SMS && s.Budget != nil && s.Budget.StrangersHoldHalf(ctx, plan.App, to.Country())
}

// Error of addHumanCheck: *fault.InvalidError if the token is too long.
func (s *sendService) addHumanCheck(ctx context.Context, r *parsedRequest) error {
	var c humancheck.Check
	if check := s.humanCheckOf(r.Kind, r.plan); check != nil && !s.Policy.Get().TestRecipients.Has(r.addressHash, s.Now()) {
		c, r.check = *check, check
		for pass := range r.lowerLimits {
			r.lowerLimits[pass] = policy.Pass(pass).Below(r.plan.Class, r.plan.Rules)
		}
		r.checkRequired = s.needsPassAnyway(ctx, c, r.plan, r.to, !r.resendOf.isJoined(r.plan.Purpose.Life(r.to.Channel())))
	}
	if maxLength := c.MaxTokenLength(); len(r.HumanCheck) > maxLength {
		return fault.Invalid("human_check", "too_long", fmt.Sprintf("This token has at most %d bytes.", maxLength))
	}
	return nil
}

type humanPass struct {
	policy.Pass
	checker string   // the vendor that checked the token, or humancheck.ByWork; empty: no token was checked
	key     [32]byte // ID of the claim by which one send spends the pass
}

func (p *parsedRequest) passWithoutToken() humanPass {
	if p.check == nil {
		return humanPass{Pass: policy.FullPass}
	}
	return humanPass{Pass: policy.NoPass}
}

// passByWork returns the pass for a solved proof of work. While a vendor's check is available, it
// is only WorkPass, so that an attacker gains little by computing.
func (p *parsedRequest) passByWork() policy.Pass {
	if p.check.VendorAnswers() {
		return policy.WorkPass
	}
	return policy.FullPass
}

// workBinding names the sends for which a solved proof of work is valid.
func (p *parsedRequest) workBinding() string {
	return strings.Join([]string{p.App, string(p.to.Channel()), p.plan.Purpose.Name, p.plan.Recipient.String()}, "\x00")
}

func (s *sendService) newWork(r *parsedRequest) (*humancheck.Challenge, error) {
	return humancheck.NewWorkChallenge(s.Vault.Ring, r.workBinding(), r.check.Cost, s.Now())
}

// askForCheck returns the answer that asks for a human check. current has the states of the rules
// by their full limits. taken is the refusal by the lower limits, or zero if no rule refused the
// request. If another send has spent the pass, both are zero.
func (s *sendService) askForCheck(ctx context.Context, send claimedSend, current, taken quota.Decision) (*Answer, error) {
	offer := &humancheck.Offer{By: send.check.By()}
	switch {
	case send.Page != nil: // our page runs no vendor's script
		offer.By = humancheck.ByWork
	case send.check.VendorAnswers():
		offer.SiteKey = send.check.Vendor.SiteKey()
	}
	byWork := send.passByWork()
	full := func(x quota.State) bool { return x.Used >= byWork.Limit(send.plan.Class, x.Rule) && !x.Observe }
	if !slices.ContainsFunc(current.Rules, full) {
		var err error
		if offer.Work, err = s.newWork(send.parsedRequest); err != nil {
			return nil, err
		}
	}
	if send.HumanCheck == "" {
		s.Observer.HumanChecked(send.App, offer.By, CheckAsked)
	}
	taken.Rules = slices.DeleteFunc(slices.Clone(taken.Rules), func(x quota.State) bool { return x.RetryAfter == 0 })
	visible := s.redact(ctx, send.plan, gates.Answer{Decision: taken}, send.Caller, "", nil)
	return &Answer{HumanCheck: offer, View: send.refusedView(), Quota: visible}, nil
}

// asksForCheck returns false for nil.
func (a *Answer) asksForCheck() bool { return a != nil && a.HumanCheck != nil }

// maxHostName bounds a host name in a log line, in bytes. No name that DNS resolves is longer as
// text (RFC 1035 section 2.3.4).
const maxHostName = 253

// checkToken checks the request's token; a vendor may take seconds. demand is the answer that the
// request gets without a token. If the token gives no pass, checkToken returns the answer to the
// request. Error: fault.Unavailable.
func (s *sendService) checkToken(ctx context.Context, r *parsedRequest, demand Answer) (humanPass, *Answer, error) {
	pass, result := s.resultOfToken(ctx, r)
	switch {
	case result.Passed:
		return pass, nil, nil
	case result.Away:
		s.Observer.HumanChecked(r.App, pass.checker, CheckVendorError)
	default:
		s.Observer.HumanChecked(r.App, pass.checker, CheckFailed)
	}
	if result.Host != "" {
		logs.AddAttrs(ctx, slog.String("human_check_host", result.Host[:min(len(result.Host), maxHostName)]))
	}
	answer, err := s.askAgain(r, demand, result)
	return humanPass{}, answer, err
}

// resultOfToken checks the request's token. The pass is valid only if the result says that the
// token has passed; it names the checker in any case.
func (s *sendService) resultOfToken(ctx context.Context, r *parsedRequest) (humanPass, humancheck.Result) {
	if payload, is := strings.CutPrefix(r.HumanCheck, humancheck.WorkPrefix); is {
		signature, reason := humancheck.CheckWorkSolution(s.Vault.Ring, payload, r.workBinding(), s.Now())
		pass := humanPass{r.passByWork(), humancheck.ByWork, s.Vault.KeyedHash(humanCheckLabel, humancheck.ByWork, signature)}
		return pass, humancheck.Result{Passed: reason == "", Reason: reason}
	}
	vendor := r.check.Vendor
	if vendor == nil {
		return humanPass{checker: humancheck.ByWork}, humancheck.Result{Reason: humancheck.Rejected}
	}
	result := humancheck.Result{Away: true}
	if vendor.Available() {
		var err error
		result, err = vendor.Check(ctx, humancheck.VendorQuery{
			Token: r.HumanCheck, App: r.App, Network: r.network(),
			ClientIP: r.clientIP(),
		})
		result.Away = result.Away || err != nil
		result.Passed = result.Passed && !result.Away
	}
	return humanPass{policy.FullPass, vendor.By(), s.Vault.KeyedHash(humanCheckLabel, vendor.By(), r.HumanCheck)}, result
}

// askAgain answers a request whose token gives no pass. answer is the one that it gets without a
// token. If the vendor didn't judge the token, askAgain offers a proof of work instead of the
// vendor's check.
//
// The vendor may be available all the same: it was asked too often, or it has just failed. Then a
// proof of work gives only WorkPass, so it is offered only if WorkPass would admit the request.
func (s *sendService) askAgain(r *parsedRequest, answer Answer, v humancheck.Result) (*Answer, error) {
	answer.CheckFailed = v.Reason
	if v.Away {
		answer.CheckFailed = ""
		answer.HumanCheck.By, answer.HumanCheck.SiteKey = humancheck.ByWork, ""
	}
	if v.Away && answer.HumanCheck.Work == nil && !r.check.VendorAnswers() {
		var err error
		if answer.HumanCheck.Work, err = s.newWork(r); err != nil {
			return nil, err
		}
	}
	return &answer, nil
}

// spendPass claims the request's pass for the send, as claimKey claims the idempotency key, so that
// only one of two requests with the same pass goes on. The claim is completed when the send's row
// is written. If another send has spent the pass, the answer asks for a human check. The send is
// returned even with an answer or an error. Error: fault.Unavailable.
func (s *sendService) spendPass(ctx context.Context, send claimedSend, pass humanPass) (claimedSend, *Answer, error) {
	send.pass = pass
	if pass.checker == "" {
		return send, nil, nil
	}
	got, err := s.claim(ctx, store.IdempotencyClaim{
		Key: pass.key, SendID: send.id, Fingerprint: s.Vault.KeyedHash(humanCheckLabel, send.limiterID()),
	})
	if err != nil {
		return send, nil, err
	}
	if got.State == store.IdempotencyClaimGranted {
		send.claims = append(send.claims, pass.key)
		return send, nil, nil
	}
	answer, err := s.askForCheck(ctx, send, quota.Decision{}, quota.Decision{})
	if err == nil {
		answer.CheckFailed = humancheck.Used
	}
	return send, answer, err
}

// countPass counts a token that has passed its check. It runs after the request is decided, because
// another send may have spent the pass.
func (s *sendService) countPass(r *parsedRequest, pass humanPass, early *Answer) {
	if pass.checker == "" {
		return
	}
	result := CheckPassed
	if early.asksForCheck() && early.CheckFailed != "" {
		result = CheckFailed
	}
	s.Observer.HumanChecked(r.App, pass.checker, result)
}
