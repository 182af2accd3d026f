package explain

import (
	"slices"
	"strconv"
	"time"

	"sendcode/internal/policy"
	"sendcode/internal/texts"
	"sendcode/internal/verification"
	"sendcode/quota"
)

// Verdicts on what our own rules were against: whose requests they count, and when the next one is let in.

func (c matter) refused() (what, next texts.Sentence) {
	if c.BlockedBy == verification.ChecksRule {
		return c.refusedByChecks()
	}
	if policy.Unserved(c.Send) {
		return c.unserved()
	}
	rule, wait := texts.Strong("rule", c.BlockedBy), texts.Plain("wait", c.Wait(c.RetryAfter))
	what = c.Join(c.about(texts.PluralKey("verdict.refused", c.Count), rule, wait, texts.Plain("n", strconv.Itoa(c.Count))),
		c.about("wide."+c.looksAt()))
	if c.Recipients > 0 {
		what = c.Join(what, c.about(texts.PluralKey("verdict.refused.several", c.Recipients),
			texts.Plain("recipients", strconv.Itoa(c.Recipients))))
	}
	next = c.Join(c.about("next.wide."+c.looksAt()), c.again())
	if c.has != nil {
		next = c.Join(next, c.about("next.refused.code", texts.At("has", c.has.ExpiresAt)))
	}
	return what, next
}

// unserved says why nothing is sent to the recipient at all.
func (c matter) unserved() (what, next texts.Sentence) {
	what = c.Join(c.about(texts.PluralKey("verdict.unserved", c.Count), texts.Plain("n", strconv.Itoa(c.Count))),
		c.about("unserved."+c.BlockedBy))
	if c.Recipients > 0 {
		what = c.Join(what, c.about(texts.PluralKey("verdict.refused.several", c.Recipients),
			texts.Plain("recipients", strconv.Itoa(c.Recipients))))
	}
	return what, c.about("norows.next." + c.BlockedBy)
}

// refusedByChecks says that no code was sent since none could have been entered, whose codes that is about, and until when.
func (c matter) refusedByChecks() (what, next texts.Sentence) {
	what = c.about(texts.PluralKey("verdict.checks", c.Count), texts.Plain("wait", c.Wait(c.RetryAfter)),
		texts.Plain("n", strconv.Itoa(c.Count)))
	if len(c.locks) == 0 {
		next = c.about("next.refused.free")
	}
	for _, out := range c.locks {
		key := "next.checks.secret"
		if out.ByBrowser {
			key = "next.checks.browser"
		}
		next = c.Join(next, c.about(key, texts.Strong("failures", strconv.Itoa(out.Failures)),
			texts.At("free", c.now.Add(out.Wait).Truncate(time.Second).Add(time.Second))))
		if len(c.locks) == 1 {
			next = c.Join(next, c.about(key+".alone"))
		}
	}
	if len(c.locks) > 0 {
		next = c.Join(next, c.about("next.checks"))
	}
	if c.has != nil {
		next = c.Join(next, c.about("next.refused.code", texts.At("has", c.has.ExpiresAt)))
	}
	return what, next
}

// looksAt is whose requests the rule counts; empty where that is the recipient, or not known.
func (c matter) looksAt() string {
	switch {
	case c.BlockedBy == policy.BreakerName || c.BlockedBy == verification.CarrierRule || c.BlockedBy == policy.SpellingsName && c.rule == "":
		return c.BlockedBy
	case c.rule == quota.Recipient:
		return ""
	}
	return string(c.rule)
}

// shared says that others' requests count as well, so that the person can do little about it.
func (c matter) shared() bool {
	switch c.looksAt() {
	case "", string(quota.Failures), verification.CarrierRule, policy.SpellingsName:
		return false
	}
	return true
}

// again says when the next request is let in: by what the rules say now, where they say something about the rule that
// refused. A rule that looks at more than the recipient, their network for example, is not among them.
func (c matter) again() texts.Sentence {
	if c.quota == nil {
		return c.later()
	}
	if !c.speaksOf(c.BlockedBy) {
		if c.rule == "" && c.BlockedBy != policy.SpellingsName {
			return c.Join(c.about("next.refused.elsewhere"), c.later())
		}
		return c.later()
	}
	return c.whenFree()
}

// whenFree is by the recipient's rules alone.
func (c matter) whenFree() texts.Sentence {
	if c.quota == nil {
		return c.about("next.refused.later")
	}
	if worst, blocked := c.quota.Blocking(); blocked {
		return c.about("next.refused.wait", texts.At("free", FreeAt(*c.quota, worst)), texts.Strong("rule", worst.Name))
	}
	return c.about("next.refused.free")
}

// later is what the row alone can say. Of several requests it knows when the first came and what the last was told,
// which together give no instant.
func (c matter) later() texts.Sentence {
	if c.Count > 1 {
		return c.about("next.refused.later")
	}
	return c.about("next.refused.from", texts.At("free", c.LoggedAt.Add(c.RetryAfter)))
}

func (c matter) speaksOf(rule string) bool {
	return slices.ContainsFunc(c.quota.Rules, func(s quota.State) bool { return s.Name == rule })
}

// FreeAt is when a rule lets one more in, rounded up to whole seconds: never early.
func FreeAt(d quota.Decision, s quota.State) time.Time {
	free := d.At.Add(s.RetryAfter)
	if whole := free.Truncate(time.Second); whole.Before(free) {
		return whole.Add(time.Second)
	}
	return free
}
