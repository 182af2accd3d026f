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

// refusedTexts returns the verdict on a refusal, as two texts. The first text says what refused the
// request and, for a rule, whose requests the rule counts. The second text says whether or when the
// next request is admitted.
func (vi verdictInput) refusedTexts() (what, next texts.Sentence) {
	switch {
	case vi.BlockedBy == policy.LockoutName: // no code was sent, since a code could not have been entered
		what, next = vi.text(texts.PluralKey("verdict.checks", vi.Count)), vi.lockoutsText()
	case policy.IsUnservedRefusal(vi.SendOrRefusal): // the settings allow no code to the recipient
		what = vi.Join(vi.text(texts.PluralKey("verdict.unserved", vi.Count)), vi.text("unserved."+vi.BlockedBy),
			vi.recipientCountText())
		return what, vi.text("norows.next." + vi.BlockedBy)
	default:
		what = vi.Join(vi.text(texts.PluralKey("verdict.refused", vi.Count), texts.Strong("rule", vi.BlockedBy)),
			vi.text("wide."+vi.countedScopeKey()),
			vi.recipientCountText())
		next = vi.Join(vi.text("next.wide."+vi.countedScopeKey()), vi.nextAdmittedText())
		if len(vi.facts.Locks) > 0 {
			next = vi.Join(next, vi.lockoutsText())
		}
	}
	if v := cmp.Or(vi.facts.CodeBefore, vi.story.Verification); v != nil && len(v.Checks) > 0 &&
		verification.StateOf(*v, vi.story.Now) == verification.MaxAttemptsReached {
		what = vi.Join(what, vi.text("verdict.locked.before", texts.Plain("ptries", strconv.Itoa(v.Attempts)),
			texts.AtTime("plast", lastWrongCheckAt(*v))))
	}
	if vi.validCode != nil && !vi.isLockedOut(vi.validCode.Class) {
		next = vi.Join(next, vi.text("next.refused.code"))
	}
	return what, next
}

// recipientCountText returns a sentence about the number of recipients of a row. If the row has one
// recipient, it returns nil.
func (vi verdictInput) recipientCountText() texts.Sentence {
	switch {
	case vi.Recipients == 0:
		return nil
	case vi.Recipients >= store.ManyRecipients:
		return vi.text("verdict.refused.several.many")
	}
	return vi.text(texts.PluralKey("verdict.refused.several", vi.Recipients))
}

// isLockedOut reports whether failed checks lock out a class of callers.
func (vi verdictInput) isLockedOut(class store.Class) bool {
	return slices.ContainsFunc(vi.facts.Locks, func(l store.Lockout) bool { return l.Class == class })
}

// lockoutsText returns sentences that say which classes of callers are locked out, and until when.
// If none is locked out, it says when the recipient's rules admit another request.
func (vi verdictInput) lockoutsText() (next texts.Sentence) {
	if len(vi.facts.Locks) == 0 {
		return vi.nextAdmittedTextByQuota()
	}
	locks := vi.facts.Locks
	if len(locks) == len(store.Classes) {
		longest := slices.MaxFunc(locks, func(a, b store.Lockout) int { return cmp.Compare(a.Wait, b.Wait) })
		longest.Class = "all"
		locks = []store.Lockout{longest}
	}
	for _, out := range locks {
		next = vi.Join(next, vi.text("next.checks."+out.Class.Name(),
			texts.Strong("failures", strconv.Itoa(out.Failures)), texts.AtTime("free", roundedUpToSecond(vi.story.Now.Add(out.Wait)))))
		if len(vi.facts.Locks) == 1 {
			next = vi.Join(next, vi.text("next.checks.alone"))
		}
	}
	return vi.Join(next, vi.text("next.checks"))
}

// countedScopeKey returns the last part of the keys of the texts about the rule that refused the
// request. The part says whose requests the rule counts. It is the scope of the rule or, for a rule
// without a scope, the name of the rule. It is "" if the rule counts only the recipient's requests,
// or if the scope is unknown.
func (vi verdictInput) countedScopeKey() string {
	switch {
	case vi.BlockedBy == policy.BreakerName, vi.BlockedBy == policy.CarrierName,
		vi.facts.RuleScope == "" && (vi.BlockedBy == policy.BackoffName || vi.BlockedBy == policy.UnnamedRule.Name):
		return vi.BlockedBy
	case vi.facts.RuleScope == quota.Recipient:
		return ""
	}
	return string(vi.facts.RuleScope)
}

// nextAdmittedText returns a sentence about when the next request is admitted. If vi.facts.Quota
// has the present state of the rule that refused the request, the time comes from this state.
// Otherwise the time comes from the row. The quota does not include a rule that counts more than
// one recipient, such as a network's rule.
func (vi verdictInput) nextAdmittedText() texts.Sentence {
	refusing := func(s quota.State) bool { return s.Name == vi.BlockedBy }
	switch rule := vi.BlockedBy; {
	case vi.facts.Quota == nil || vi.facts.RuleScope == "" && rule == policy.BackoffName: // this rule counts each class of callers separately
	case slices.ContainsFunc(vi.facts.Quota.Rules, refusing):
		return vi.nextAdmittedTextByQuota()
	case vi.facts.RuleScope == "" && rule != policy.CarrierName:
		return vi.Join(vi.text("next.refused.elsewhere"), vi.nextAdmittedTextByRow())
	}
	return vi.nextAdmittedTextByRow()
}

// nextAdmittedTextByQuota returns a sentence about when the recipient's rules admit another
// request. The sentence is empty if the rules admit a request now but a lockout prevents it.
func (vi verdictInput) nextAdmittedTextByQuota() texts.Sentence {
	if vi.facts.Quota == nil {
		return vi.text("next.refused.later")
	}
	var waits []texts.Sentence
	addWait := func(key string, d *quota.Decision) {
		s, _ := d.Blocking()
		waits = append(waits, vi.text(key, texts.AtTime("free", roundedUpToSecond(d.At.Add(s.RetryAfter))), texts.Strong("rule", s.Name)))
	}
	if !vi.facts.Quota.Allowed() {
		addWait("next.refused.wait", vi.facts.Quota)
	}
	if d := vi.facts.Strangers; d != nil {
		switch s, _ := d.Blocking(); {
		case policy.IsWiderScope(s.Scope):
			addWait("next.refused.reserved.wide", d)
		case s.Scope == policy.BackoffScope: // counts each class of callers, without a reserve
			addWait("next.refused.strangers", d)
		default:
			addWait("next.refused.reserved", d)
		}
	}
	if len(waits) == 0 && !vi.isLockedOut(store.SecretKeyClass) {
		return vi.text("next.refused.free")
	}
	return vi.Join(waits...)
}

// nextAdmittedTextByRow returns a sentence about when the next request is admitted, computed from
// the row alone. If the row stands for several requests, the sentence names no time: the row has
// the time of the first request, but the wait of the last.
func (vi verdictInput) nextAdmittedTextByRow() texts.Sentence {
	if vi.Count > 1 {
		return vi.text("next.refused.later")
	}
	return vi.text("next.refused.from", texts.AtTime("free", vi.LoggedAt.Add(vi.RetryAfter)))
}

func roundedUpToSecond(t time.Time) time.Time {
	return t.Add(time.Second - 1).Truncate(time.Second)
}
