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

// Answer is a reply to the person whose code it is, to copy: in their language and with nothing in it that is not for them,
// neither rules by name nor what servers are called. testdata/answers holds one for each combination of states.
type Answer struct {
	Text  texts.Sentence
	W     texts.Words // of the person's language, else the reader's
	Times bool        // it has some, so it has to say whose
}

// Zone returns the texts before and after the name of the time zone.
func (a Answer) Zone() [2]string {
	before, after, _ := strings.Cut(a.W.Get("answer.zone"), "{zone}")
	return [2]string{before, after}
}

// answerOf returns the reply for the person; empty if there is nothing to say.
func answerOf(c matter, reader texts.Words) Answer {
	a := Answer{W: texts.ForReply(c.Locale, reader).In(reader.Zone())}
	if c.Recipients > 0 { // there is no one person to answer
		return a
	}
	c.Words = a.W
	a.Text = c.tellPerson()
	for _, p := range a.Text {
		a.Times = a.Times || !p.At.IsZero()
	}
	return a
}

func (c matter) tellPerson() texts.Sentence {
	if c.Afterwards == store.ProviderBounced && c.state != verification.Approved { // it came back, whatever was said at first
		if _, gone := c.suppressionOf(store.SuppressionID(c.ID, store.HardBounce)); gone {
			return c.person("failed.rejected.address")
		}
		if slices.ContainsFunc(c.story.Events, func(e store.ProviderEvent) bool {
			return e.Kind == store.ProviderBounced && c.topic(e.Detail) == "full"
		}) {
			return c.person("failed.rejected.full")
		}
		return c.person("failed.rejected.mailbox")
	}
	switch c.Status {
	case store.Undelivered:
		if c.state != verification.Approved {
			return c.person("undelivered")
		}
		return c.person("sent.approved")
	case store.Sent, store.Delivered:
		if c.toTestRecipient() {
			return nil
		}
		return c.person("sent." + cmp.Or(string(c.state), "none"))
	case store.Unknown:
		return c.person("unknown." + cmp.Or(string(c.state), "none"))
	case store.Failed:
		return c.Join(c.person("failed."+c.failureClass()), c.quotaCostForPerson(), c.stillWorks())
	case store.Refused:
		return c.Join(c.refusedPerson(), c.stillWorks())
	}
	return c.person("underway")
}

// person returns a text for the person, with its values filled in.
func (c matter) person(key string, more ...texts.Part) texts.Sentence {
	channel, by, took := string(cmp.Or(string(c.Channel), string(recipient.Email))), "answer.provider.", "answer.took"
	if c.handedOver() {
		by, took = "answer.service.", "answer.handed"
	}
	return c.about("answer."+key, append([]texts.Part{
		texts.Plain("to", c.To), texts.Plain("provider", c.Get(by+channel)), texts.Plain("took", c.Get(took)),
		texts.Plain("look", c.Get("answer.look."+channel)),
	}, more...)...)
}

// handedOver reports that a relay or a carrier has the message, and that nothing was heard of the recipient's own provider.
func (c matter) handedOver() bool {
	return (c.Status == store.Sent || c.Status == store.Unknown) && !slices.ContainsFunc(c.story.Events, func(e store.ProviderEvent) bool {
		return e.Kind == store.ProviderDelivered || e.Kind == store.ProviderBounced
	})
}

// failureClass returns who can do something about a failure, for the person's reply.
func (c matter) failureClass() string {
	switch c.Reason {
	case store.ReasonSuppressed:
		switch s, found := c.suppressionOf(c.Suppression); {
		case found && !s.Active(c.story.Now):
			return "suppressed.over"
		case found && c.toldToStop(s):
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
	switch kind := c.failure(); {
	case kind == "expired.full":
		return "rejected.full"
	case kind == "rejected.silent":
		return "rejected"
	case c.Has("answer.failed." + kind):
		return kind
	}
	return "ours"
}

// quotaCostForPerson says that a failure did not count, if that is of use to the person.
func (c matter) quotaCostForPerson() texts.Sentence {
	if c.Counts || c.Reason == "ended" || c.Reason == "blocked" {
		return nil
	}
	return c.person("free")
}

// stillWorks says that an earlier code can still be used.
func (c matter) stillWorks() texts.Sentence {
	if c.has == nil {
		return nil
	}
	return c.person("works")
}

func (c matter) refusedPerson() texts.Sentence {
	free, known := c.freeAgain()
	switch {
	case c.BlockedBy == verification.ChecksRule:
		return c.checksPerson()
	case policy.IsUnserved(c.Send):
		return c.about("answer.norows.unserved")
	case !known:
		return c.person("refused.later")
	case free.IsZero():
		return c.person("refused.now")
	case c.BlockedBy == "failures":
		return c.person("refused.failures", texts.At("free", free))
	case c.shared():
		return c.about(c.variant("answer.refused.shared", c.looksAt()), texts.At("free", free))
	}
	return c.person("refused.at", texts.At("free", free))
}

// checksPerson explains the lockout that ends last, whichever kind of caller it is about.
func (c matter) checksPerson() texts.Sentence {
	var wait time.Duration
	for _, out := range c.facts.Locks {
		wait = max(wait, out.Wait)
	}
	if wait == 0 {
		return c.person("refused.now")
	}
	return c.person("refused.checks", texts.At("free", c.after(wait)))
}

// freeAgain returns when the next request is admitted; zero: now. known is false if that can't be told.
func (c matter) freeAgain() (free time.Time, known bool) {
	if c.facts.Quota == nil || !c.speaksOf(c.BlockedBy) {
		return c.LoggedAt.Add(c.RetryAfter), c.Count <= 1
	}
	if worst, blocked := c.facts.Quota.Blocking(); blocked {
		return FreeAt(*c.facts.Quota, worst), true
	}
	return time.Time{}, true
}
