package explain

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"sendcode/internal/base/texts"
	"sendcode/internal/codes/policy"
	"sendcode/internal/store"
	"sendcode/internal/verify/verification"
	"sendcode/quota"
)

// refusedTexts returns the verdict on a refusal: whose requests the rule counts, and when it
// admits the next one.
func (c verdictInput) refusedTexts() (what, next texts.Sentence) {
	switch {
	case c.BlockedBy == verification.LockoutRuleName: // a code could not have been entered, so none was sent
		what, next = c.text(texts.PluralKey("verdict.checks", c.Count)), c.lockoutsText()
	case policy.IsUnservedRefusal(c.SendOrRefusal): // nothing is sent to the recipient at all
		what = c.Join(c.text(texts.PluralKey("verdict.unserved", c.Count)), c.text("unserved."+c.BlockedBy),
			c.recipientCountText())
		return what, c.text("norows.next." + c.BlockedBy)
	default:
		what = c.Join(c.text(texts.PluralKey("verdict.refused", c.Count), texts.Strong("rule", c.BlockedBy)),
			c.text("wide."+c.countedScopeKey()),
			c.recipientCountText())
		next = c.Join(c.text("next.wide."+c.countedScopeKey()), c.nextAdmittedText())
	}
	if v := cmp.Or(c.facts.CodeBefore, c.story.Verification); v != nil && len(v.Checks) > 0 &&
		verification.StateOf(*v, c.story.Now) == verification.MaxAttemptsReached {
		what = c.Join(what, c.text("verdict.locked.before", texts.Plain("ptries", strconv.Itoa(v.Attempts)),
			texts.AtTime("plast", lastWrongCheckAt(*v))))
	}
	if c.validCode != nil {
		next = c.Join(next, c.text("next.refused.code"))
	}
	return what, next
}

// recipientCountText returns a sentence about how many recipients a row stands for; nil if it stands
// for one.
func (c verdictInput) recipientCountText() texts.Sentence {
	switch {
	case c.Recipients == 0:
		return nil
	case c.Recipients >= store.ManyRecipients:
		return c.text("verdict.refused.several.many")
	}
	return c.text(texts.PluralKey("verdict.refused.several", c.Recipients))
}

// lockoutsText returns sentences about the classes of callers that are locked out, and until when.
func (c verdictInput) lockoutsText() (next texts.Sentence) {
	if len(c.facts.Locks) == 0 {
		return c.text("next.refused.free")
	}
	locks := c.facts.Locks
	if len(locks) == len(store.Classes) {
		longest := slices.MaxFunc(locks, func(a, b store.Lockout) int { return cmp.Compare(a.Wait, b.Wait) })
		longest.Class = "all"
		locks = []store.Lockout{longest}
	}
	for _, out := range locks {
		next = c.Join(next, c.text("next.checks."+out.Class.Name(),
			texts.Strong("failures", strconv.Itoa(out.Failures)), texts.AtTime("free", c.databaseTimeAfter(out.Wait))))
		if len(c.facts.Locks) == 1 {
			next = c.Join(next, c.text("next.checks.alone"))
		}
	}
	return c.Join(next, c.text("next.checks"))
}

// databaseTimeAfter returns the database's time after a wait, rounded up to whole seconds.
func (c verdictInput) databaseTimeAfter(wait time.Duration) time.Time {
	return roundedUpToSecond(c.story.Now.Add(wait))
}

// countedScopeKey returns the end of the keys of the texts on whose requests the rule counts: its
// scope, or its name for a rule without one; "" if it counts only the recipient's, or if that is
// not known.
func (c verdictInput) countedScopeKey() string {
	switch {
	case c.BlockedBy == policy.BreakerName, c.BlockedBy == verification.CarrierRuleName,
		c.facts.RuleScope == "" && (c.BlockedBy == policy.SpellingsName || c.BlockedBy == policy.BackoffName):
		return c.BlockedBy
	case c.facts.RuleScope == quota.Recipient:
		return ""
	}
	return string(c.facts.RuleScope)
}

// ruleCountsOthers reports whether the rule also counts requests for other recipients, so that the
// person can do little.
func (c verdictInput) ruleCountsOthers() bool {
	switch c.countedScopeKey() {
	case "", string(quota.Failures), verification.CarrierRuleName, policy.SpellingsName, policy.BackoffName:
		return false
	}
	return true
}

// nextAdmittedText returns a sentence about when the next request is admitted. It goes by what the
// rules say now, if they include the rule that refused. A rule that counts more than the recipient,
// for example a network's, is not included.
func (c verdictInput) nextAdmittedText() texts.Sentence {
	switch {
	case c.facts.Quota != nil && c.quotaHasRule(c.BlockedBy):
		return c.nextAdmittedTextByQuota()
	case c.facts.Quota != nil && c.facts.RuleScope == "" && c.BlockedBy != policy.SpellingsName &&
		c.BlockedBy != policy.BackoffName:
		return c.Join(c.text("next.refused.elsewhere"), c.nextAdmittedTextByRow())
	}
	return c.nextAdmittedTextByRow()
}

// nextAdmittedTextByQuota returns a sentence about when the recipient's rules admit one more.
func (c verdictInput) nextAdmittedTextByQuota() texts.Sentence {
	if c.facts.Quota == nil {
		return c.text("next.refused.later")
	}
	if blocking, blocked := c.facts.Quota.Blocking(); blocked {
		key := "next.refused.wait"
		switch {
		case c.facts.Reserved && policy.IsStrangerInScope(store.KnownBrowser, blocking.Scope):
			key = "next.refused.reserved.wide"
		case c.facts.Reserved:
			key = "next.refused.reserved"
		}
		return c.text(key, texts.AtTime("free", ruleAdmitsAt(*c.facts.Quota, blocking)), texts.Strong("rule", blocking.Name))
	}
	return c.text("next.refused.free")
}

// nextAdmittedTextByRow returns a sentence about when the next request is admitted, by the row
// alone. A row of several requests has the time of the first and the wait of the last, which give
// no instant.
func (c verdictInput) nextAdmittedTextByRow() texts.Sentence {
	if c.Count > 1 {
		return c.text("next.refused.later")
	}
	return c.text("next.refused.from", texts.AtTime("free", c.LoggedAt.Add(c.RetryAfter)))
}

// quotaHasRule reports whether the quota of now includes a rule.
func (c verdictInput) quotaHasRule(rule string) bool {
	return slices.ContainsFunc(c.facts.Quota.Rules, func(s quota.State) bool { return s.Name == rule })
}

// ruleAdmitsAt returns when a rule admits one more, rounded up to whole seconds.
func ruleAdmitsAt(d quota.Decision, s quota.State) time.Time {
	return roundedUpToSecond(d.At.Add(s.RetryAfter))
}

// roundedUpToSecond rounds a time up to whole seconds.
func roundedUpToSecond(t time.Time) time.Time {
	if whole := t.Truncate(time.Second); whole.Before(t) {
		return whole.Add(time.Second)
	}
	return t
}
