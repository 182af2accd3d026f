// Package explain describes one send in texts. The texts say what happened and what to do next, and
// form a time line and a reply to the person whose code it is. The package makes the texts from the
// data in its arguments. It reads no other data.
package explain

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"sendcode/internal/base/recipient"
	"sendcode/internal/base/texts"
	"sendcode/internal/codes/policy"
	"sendcode/internal/store"
	"sendcode/internal/verify/verification"
	"sendcode/quota"
)

// Verdict is the beginning of a send's page. It says what happened and what to do next.
type Verdict struct {
	Tone       Tone
	What, Next texts.Sentence
	Newer      *linkedText // a sentence about a newer request of the recipient for the same purpose; nil: there is none
	Earlier    *linkedText // for a refusal: a sentence about the newest send before it; nil: there is none
	Reply      personReply
	Settled    bool // there is nothing to do, so no action is highlighted
	Suppressed bool // a suppression stops messages to the recipient now: only a lift helps

	ReloadAddress string        // the address of a page with a newer verdict
	Until         time.Duration // until the page's texts change by themselves; 0: they don't
}

// linkedText is a sentence about another request, with the address of that request's page.
type linkedText struct {
	Text texts.Sentence
	Link string
}

// verdictInput has all data from which a verdict is made.
type verdictInput struct {
	store.SendOrRefusal
	texts.Words
	story     store.SendDetails
	facts     VerdictFacts
	state     verification.State  // the state of the code; empty: the send has no code, or only the caller checks the code
	validCode *store.Verification // pending code that may have reached the recipient; nil: no such code
}

// VerdictFacts are the data that a verdict depends on besides the row's story.
type VerdictFacts struct {
	Quota *quota.Decision // the rules' current decision on a request for a person whom the back end knows; nil: not known
	// Strangers is the rules' current decision on a request for a stranger, who may not use the
	// rules' reserves. It is nil if a stranger waits no longer than that person, or if the text
	// does not need it.
	Strangers *quota.Decision

	Pause *policy.Pause // the pause that stops the row's channel or purpose now; nil: none
	// ResendOther says that a resend prefers a server or carrier that its verification has not
	// used.
	ResendOther bool
	RuleScope   quota.Scope          // scope of the rule that refused the row; empty: not known
	Newer       *store.SendOrRefusal // a newer request of the recipient for the same purpose; nil: there is none
	Earlier     *store.SendOrRefusal // the newest send before a refusal, for any purpose; nil: there is none
	Locks       []store.Lockout      // the classes of callers that are locked out now by failed checks
	Suppression *store.Suppression   // active now, but not in the story, because it came after the send; nil: none
	CodeBefore  *store.Verification  // for a refusal without a code: the newest earlier code that may have arrived
}

// Judge returns the verdict on a row. The verdict says what became of the row and what to do next.
// verdicts_test.go has the keys of the texts for many combinations of states.
func Judge(s store.SendDetails, facts VerdictFacts, w texts.Words) Verdict {
	c := verdictInput{SendOrRefusal: s.Send, Words: w, story: s, facts: facts}
	if s.Verification != nil && CodeStateOf(*s.Verification, s.Now) != store.CodeOfCaller {
		c.state = verification.StateOf(*s.Verification, s.Now)
	}
	switch {
	case c.state == verification.Pending && slices.ContainsFunc(s.Related, MayHaveReached):
		c.validCode = s.Verification
	case facts.CodeBefore != nil && CodeStateOf(*facts.CodeBefore, s.Now) == store.CodeWaiting:
		c.validCode = facts.CodeBefore
	}
	v := Verdict{
		Tone: ToneOf(s.Send.Status), Reply: c.reply(),
		Settled: c.Status != store.Refused && c.state == verification.Approved || c.isToTestRecipient() || c.Reason == store.ReasonEnded,
		Suppressed: facts.Suppression != nil ||
			slices.ContainsFunc(s.Suppressions, func(x store.Suppression) bool { return x.Active(s.Now) }),
	}
	if facts.Newer != nil {
		v.Newer = new(c.newerText(*facts.Newer))
	}
	if facts.Earlier != nil {
		v.Earlier = new(linkedTextTo(w, "earlier.sent", *facts.Earlier))
	}
	switch how := string(c.Status); c.Status {
	case store.Sent, store.Delivered, store.Undelivered, store.Unknown:
		v.What, v.Next = c.Join(c.text("verdict."+how), c.earlierAttemptWarning()), c.nextStep(how)
		if c.Status == store.Unknown && c.InDoubt && c.Reason != "no_answer" { // the send ended without another attempt
			v.What = c.earlierAttemptWarning()
		}
		if isInferred(c.SendOrRefusal) {
			v.What = c.text("verdict.sent.inferred")
		}
		if c.isToTestRecipient() {
			v.What, v.Next = c.text("verdict.sent.test"), c.text("next.sent.test")
		}
	case store.Failed:
		v.What, v.Next = c.failedTexts()
	case store.Refused:
		v.What, v.Next = c.refusedTexts()
	case store.Queued:
		switch {
		case c.Reason == "" && c.ProviderCode == "":
			how = "queued.first"
		case c.Reason == "backlog":
			how = "queued.backlog"
		}
		v.Next = c.text(c.variantKey("next."+strings.TrimSuffix(how, ".first"), serverCodeTopic(c.ProviderCode)))
		if codeHasEnded(c.story) {
			how, v.Next = how+".over", c.text("next.queued.over")
		}
		v.What = c.Join(c.text("verdict."+how), c.earlierAttemptWarning())
	default:
		v.What, v.Next = c.Join(c.text("verdict.sending"), c.earlierAttemptWarning()), c.text("next.sending")
	}
	canBeLocked := c.state == verification.Pending || c.state == verification.MaxAttemptsReached
	if c.Status != store.Refused && canBeLocked && c.isLockedOut(s.Verification.Class) {
		if c.Status != store.Failed || c.Reason == store.ReasonEnded {
			v.Next = nil // v.Next assumes that this code or another one can be used now
		}
		v.Next = c.Join(v.Next, c.lockoutsText())
	}
	if used, _ := s.UsedProviders(); facts.ResendOther && c.Provider != "" && len(used) > 0 && !slices.Contains(used, c.Provider) {
		v.What = c.Join(v.What, c.text("verdict.other", texts.Plain("used", strings.Join(used, ", "))))
	}
	if s.Verification != nil && s.Verification.CallerChecks {
		v.What = c.Join(v.What, c.text("verdict.caller"))
	}
	v = c.reduceIfErased(c.withLaterSuppression(c.withWrongCodes(c.withProviderEvent(v))))
	v.ReloadAddress, v.Until = SendPageAddress(c.ID), c.untilNextTime(v)
	return v
}

// untilNextTime returns the time until the page changes next, or 0. That is the next instant in the
// verdict's texts, the end of the lockouts or of a rule's wait, or the code's expiry, which changes
// the time line. The rules' waits come from their decisions, because the limiter's clock may differ
// from the database's.
func (vi verdictInput) untilNextTime(v Verdict) (first time.Duration) {
	waits := []time.Duration{vi.longestLockout()}
	for _, d := range []*quota.Decision{vi.facts.Quota, vi.facts.Strangers} {
		if d != nil {
			waits = append(waits, d.RetryAfter())
		}
	}
	if vi.state == verification.Pending {
		waits = append(waits, vi.story.Verification.ExpiresAt.Sub(vi.story.Now))
	}
	said := slices.Concat(v.What, v.Next)
	for _, other := range []*linkedText{v.Newer, v.Earlier} {
		if other != nil {
			said = append(said, other.Text...)
		}
	}
	for _, piece := range said {
		waits = append(waits, piece.At.Sub(vi.story.Now))
	}
	for _, wait := range waits {
		if wait > 0 && (first == 0 || wait < first) {
			first = wait
		}
	}
	return first
}

// newerText returns the sentence about a newer request and, if that was refused by a rule, when the
// next one is admitted.
func (vi verdictInput) newerText(newer store.SendOrRefusal) linkedText {
	if newer.Status != store.Refused {
		return linkedTextTo(vi.Words, "newer.asked", newer)
	}
	l := linkedTextTo(vi.Words, "newer.refused", newer)
	if !policy.IsUnservedRefusal(newer) && vi.facts.Quota != nil && newer.Purpose == vi.Purpose && newer.App == vi.App {
		l.Text = vi.Join(l.Text, vi.nextAdmittedTextByQuota())
	}
	return l
}

// withWrongCodes puts a sentence about wrong codes before the verdict if wrong codes were entered
// and the right code was not. It does so for a pending code and for a code that too many wrong
// checks ended. If the code ended for another reason, it adds no sentence.
func (vi verdictInput) withWrongCodes(v Verdict) Verdict {
	switch {
	case vi.Status == store.Refused || vi.isToTestRecipient():
	case vi.state == verification.MaxAttemptsReached && vi.To == store.ErasedMask: // the recipient was erased, and the checks, too
		v.What = vi.Join(vi.text("verdict.locked.erased"), v.What)
	case vi.state == verification.MaxAttemptsReached:
		v.Tone, v.What = Bad, vi.Join(vi.text("verdict.locked"), v.What)
	case vi.hasWrongCodes():
		if v.Tone != Bad {
			v.Tone = Warn
		}
		v.What = vi.Join(vi.text(texts.PluralKey("verdict.wrong", vi.story.Verification.Attempts)), v.What)
	}
	return v
}

// hasWrongCodes reports whether wrong codes were entered for a code that can still be entered.
func (vi verdictInput) hasWrongCodes() bool {
	return vi.state == verification.Pending && vi.story.Verification.Attempts > 0
}

// MayHaveReached reports whether a send's message may have reached the recipient.
func MayHaveReached(s store.SendOrRefusal) bool {
	taken := s.Status == store.Sent || s.Status == store.Delivered || s.Status == store.Unknown
	return taken && s.WorstEvent != store.ProviderBounced || s.InDoubt
}

// text returns the text of a key, with the values of the send and its code filled in. For a text
// message, it uses the key's variant for text messages if that variant exists.
func (vi verdictInput) text(key string, more ...texts.Substitution) texts.Sentence {
	key = vi.channelKey(key)
	ended := vi.FinishedAt
	if ended.IsZero() {
		ended = vi.LoggedAt
	}
	parts := append([]texts.Substitution{
		texts.Plain("through", cmp.Or(vi.Provider, vi.Get(vi.channelKey("through.unknown")))),
		texts.Plain("reply", inBrackets(vi.Words, vi.ProviderCode)), texts.Plain("reason", vi.Or("reason", vi.Reason)),
		texts.Plain("attempt", strconv.Itoa(vi.Attempt)), texts.Strong("app", vi.App), texts.Plain("purpose", vi.Purpose),
		texts.Plain("network", cmp.Or(vi.Network, "–")), texts.AtTime("asked", vi.LoggedAt), texts.AtTime("ended", ended),
		texts.AtTime("due", vi.DueAt), texts.Plain("wait", vi.Wait(vi.RetryAfter)), texts.Plain("n", strconv.Itoa(vi.Count)),
		texts.Plain("recipients", strconv.Itoa(vi.Recipients)),
	}, more...)
	if vi.validCode != nil {
		parts = append(parts, texts.AtTime("has", vi.validCode.ExpiresAt))
	}
	if v := vi.story.Verification; v != nil {
		parts = append(parts, texts.AtTime("until", v.ExpiresAt), texts.AtTime("approved", v.ApprovedAt),
			texts.AtTime("canceled", v.CanceledAt),
			texts.Plain("tries", strconv.Itoa(v.Attempts)), texts.Plain("left", strconv.Itoa(v.MaxAttempts-v.Attempts)),
			texts.AtTime("last", lastWrongCheckAt(*v)))
	}
	return vi.Sentence(key, parts...)
}

// channelKey returns the key of the variant for text messages if the send is a text message and the
// variant exists, otherwise key.
func (vi verdictInput) channelKey(key string) string {
	if vi.Channel == recipient.SMS {
		return vi.variantKey(key, string(recipient.SMS))
	}
	return key
}

// variantKey returns key + "." + kind if a text has this key, otherwise key.
func (vi verdictInput) variantKey(key, kind string) string {
	if vi.Has(key + "." + kind) {
		return key + "." + kind
	}
	return key
}

// isToTestRecipient reports whether the row is a send to a test recipient, which gets no messages.
func (vi verdictInput) isToTestRecipient() bool {
	return vi.Status == store.Sent && vi.Provider == "test" && vi.ProviderCode == ""
}

// isInferred reports whether a send is Sent only because its code was entered: an attempt ended
// without an answer, and no later attempt was accepted.
func isInferred(r store.SendOrRefusal) bool {
	return r.Status == store.Sent && r.InDoubt && r.Provider == "" && r.Took == 0
}

// earlierAttemptWarning returns a warning about an earlier attempt that ended without a result.
// That attempt may have delivered the message. If there was no earlier attempt like this, or if the
// message is known to be delivered or undelivered, it returns nil.
func (vi verdictInput) earlierAttemptWarning() texts.Sentence {
	switch {
	case !vi.InDoubt || vi.Status == store.Delivered || vi.Status == store.Undelivered:
		return nil
	case vi.Status == store.Sent:
		return vi.text("doubt.sent")
	}
	return vi.text("doubt.else")
}

// nextStep returns a sentence about the sent code: what became of it and what to do next. how is
// the state of the send, as in the keys of the texts.
func (vi verdictInput) nextStep(how string) texts.Sentence {
	key := "next." + how + "." + cmp.Or(string(vi.state), "none")
	if vi.hasWrongCodes() {
		return vi.text("next.sent.wrong")
	}
	if !vi.Has(key) {
		key = "next.sent." + string(vi.state)
	}
	return vi.text(key)
}
