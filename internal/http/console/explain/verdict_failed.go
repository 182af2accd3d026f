package explain

import (
	"strings"

	"sendcode/internal/base/texts"
	"sendcode/internal/store"
	"sendcode/internal/verify/verification"
)

// failedTexts returns the verdict on a send that was not delivered: what happened, and what to do next.
func (c verdictInput) failedTexts() (what, next texts.Sentence) {
	switch c.Reason {
	case store.ReasonSuppressed:
		what, next = c.suppressedTexts()
		return what, c.Join(next, c.quotaCostText())
	case store.ReasonPaused:
		if c.story.Pause != nil {
			what, next = c.prefixPausedTexts(*c.story.Pause)
			return c.Join(what, c.earlierAttemptWarning()), c.Join(next, c.quotaCostText())
		}
		return c.Join(c.text("verdict.failed.paused"), c.earlierAttemptWarning()), c.Join(c.pausedNextStep(), c.quotaCostText())
	}
	kind := c.failureKind()
	if kind == store.ReasonCarrierLimit { // the wait is among what the recipient's rules say
		return c.text("verdict.failed." + kind), c.Join(c.nextAdmittedTextByQuota(), c.quotaCostText())
	}
	what, next = c.Join(c.text("verdict.failed."+kind), c.earlierAttemptWarning()), c.text("next.failed."+kind)
	if s, found := c.suppressionOf(store.SuppressionID(c.ID, store.CauseHardBounce)); found {
		next = c.Join(next, c.suppressionStateText("bounced", s))
	}
	return what, c.Join(next, c.quotaCostText())
}

// failureKind returns the end of the keys of the texts on a failure: the reason, perhaps with what
// the server's code is about; "other" for a reason without a text.
func (c verdictInput) failureKind() string {
	switch {
	case c.Reason == "ended" && (c.state == verification.Canceled || c.state == verification.MaxAttemptsReached):
		return "ended." + string(c.state)
	case c.Reason == "expired" && c.ProviderCode == "" && c.Provider != "":
		return "expired.away"
	case (c.Reason == "expired" || c.Reason == store.ReasonRejected) && c.ProviderCode == "":
		return c.Reason + ".silent"
	}
	const failed = "verdict.failed."
	key := c.variantKey(failed+c.Reason, serverCodeTopic(c.ProviderCode))
	if !c.Has(key) {
		return "other"
	}
	return strings.TrimPrefix(key, failed)
}

// serverCodeTopic returns what a server's code is about: x.1.x the address, x.2.x the mailbox, x.7.x
// policy (RFC 3463 section 3); "" if it does not tell.
func serverCodeTopic(code string) string {
	for word := range strings.FieldsSeq(code) {
		class, about, _ := strings.Cut(word, ".")
		switch {
		case class != "4" && class != "5":
		case about == "2.2":
			return "full"
		case strings.HasPrefix(about, "1."):
			return "address"
		case strings.HasPrefix(about, "2."):
			return "mailbox"
		case strings.HasPrefix(about, "7."):
			return "policy"
		}
	}
	return ""
}

// FailureText returns in a few words why a send failed, or waits: our reason, and what the server's
// code is about in place of "rejected by the server". "" if there is nothing to say.
func FailureText(s store.Send, w texts.Words) string {
	topic, reason := serverCodeTopic(s.ProviderCode), w.Or("reason", s.Reason)
	about := w.Or("why.topic", topic)
	switch {
	case about == "", s.Status == store.Sent, s.Status == store.Delivered, s.Status == store.Queued && topic != "full":
		return reason
	case s.Reason == "", s.Reason == store.ReasonRejected, s.Status == store.Queued:
		return about
	}
	return reason + " · " + about
}

// quotaCostText returns a sentence about whether a failure counted in the recipient's quota.
func (c verdictInput) quotaCostText() texts.Sentence {
	if c.Counts {
		return c.text("cost.counted")
	}
	return c.text("cost.nothing")
}
