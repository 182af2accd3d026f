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
)

// personReply is a reply to copy for the person whose code it is. It is in their language, and
// names neither rules nor servers. Times are spans from now, such as "9 minutes", since the
// person's zone is not known. testdata/stories.txt has one for each combination of states.
type personReply struct {
	Text texts.Sentence
	W    texts.Words // of the person's language, else the reader's
}

// newPersonReply returns the reply for the person; without a text if the row stands for several
// recipients, or is a send to a test recipient.
func newPersonReply(c verdictInput, reader texts.Words) personReply {
	a := personReply{W: texts.ReplyTextsFor(c.Locale, reader)}
	if c.Recipients > 0 { // there is no one person to answer
		return a
	}
	c.Words, c.spans = a.W, true
	a.Text = c.reply()
	return a
}

// reply returns what to tell the person; nil for a send to a test recipient.
func (vi verdictInput) reply() texts.Sentence {
	// the message came back, whatever the server said at first
	if vi.WorstEvent == store.ProviderBounced && vi.state != verification.Approved {
		if _, gone := vi.suppressionOf(store.SuppressionID(vi.ID, store.CauseHardBounce)); gone {
			return vi.replyText("failed.rejected.address")
		}
		if slices.ContainsFunc(vi.story.Events, func(e store.ProviderEvent) bool {
			return e.Kind == store.ProviderBounced && serverCodeTopic(e.Detail) == "full"
		}) {
			return vi.replyText("failed.rejected.full")
		}
		return vi.replyText("failed.rejected.mailbox")
	}
	switch {
	case vi.isToTestRecipient():
		return nil
	case vi.hasWrongCodes() && MayHaveGoneOut(vi.SendOrRefusal):
		return vi.replyText("wrong")
	}
	switch vi.Status {
	case store.Undelivered:
		if vi.state != verification.Approved {
			return vi.replyText("undelivered")
		}
		return vi.replyText("sent.approved")
	case store.Sent, store.Delivered:
		return vi.replyText("sent." + cmp.Or(string(vi.state), "none"))
	case store.Unknown:
		return vi.replyText("unknown." + cmp.Or(string(vi.state), "none"))
	case store.Failed:
		return vi.Join(vi.replyText("failed."+vi.failureReplyKind()), vi.notCountedReply(), vi.validCodeReply())
	case store.Refused:
		return vi.Join(vi.refusedReply(), vi.validCodeReply())
	}
	return vi.underwayReply()
}

// underwayReply returns the reply about a message without an outcome.
func (vi verdictInput) underwayReply() texts.Sentence {
	switch ended := vi.state != "" && vi.state != verification.Pending; {
	case vi.state == verification.Approved:
		return vi.replyText("failed.ended")
	case vi.state == verification.Expired:
		return vi.replyText("failed.expired")
	case ended:
		return vi.replyText("failed.ended." + string(vi.state))
	case vi.InDoubt:
		return vi.replyText("unknown." + cmp.Or(string(vi.state), "none"))
	case vi.Status != store.Queued || vi.Reason == "" && vi.ProviderCode == "":
		return vi.replyText("underway")
	case serverCodeTopic(vi.ProviderCode) == "full":
		return vi.replyText("waits.full")
	case vi.ProviderCode != "":
		return vi.replyText("waits.postponed")
	}
	return vi.replyText("waits.away")
}

// replyText returns the text with the key "answer." and key, with its values filled in.
func (vi verdictInput) replyText(key string, more ...texts.Substitution) texts.Sentence {
	channel, by, took := string(cmp.Or(string(vi.Channel), string(recipient.Email))), "answer.provider.", "answer.took"
	if vi.handedToRelayOnly() {
		by, took = "answer.service.", "answer.handed"
	}
	return vi.text("answer."+key, append([]texts.Substitution{
		texts.Plain("to", vi.To), texts.Plain("provider", vi.Get(by+channel)), texts.Plain("took", vi.Get(took)),
		texts.Plain("look", vi.Get("answer.look."+channel)),
	}, more...)...)
}

// handedToRelayOnly reports whether a relay or a carrier has the message, and the recipient's own
// provider has reported nothing.
func (vi verdictInput) handedToRelayOnly() bool {
	return (vi.Status == store.Sent || vi.Status == store.Unknown) &&
		!slices.ContainsFunc(vi.story.Events, func(e store.ProviderEvent) bool {
			return e.Kind == store.ProviderDelivered || e.Kind == store.ProviderBounced
		})
}

// failureReplyKind returns the end of the key of the person's reply to a failure, by what can be
// done about it; "ours" if there is no text for the kind of failure.
func (vi verdictInput) failureReplyKind() string {
	switch vi.Reason {
	case store.ReasonSuppressed:
		switch s, found := vi.suppressionOf(vi.Suppression); {
		case found && !s.Active(vi.story.Now):
			return "suppressed.over"
		case found && vi.isCarrierOptOut(s):
			return "opted_out"
		}
		return "suppressed"
	case store.ReasonPaused:
		switch {
		case vi.story.Pause != nil && vi.story.Pause.Active(vi.story.Now):
			return "prefix"
		case vi.facts.Pause == nil:
			return "paused.over"
		}
		return "paused"
	}
	switch kind := vi.failureKind(); {
	case kind == "expired.full":
		return "rejected.full"
	case kind == "rejected.silent":
		return "rejected"
	case kind == "expired.policy":
		return "expired"
	case vi.Has("answer.failed." + kind):
		return kind
	}
	return "ours"
}

// notCountedReply returns a sentence that a failure did not count; nil if it counted, or if that is
// of no use to the person.
func (vi verdictInput) notCountedReply() texts.Sentence {
	if vi.Counts || vi.Reason == "ended" || vi.Reason == "blocked" {
		return nil
	}
	return vi.replyText("free")
}

// validCodeReply returns a sentence that an earlier code can still be used; nil if there is none.
func (vi verdictInput) validCodeReply() texts.Sentence {
	if vi.validCode == nil {
		return nil
	}
	return vi.replyText("works")
}

func (vi verdictInput) refusedReply() texts.Sentence {
	free, known := vi.nextAllowedAt()
	switch {
	case vi.BlockedBy == verification.LockoutRuleName:
		return vi.lockoutReply()
	case policy.IsUnservedRefusal(vi.SendOrRefusal):
		return vi.text("answer.norows.unserved")
	case !known:
		return vi.replyText("refused.later")
	case !free.After(vi.story.Now):
		return vi.replyText("refused.now")
	case vi.countedScopeKey() == policy.BackoffName:
		return vi.replyText("refused.backoff", vi.timePart("free", free))
	case vi.BlockedBy == "failures":
		return vi.replyText("refused.failures", vi.timePart("free", free))
	case vi.ruleCountsOthers():
		return vi.text(vi.variantKey("answer.refused.shared", vi.countedScopeKey()), vi.timePart("free", free))
	}
	return vi.replyText("refused.at", vi.timePart("free", free))
}

// lockoutReply returns the reply about the lockout that ends last, whichever class it is of.
func (vi verdictInput) lockoutReply() texts.Sentence {
	var wait time.Duration
	for _, out := range vi.facts.Locks {
		wait = max(wait, out.Wait)
	}
	if wait == 0 {
		return vi.replyText("refused.now")
	}
	return vi.replyText("refused.checks", vi.timePart("free", vi.databaseTimeAfter(wait)))
}

// nextAllowedAt returns when the next request is admitted; zero: now. known is false if that can't
// be told.
func (vi verdictInput) nextAllowedAt() (free time.Time, known bool) {
	if vi.facts.Quota == nil || !vi.quotaHasRule(vi.BlockedBy) {
		return vi.LoggedAt.Add(vi.RetryAfter), vi.Count <= 1
	}
	if blocking, blocked := vi.facts.Quota.Blocking(); blocked {
		return ruleAdmitsAt(*vi.facts.Quota, blocking), true
	}
	return time.Time{}, true
}
