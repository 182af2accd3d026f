package explain

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"sendcode/internal/policy"
	"sendcode/internal/recipient"
	"sendcode/internal/store"
	"sendcode/internal/texts"
	"sendcode/internal/verification"
)

// answer is a reply to copy for the person whose code it is. It is in their language, and names neither rules nor servers.
// testdata/stories.txt has one for each combination of states.
type answer struct {
	Text  texts.Sentence
	W     texts.Words // of the person's language, else the reader's
	Times bool        // it has some, so it has to say whose
}

// Zone returns the texts before and after the name of the time zone.
func (a answer) Zone() [2]string {
	before, after, _ := strings.Cut(a.W.Get("answer.zone"), "{zone}")
	return [2]string{before, after}
}

// newAnswer returns the reply for the person; without a text if the row stands for several recipients, or is a send to a test recipient.
func newAnswer(c matter, reader texts.Words) answer {
	a := answer{W: texts.ForReply(c.Locale, reader).In(reader.Zone())}
	if c.Recipients > 0 { // there is no one person to answer
		return a
	}
	c.Words = a.W
	a.Text = c.reply()
	for _, p := range a.Text {
		a.Times = a.Times || !p.At.IsZero()
	}
	return a
}

// reply returns what to tell the person; nil for a send to a test recipient.
func (c matter) reply() texts.Sentence {
	if c.Afterwards == store.ProviderBounced && c.state != verification.Approved { // it came back, whatever was said at first
		if _, gone := c.suppressionOf(store.SuppressionID(c.ID, store.HardBounce)); gone {
			return c.replyText("failed.rejected.address")
		}
		if slices.ContainsFunc(c.story.Events, func(e store.ProviderEvent) bool {
			return e.Kind == store.ProviderBounced && c.replyTopic(e.Detail) == "full"
		}) {
			return c.replyText("failed.rejected.full")
		}
		return c.replyText("failed.rejected.mailbox")
	}
	switch {
	case c.toTestRecipient():
		return nil
	case c.wrongCodes() && MayHaveGoneOut(c.Send):
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
		return c.Join(c.replyText("failed."+c.failureClass()), c.quotaCostReply(), c.validCodeReply())
	case store.Refused:
		return c.Join(c.refusedReply(), c.validCodeReply())
	}
	return c.replyText("underway")
}

// replyText returns the text with the key "answer." and key, with its values filled in.
func (c matter) replyText(key string, more ...texts.Part) texts.Sentence {
	channel, by, took := string(cmp.Or(string(c.Channel), string(recipient.Email))), "answer.provider.", "answer.took"
	if c.handedToRelayOnly() {
		by, took = "answer.service.", "answer.handed"
	}
	return c.text("answer."+key, append([]texts.Part{
		texts.Plain("to", c.To), texts.Plain("provider", c.Get(by+channel)), texts.Plain("took", c.Get(took)),
		texts.Plain("look", c.Get("answer.look."+channel)),
	}, more...)...)
}

// handedToRelayOnly reports whether a relay or a carrier has the message, and the recipient's own provider has reported nothing.
func (c matter) handedToRelayOnly() bool {
	return (c.Status == store.Sent || c.Status == store.Unknown) && !slices.ContainsFunc(c.story.Events, func(e store.ProviderEvent) bool {
		return e.Kind == store.ProviderDelivered || e.Kind == store.ProviderBounced
	})
}

// failureClass returns the end of the key of the person's reply to a failure, by what can be done about it; "ours" if there is no text for
// the kind of failure.
func (c matter) failureClass() string {
	switch c.Reason {
	case store.ReasonSuppressed:
		switch s, found := c.suppressionOf(c.Suppression); {
		case found && !s.Active(c.story.Now):
			return "suppressed.over"
		case found && c.optedOutAtCarrier(s):
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
	case c.Has("answer.failed." + kind):
		return kind
	}
	return "ours"
}

// quotaCostReply returns a sentence that a failure did not count; nil if it counted, or if that is of no use to the person.
func (c matter) quotaCostReply() texts.Sentence {
	if c.Counts || c.Reason == "ended" || c.Reason == "blocked" {
		return nil
	}
	return c.replyText("free")
}

// validCodeReply returns a sentence that an earlier code can still be used; nil if there is none.
func (c matter) validCodeReply() texts.Sentence {
	if c.valid == nil {
		return nil
	}
	return c.replyText("works")
}

func (c matter) refusedReply() texts.Sentence {
	free, known := c.nextAllowed()
	switch {
	case c.BlockedBy == verification.ChecksRule:
		return c.lockoutReply()
	case policy.IsUnserved(c.Send):
		return c.text("answer.norows.unserved")
	case !known:
		return c.replyText("refused.later")
	case free.IsZero():
		return c.replyText("refused.now")
	case c.BlockedBy == "failures":
		return c.replyText("refused.failures", texts.At("free", free))
	case c.countsOthers():
		return c.text(c.variantKey("answer.refused.shared", c.countedScope()), texts.At("free", free))
	}
	return c.replyText("refused.at", texts.At("free", free))
}

// lockoutReply returns the explanation of the lockout that ends last, for callers of any kind.
func (c matter) lockoutReply() texts.Sentence {
	var wait time.Duration
	for _, out := range c.facts.Locks {
		wait = max(wait, out.Wait)
	}
	if wait == 0 {
		return c.replyText("refused.now")
	}
	return c.replyText("refused.checks", texts.At("free", c.logTimeAfter(wait)))
}

// nextAllowed returns when the next request is admitted; zero: now. known is false if that can't be told.
func (c matter) nextAllowed() (free time.Time, known bool) {
	if c.facts.Quota == nil || !c.quotaHasRule(c.BlockedBy) {
		return c.LoggedAt.Add(c.RetryAfter), c.Count <= 1
	}
	if worst, blocked := c.facts.Quota.Blocking(); blocked {
		return FreeAt(*c.facts.Quota, worst), true
	}
	return time.Time{}, true
}
