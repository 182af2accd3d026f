package explain

import (
	"cmp"
	"slices"

	"sendcode/internal/base/texts"
	"sendcode/internal/codes/policy"
	"sendcode/internal/store"
	"sendcode/internal/verify/verification"
	"sendcode/quota"
)

// Act is an administrator's action on a send, by its name in the audit log.
type Act string

// Done can describe these actions.
const (
	Resent       Act = "verification.resend"
	QuotaReset   Act = "quota.reset"
	CodeCanceled Act = "verification.cancel"
	PersonErased Act = "recipient.erase"
)

const doneKeyPrefix = "done."

// ActOutcome has the sentences of a page after an action. The zero value has no sentences.
type ActOutcome struct {
	Text texts.Sentence
	Tone Tone
}

// Done describes the state after an action, from the rows and the quota as they are now. It does
// not say that a message was sent while the message still waits. If the rows show that the action
// was not done, for example because a person typed the address of this page, Done returns the zero
// value.
func Done(act Act, s store.SendDetails, facts VerdictFacts, w texts.Words) ActOutcome {
	c := verdictInput{SendOrRefusal: s.Send, Words: w, story: s, facts: facts}
	switch act {
	case Resent:
		return c.resentOutcome()
	case QuotaReset:
		return c.resetOutcome()
	case CodeCanceled:
		if s.Verification == nil || verification.StateOf(*s.Verification, s.Now) != verification.Canceled {
			return ActOutcome{}
		}
		if s.Send.Status.InFlight() {
			return c.outcome(Good, "cancel.underway")
		}
		return c.outcome(Good, "cancel")
	case PersonErased:
		if s.Send.To != store.ErasedMask {
			return ActOutcome{}
		}
		return c.outcome(Good, "erase")
	}
	return ActOutcome{}
}

func (vi verdictInput) outcome(tone Tone, key string, more ...texts.Substitution) ActOutcome {
	return ActOutcome{vi.Sentence(doneKeyPrefix+key, more...), tone}
}

// resentOutcome describes the newest later send of the verification.
func (vi verdictInput) resentOutcome() ActOutcome {
	var again *store.SendOrRefusal
	for i, row := range vi.story.Related {
		same := row.VerificationID != "" && row.VerificationID == vi.VerificationID && row.Status != store.Refused
		if same && row.LoggedAt.After(vi.LoggedAt) && (again == nil || !row.LoggedAt.Before(again.LoggedAt)) {
			again = &vi.story.Related[i]
		}
	}
	if again == nil {
		return ActOutcome{}
	}
	more := []texts.Substitution{
		texts.AtTime("at", again.LoggedAt), texts.Plain("through", cmp.Or(again.Provider, vi.Get(vi.channelKey("through.unknown")))),
		texts.Plain("reason", cmp.Or(FailureText(again.Send, vi.Words), "–")),
	}
	switch again.Status {
	case store.Sent, store.Delivered:
		return vi.outcome(Good, "resend."+string(again.Status), more...)
	case store.Failed:
		key := "resend.failed"
		if again.Reason == store.ReasonSuppressed || again.Reason == store.ReasonPaused || again.Reason == store.ReasonEnded {
			key += "." + again.Reason
		}
		return vi.outcome(Warn, key, more...)
	case store.Unknown, store.Undelivered:
		return vi.outcome(Warn, "resend."+string(again.Status), more...)
	}
	return vi.outcome(Warn, "resend.underway", more...)
}

// resetOutcome says whether the recipient can now ask again and, if not, names the obstacle: a
// reset does not lift suppressions, pauses, a carrier's hold, or rules that count more than one
// recipient.
func (vi verdictInput) resetOutcome() ActOutcome {
	holds := func(s store.Suppression) bool { return s.Active(vi.story.Now) }
	q := vi.facts.Quota
	switch {
	case vi.facts.Suppression != nil || slices.ContainsFunc(vi.story.Suppressions, holds):
		return vi.outcome(Warn, "reset.suppressed")
	case vi.facts.Pause != nil, vi.story.Pause != nil && vi.story.Pause.Active(vi.story.Now):
		return vi.outcome(Warn, "reset.paused")
	case policy.IsUnservedRefusal(vi.SendOrRefusal):
		return ActOutcome{vi.Join(vi.Sentence(doneKeyPrefix+"reset.unserved"), vi.text("unserved."+vi.BlockedBy)), Warn}
	case q == nil:
		return vi.outcome(Warn, "reset.away")
	case len(vi.facts.Locks) > 0:
		return ActOutcome{vi.Join(vi.Sentence(doneKeyPrefix+"reset.blocked"), vi.lockoutsText()), Warn}
	case !q.Allowed() || vi.facts.Strangers != nil:
		return ActOutcome{vi.Join(vi.Sentence(doneKeyPrefix+"reset.blocked"), vi.nextAdmittedTextByQuota()), Warn}
	case vi.countsOthers():
		until := vi.LoggedAt.Add(vi.RetryAfter)
		if vi.Count <= 1 && !until.After(vi.story.Now) {
			break
		}
		return vi.outcome(Warn, "reset.wide", texts.Strong("rule", vi.BlockedBy))
	}
	return vi.outcome(Good, "reset.free")
}

// countsOthers reports whether the rule that refused the requests of the row counts more than one
// recipient, or may do so because its scope is unknown. A reset of the recipient does not clear the
// counts of such a rule.
func (vi verdictInput) countsOthers() bool {
	if vi.Status != store.Refused {
		return false
	}
	switch vi.BlockedBy {
	case policy.LockoutName, policy.CarrierName, policy.BackoffName:
		return false
	}
	known := slices.ContainsFunc(vi.facts.Quota.Rules, func(s quota.State) bool { return s.Name == vi.BlockedBy })
	return !known && vi.facts.RuleScope != quota.Recipient
}
