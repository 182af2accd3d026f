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

// personReply is a reply to copy for the person whose code it is. It is in their language, and names
// neither rules nor servers. Times are spans from now, such as "9 minutes", since the person's zone
// is not known. testdata/stories.txt has one for each combination of states.
type personReply struct {
	Text texts.Sentence
	W    texts.Words // of the person's language, else the reader's
}

// newPersonReply returns the reply for the person; without a text if the row stands for several
// recipients, or is a send to a test recipient.
func newPersonReply(c verdictInput, reader texts.Words) personReply {
	a := personReply{W: texts.ForReply(c.Locale, reader)}
	if c.Recipients > 0 { // there is no one person to answer
		return a
	}
	c.Words, c.spans = a.W, true
	a.Text = c.reply()
	return a
}

// reply returns what to tell the person; nil for a send to a test recipient.
func (c verdictInput) reply() texts.Sentence {
	// the message came back, whatever the server said at first
	if c.WorstEvent == store.ProviderBounced && c.state != verification.Approved {
		if _, gone := c.suppressionOf(store.SuppressionID(c.ID, store.CauseHardBounce)); gone {
			return c.replyText("failed.rejected.address")
		}
		if slices.ContainsFunc(c.story.Events, func(e store.ProviderEvent) bool {
			return e.Kind == store.ProviderBounced && serverCodeTopic(e.Detail) == "full"
		}) {
			return c.replyText("failed.rejected.full")
		}
		return c.replyText("failed.rejected.mailbox")
	}
	switch {
	case c.isToTestRecipient():
		return nil
	case c.hasWrongCodes() && MayHaveGoneOut(c.SendOrRefusal):
		return c.replyText("wrong")
	}
	switch c.Status {
	case store.Undelivered:
		if c.state != verification.Approved {
			return c.replyText("undelivered")
		}
		return c.replyText("sent.approved")
	case store.Sent, store.Delivered:
		return c.replyText("sent." + cmp.Or(string(c.state), "none"))
	case store.Unknown:
		return c.replyText("unknown." + cmp.Or(string(c.state), "none"))
	case store.Failed:
		return c.Join(c.replyText("failed."+c.failureReplyKind()), c.notCountedReply(), c.validCodeReply())
	case store.Refused:
		return c.Join(c.refusedReply(), c.validCodeReply())
	}
	return c.underwayReply()
}

// underwayReply returns the reply about a message without an outcome.
func (c verdictInput) underwayReply() texts.Sentence {
	switch ended := c.state != "" && c.state != verification.Pending; {
	case c.state == verification.Approved:
		return c.replyText("failed.ended")
	case c.state == verification.Expired:
		return c.replyText("failed.expired")
	case ended:
		return c.replyText("failed.ended." + string(c.state))
	case c.InDoubt:
		return c.replyText("unknown." + cmp.Or(string(c.state), "none"))
	case c.Status != store.Queued || c.Reason == "" && c.ProviderCode == "":
		return c.replyText("underway")
	case serverCodeTopic(c.ProviderCode) == "full":
		return c.replyText("waits.full")
	case c.ProviderCode != "":
		return c.replyText("waits.postponed")
	}
	return c.replyText("waits.away")
}

// replyText returns the text with the key "answer." and key, with its values filled in.
func (c verdictInput) replyText(key string, more ...texts.Substitution) texts.Sentence {
	channel, by, took := string(cmp.Or(string(c.Channel), string(recipient.Email))), "answer.provider.", "answer.took"
	if c.handedToRelayOnly() {
		by, took = "answer.service.", "answer.handed"
	}
	return c.text("answer."+key, append([]texts.Substitution{
		texts.Plain("to", c.To), texts.Plain("provider", c.Get(by+channel)), texts.Plain("took", c.Get(took)),
		texts.Plain("look", c.Get("answer.look."+channel)),
	}, more...)...)
}

// handedToRelayOnly reports whether a relay or a carrier has the message, and the recipient's own
// provider has reported nothing.
func (c verdictInput) handedToRelayOnly() bool {
	return (c.Status == store.Sent || c.Status == store.Unknown) &&
		!slices.ContainsFunc(c.story.Events, func(e store.ProviderEvent) bool {
			return e.Kind == store.ProviderDelivered || e.Kind == store.ProviderBounced
		})
}

// failureReplyKind returns the end of the key of the person's reply to a failure, by what can be done
// about it; "ours" if there is no text for the kind of failure.
func (c verdictInput) failureReplyKind() string {
	switch c.Reason {
	case store.ReasonSuppressed:
		switch s, found := c.suppressionOf(c.Suppression); {
		case found && !s.Active(c.story.Now):
			return "suppressed.over"
		case found && c.isCarrierOptOut(s):
			return "opted_out"
		}
		return "suppressed"
	case store.ReasonPaused:
		switch {
		case c.story.Pause != nil && c.story.Pause.Active(c.story.Now):
			return "prefix"
		case c.facts.Pause == nil:
			return "paused.over"
		}
		return "paused"
	}
	switch kind := c.failureKind(); {
	case kind == "expired.full":
		return "rejected.full"
	case kind == "rejected.silent":
		return "rejected"
	case kind == "expired.policy":
		return "expired"
	case c.Has("answer.failed." + kind):
		return kind
	}
	return "ours"
}

// notCountedReply returns a sentence that a failure did not count; nil if it counted, or if that is
// of no use to the person.
func (c verdictInput) notCountedReply() texts.Sentence {
	if c.Counts || c.Reason == "ended" || c.Reason == "blocked" {
		return nil
	}
	return c.replyText("free")
}

// validCodeReply returns a sentence that an earlier code can still be used; nil if there is none.
func (c verdictInput) validCodeReply() texts.Sentence {
	if c.validCode == nil {
		return nil
	}
	return c.replyText("works")
}

func (c verdictInput) refusedReply() texts.Sentence {
	free, known := c.nextAllowedAt()
	switch {
	case c.BlockedBy == verification.LockoutRuleName:
		return c.lockoutReply()
	case policy.IsUnservedRefusal(c.SendOrRefusal):
		return c.text("answer.norows.unserved")
	case !known:
		return c.replyText("refused.later")
	case !free.After(c.story.Now):
		return c.replyText("refused.now")
	case c.countedScopeKey() == policy.BackoffName:
		return c.replyText("refused.backoff", c.timePart("free", free))
	case c.BlockedBy == "failures":
		return c.replyText("refused.failures", c.timePart("free", free))
	case c.ruleCountsOthers():
		return c.text(c.variantKey("answer.refused.shared", c.countedScopeKey()), c.timePart("free", free))
	}
	return c.replyText("refused.at", c.timePart("free", free))
}

// lockoutReply returns the reply about the lockout that ends last, whichever class it is of.
func (c verdictInput) lockoutReply() texts.Sentence {
	var wait time.Duration
	for _, out := range c.facts.Locks {
		wait = max(wait, out.Wait)
	}
	if wait == 0 {
		return c.replyText("refused.now")
	}
	return c.replyText("refused.checks", c.timePart("free", c.databaseTimeAfter(wait)))
}

// nextAllowedAt returns when the next request is admitted; zero: now. known is false if that can't be
// told.
func (c verdictInput) nextAllowedAt() (free time.Time, known bool) {
	if c.facts.Quota == nil || !c.quotaHasRule(c.BlockedBy) {
		return c.LoggedAt.Add(c.RetryAfter), c.Count <= 1
	}
	if blocking, blocked := c.facts.Quota.Blocking(); blocked {
		return ruleAdmitsAt(*c.facts.Quota, blocking), true
	}
	return time.Time{}, true
}
