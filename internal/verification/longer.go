package verification

import (
	"maps"
	"slices"

	"sendcode/quota"
)

// LongCode is how many characters a browser's new code has at least while an app's bound on failed checks is passed: a hundredth
// of the guesses are then right.
const LongCode = 8

// withChecks has a browser's Take look at the app's failed checks as well, in the same round trip.
func (s *Service) withChecks(a asked, r quota.Request) quota.Request {
	if a.Kind != Browser {
		return r
	}
	rule := s.Terms().checks().App
	rule.Scope, rule.Observe = quota.FailedChecks, true
	r.Rules = append(slices.Clip(r.Rules), rule)
	r.Buckets = maps.Clone(r.Buckets)
	r.Buckets[quota.FailedChecks] = appChecks(a.App, a.to.Channel())
	return r
}

// withoutChecks is the decision on the send alone, and whether its new code is to be longer.
func withoutChecks(d quota.Decision) (own quota.Decision, longer bool) {
	own = d
	own.Rules = slices.DeleteFunc(slices.Clone(d.Rules), func(r quota.State) bool {
		if r.Scope == quota.FailedChecks {
			longer = r.Used >= r.Limit
			return true
		}
		return false
	})
	return own, longer
}

// codeLength is that of a new code.
func (a asked) codeLength() int {
	if a.longer {
		return max(LongCode, a.purpose.CodeLength)
	}
	return a.purpose.CodeLength
}
