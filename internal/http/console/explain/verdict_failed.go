package explain

import (
	"strings"

	"sendcode/internal/base/texts"
	"sendcode/internal/store"
	"sendcode/internal/verify/verification"
)

// failedTexts returns the verdict on a send that was not delivered, as two texts. The first text
// says what happened. The second text says what to do.
func (vi verdictInput) failedTexts() (what, next texts.Sentence) {
	switch vi.Reason {
	case store.ReasonSuppressed:
		what, next = vi.suppressedTexts()
		return what, vi.Join(next, vi.quotaCostText())
	case store.ReasonPaused:
		if vi.story.Pause != nil {
			what, next = vi.prefixPausedTexts(*vi.story.Pause)
			return vi.Join(what, vi.earlierAttemptWarning()), vi.Join(next, vi.quotaCostText())
		}
		return vi.Join(vi.text("verdict.failed.paused"), vi.earlierAttemptWarning()), vi.Join(vi.pausedNextStep(), vi.quotaCostText())
	}
	kind := vi.failureKind()
	if kind == store.ReasonCarrierLimit { // the recipient's rules include this wait
		return vi.text("verdict.failed." + kind), vi.Join(vi.nextAdmittedTextByQuota(), vi.quotaCostText())
	}
	what, next = vi.Join(vi.text("verdict.failed."+kind), vi.earlierAttemptWarning()), vi.text("next.failed."+kind)
	if s, found := vi.suppressionOf(store.SuppressionID(vi.ID, store.CauseHardBounce)); found {
		next = vi.Join(next, vi.suppressionStateText("bounced", s))
	}
	return what, vi.Join(next, vi.quotaCostText())
}

// failureKind returns the last part of the keys of the texts about a failure. It is the reason of
// the failure, and may be followed by the topic of the server's code. If no text has this key, it
// is "other".
func (vi verdictInput) failureKind() string {
	switch {
	case vi.Reason == "ended" && (vi.state == verification.Canceled || vi.state == verification.MaxAttemptsReached):
		return "ended." + string(vi.state)
	case vi.Reason == "expired" && vi.ProviderCode == "" && vi.Provider != "":
		return "expired.away"
	case (vi.Reason == "expired" || vi.Reason == store.ReasonRejected) && vi.ProviderCode == "":
		return vi.Reason + ".silent"
	}
	const failed = "verdict.failed."
	key := vi.variantKey(failed+vi.Reason, serverCodeTopic(vi.ProviderCode))
	if !vi.Has(key) {
		return "other"
	}
	return strings.TrimPrefix(key, failed)
}

// serverCodeTopic returns the topic of a mail server's code by RFC 3463 section 3. The topic is
// "address" for x.1.x, "mailbox" for x.2.x and "policy" for x.7.x, where the first x is 4 or 5. For
// x.2.2, the topic is "full". For any other code, it is "".
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

// FailureText returns in a few words why a send failed or waits. It returns the service's own
// reason, the topic of the mail server's code, or both. If the service's reason says only that the
// server rejected the message, or if the send waits because the mailbox is full, FailureText
// returns only the topic. If there is nothing to say, it returns "".
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
func (vi verdictInput) quotaCostText() texts.Sentence {
	if vi.Counts {
		return vi.text("cost.counted")
	}
	return vi.text("cost.nothing")
}
