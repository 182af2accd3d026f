package explain

import (
	"cmp"
	"slices"
	"time"

	"sendcode/internal/base/recipient"
	"sendcode/internal/base/texts"
	"sendcode/internal/codes/policy"
	"sendcode/internal/store"
	"sendcode/internal/verify/verification"
	"sendcode/quota"
)

// personReply is a reply that support can copy for the recipient of a code. It names neither rules
// nor servers, and has waits instead of times, because the person's zone is unknown.
type personReply struct {
	countedText
	Lang    string      // language of Text, for a page's lang attribute
	Meaning countedText // the reply in the reader's language; zero if Text is in it

	Wait          time.Duration // until the person can ask or continue; 0: the reply names no such wait
	Life          time.Duration // how long the code still works; 0: the reply does not say it
	ReloadAddress string        // the address of a page with a newer reply; "" if the reply has no waits
}

// countedText is a text with waits that an open page counts down.
type countedText struct {
	Text     string
	Template string // Text with {wait} and {life} in place of the waits
	Patterns string // how the text's language writes waits (texts.Words.DurationPatterns)
}

// reply returns the reply that fits the verdict, in the person's language or, if that language has
// no replies, in the reader's language. If there is nobody to reply to, the reply is empty.
func (vi verdictInput) reply() personReply {
	cause, wait := vi.replyCause()
	if cause == "" {
		return personReply{}
	}
	life, left := "", time.Duration(0)
	switch {
	case vi.validCode == nil || vi.isLockedOut(vi.validCode.Class) || vi.To == store.ErasedMask:
	case vi.Status == store.Failed || vi.Status == store.Refused:
		life = "works"
	case slices.Contains([]string{"sent", "wrong", "unknown", "waiting", "underway"}, cause):
		life = "until"
	}
	if life != "" {
		left = vi.validCode.ExpiresAt.Sub(vi.story.Now)
	}
	works := left
	if left > time.Minute { // rounded down: the code works no longer than the reply says
		works = left.Truncate(time.Minute)
	}
	in := func(w texts.Words) countedText {
		textWith := func(wait, left string) string {
			text := w.Reply(cause, vi.Channel == recipient.SMS, "time", wait, "to", vi.To)
			if life != "" {
				text += w.Reply(life, false, "time", left)
			}
			return text
		}
		return countedText{textWith(w.Duration(wait), w.Duration(works)), textWith("{wait}", "{life}"), w.DurationPatterns()}
	}
	w := texts.PageTextsOr(vi.Locale, vi.Words)
	reply := personReply{countedText: in(w), Lang: w.Lang(), Wait: wait, Life: left}
	if w.Lang() != vi.Words.Lang() {
		reply.Meaning = in(vi.Words)
	}
	if wait > 0 || left > 0 {
		reply.ReloadAddress = SendPageAddress(vi.ID)
	}
	return reply
}

// JudgeWithoutRows returns the verdict on a recipient without rows. masked is the masked recipient,
// or "" if it is not known. suppression is the recipient's suppression, or nil.
func JudgeWithoutRows(masked string, suppression *store.Suppression, now time.Time, w texts.Words) *Verdict {
	v := &Verdict{
		Tone: Warn, What: w.Sentence("norows.what"), Next: w.Sentence("norows.next"),
		Reply: personReply{countedText: countedText{Text: w.Reply("none", false)}, Lang: w.Lang()},
	}
	if masked != "" {
		v.What = w.Sentence("norows.what.to", texts.Strong("to", masked))
	}
	if suppression != nil {
		v.Suppressed = true
		key := "next.suppressed"
		if suppression.Channel == recipient.SMS {
			key += ".sms"
		}
		v.Next = w.Join(suppressedSentence(key, *suppression, now, w), v.Next)
	}
	return v
}

// replyCause returns the cause of the reply; "" if no person can be replied to. If the reply names
// a wait, it also returns the wait.
func (vi verdictInput) replyCause() (cause string, wait time.Duration) {
	switch {
	case vi.Recipients > 0 || vi.isToTestRecipient():
		return "", 0
	case vi.To == store.ErasedMask:
		return "erased", 0
	case vi.Status == store.Refused:
		return vi.refusedReplyCause()
	case vi.state == verification.Approved:
		return "approved", 0
	case vi.WorstEvent == store.ProviderBounced:
		return vi.bounceReplyCause(), 0
	case vi.Status == store.Failed && vi.Reason != store.ReasonEnded:
		return vi.failureReplyCause(), 0
	}
	canBeLocked := vi.state == verification.Pending || vi.state == verification.MaxAttemptsReached
	switch {
	case canBeLocked && vi.isLockedOut(vi.story.Verification.Class):
		return "checks", vi.longestLockout()
	case vi.state == verification.MaxAttemptsReached:
		return "locked", 0
	case vi.state == verification.Canceled:
		return "canceled", 0
	case vi.hasWrongCodes() && MayHaveReached(vi.SendOrRefusal):
		return "wrong", 0
	}
	expired := vi.state == verification.Expired
	switch vi.Status {
	case store.Sent, store.Delivered:
		if expired {
			return "expired", 0
		}
		return "sent", 0
	case store.Undelivered:
		return "undelivered", 0
	case store.Unknown:
		if expired {
			return "late", 0
		}
		return "unknown", 0
	case store.Failed: // the send ended because its code was entered
		return "approved", 0
	}
	switch {
	case expired:
		return "late", 0
	case vi.InDoubt:
		return "unknown", 0
	case vi.Status == store.Queued && serverCodeTopic(vi.ProviderCode) == "full":
		return "full", 0
	case vi.Status == store.Queued && vi.Reason+vi.ProviderCode != "":
		return "waiting", 0
	}
	return "underway", 0
}

// bounceReplyCause returns the cause of the reply about a message that came back.
func (vi verdictInput) bounceReplyCause() string {
	if _, suppressed := vi.suppressionOf(store.SuppressionID(vi.ID, store.CauseHardBounce)); suppressed {
		return "address"
	}
	if slices.ContainsFunc(vi.story.Events, func(e store.ProviderEvent) bool {
		return e.Kind == store.ProviderBounced && serverCodeTopic(e.Detail) == "full"
	}) {
		return "full"
	}
	return "rejected"
}

// failureReplyCauses has the cause of the reply by the kind of failure (see failureKind). Any other
// failure is the service's own.
var failureReplyCauses = map[string]string{
	"rejected.address": "address", "rejected.full": "full", "rejected.mailbox": "rejected", "rejected": "rejected",
	"rejected.silent": "rejected", "expired": "late", "expired.silent": "late", "expired.full": "full", "expired.policy": "late",
	"blocked": "blocked", store.ReasonCarrierLimit: "carrier_limit", "opted_out": "opted_out", "country_not_served": "blocked",
}

func (vi verdictInput) failureReplyCause() string {
	switch s, found := vi.suppressionOf(vi.Suppression); {
	case vi.Reason == store.ReasonSuppressed && found && !s.Active(vi.story.Now):
		return "over"
	case vi.Reason == store.ReasonSuppressed && found && vi.Channel == recipient.SMS && s.Cause == store.CauseOptOut:
		return "opted_out"
	case vi.Reason == store.ReasonSuppressed:
		return "suppressed"
	case vi.Reason == store.ReasonPaused && vi.story.Pause != nil && vi.story.Pause.Active(vi.story.Now):
		return "prefix"
	case vi.Reason == store.ReasonPaused && vi.facts.Pause != nil:
		return "paused"
	case vi.Reason == store.ReasonPaused:
		return "over"
	}
	return cmp.Or(failureReplyCauses[vi.failureKind()], "ours")
}

func (vi verdictInput) longestLockout() (wait time.Duration) {
	for _, out := range vi.facts.Locks {
		wait = max(wait, out.Wait)
	}
	return wait
}

func (vi verdictInput) refusedReplyCause() (cause string, wait time.Duration) {
	if policy.IsUnservedRefusal(vi.SendOrRefusal) {
		return "unserved", 0
	}
	if wait := vi.longestLockout(); wait > 0 {
		return "checks", wait
	}
	scope := vi.countedScopeKey()
	switch scope {
	case "", string(policy.FailuresScope), policy.BackoffName, policy.CarrierName:
	case string(quota.IP), string(quota.Network):
		return "limit.network", 0
	default:
		return "limit.shared", 0
	}
	refusing := func(s quota.State) bool { return s.Name == vi.BlockedBy }
	switch d := vi.facts.Quota; {
	case d != nil && (vi.BlockedBy == policy.LockoutName || slices.ContainsFunc(d.Rules, refusing)):
		if vi.facts.Strangers != nil {
			d = vi.facts.Strangers
		}
		wait = d.RetryAfter()
	case vi.Count > 1:
		return "limit.later", 0
	default:
		wait = vi.LoggedAt.Add(vi.RetryAfter).Sub(vi.story.Now)
	}
	switch {
	case wait <= 0:
		return "limit.now", 0
	case scope == policy.BackoffName, scope == string(policy.FailuresScope):
		return "limit." + scope, wait
	}
	return "limit", wait
}
