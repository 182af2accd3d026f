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
		return c.refusedByLockout()
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
	next = c.Join(c.about("next.wide."+c.looksAt()), c.nextAdmitted())
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

// refusedByLockout says that no code was sent because none could have been entered, for which kind of caller, and until when.
func (c matter) refusedByLockout() (what, next texts.Sentence) {
	what = c.about(texts.PluralKey("verdict.checks", c.Count), texts.Plain("wait", c.Wait(c.RetryAfter)),
		texts.Plain("n", strconv.Itoa(c.Count)))
	if len(c.facts.Locks) == 0 {
		next = c.about("next.refused.free")
	}
	for _, out := range c.facts.Locks {
		key := "next.checks.secret"
		if out.ByBrowser {
			key = "next.checks.browser"
		}
		next = c.Join(next, c.about(key, texts.Strong("failures", strconv.Itoa(out.Failures)),
			texts.At("free", c.story.Now.Add(out.Wait).Truncate(time.Second).Add(time.Second))))
		if len(c.facts.Locks) == 1 {
			next = c.Join(next, c.about(key+".alone"))
		}
	}
	if len(c.facts.Locks) > 0 {
		next = c.Join(next, c.about("next.checks"))
	}
	if c.has != nil {
		next = c.Join(next, c.about("next.refused.code", texts.At("has", c.has.ExpiresAt)))
	}
	return what, next
}

// looksAt returns whose requests the rule counts; "" if only the recipient's, or if it is not known.
func (c matter) looksAt() string {
	switch {
	case c.BlockedBy == policy.BreakerName || c.BlockedBy == verification.CarrierRule || c.BlockedBy == policy.SpellingsName && c.facts.Rule == "":
		return c.BlockedBy
	case c.facts.Rule == quota.Recipient:
		return ""
	}
	return string(c.facts.Rule)
}

// shared reports whether others' requests count too, so that the person can do little.
func (c matter) shared() bool {
	switch c.looksAt() {
	case "", string(quota.Failures), verification.CarrierRule, policy.SpellingsName:
		return false
	}
	return true
}

// nextAdmitted says when the next request is admitted, by what the rules say now if they include the rule that refused. A rule that
// counts more than the recipient, for example a network's, is not included.
func (c matter) nextAdmitted() texts.Sentence {
	if c.facts.Quota == nil {
		return c.later()
	}
	if !c.speaksOf(c.BlockedBy) {
		if c.facts.Rule == "" && c.BlockedBy != policy.SpellingsName {
			return c.Join(c.about("next.refused.elsewhere"), c.later())
		}
		return c.later()
	}
	return c.whenFree()
}

// whenFree says when the recipient's rules admit one more.
func (c matter) whenFree() texts.Sentence {
	if c.facts.Quota == nil {
		return c.about("next.refused.later")
	}
	if worst, blocked := c.facts.Quota.Blocking(); blocked {
		return c.about("next.refused.wait", texts.At("free", FreeAt(*c.facts.Quota, worst)), texts.Strong("rule", worst.Name))
	}
	return c.about("next.refused.free")
}

// later says what the row alone tells. A row of several requests has the time of the first and the wait of the last, which give no
// instant.
func (c matter) later() texts.Sentence {
	if c.Count > 1 {
		return c.about("next.refused.later")
	}
	return c.about("next.refused.from", texts.At("free", c.LoggedAt.Add(c.RetryAfter)))
}

func (c matter) speaksOf(rule string) bool {
	return slices.ContainsFunc(c.facts.Quota.Rules, func(s quota.State) bool { return s.Name == rule })
}

// FreeAt returns when a rule admits one more, rounded up to whole seconds.
func FreeAt(d quota.Decision, s quota.State) time.Time {
	free := d.At.Add(s.RetryAfter)
	if whole := free.Truncate(time.Second); whole.Before(free) {
		return whole.Add(time.Second)
	}
	return free
}
