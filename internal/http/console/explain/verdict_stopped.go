package explain

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/base/recipient"
	"sendcode/internal/base/texts"
	"sendcode/internal/store"
)

// suppressionOf returns the suppression with this ID among those of the row; false if there is
// none.
func (c verdictInput) suppressionOf(id uuid.UUID) (store.Suppression, bool) {
	i := slices.IndexFunc(c.story.Suppressions, func(s store.Suppression) bool { return s.ID == id })
	if i < 0 {
		return store.Suppression{}, false
	}
	return c.story.Suppressions[i], true
}

func (c verdictInput) suppressedTexts() (what, next texts.Sentence) {
	s, found := c.suppressionOf(c.Suppression)
	if !found {
		return c.text("verdict.failed.suppressed.old"), c.text("next.failed.suppressed.old")
	}
	what = c.text("verdict.failed.suppressed", texts.AtTime("since", s.Since), texts.Plain("cause", SuppressionSummary(s, c.Words)))
	return what, c.suppressionStateText(c.remedyKey(s), s)
}

// remedyKey returns the key of the text on what to do about a suppression. A recipient who opted
// out at the carrier must first revoke it there.
func (c verdictInput) remedyKey(s store.Suppression) string {
	if c.isCarrierOptOut(s) && s.Active(c.story.Now) {
		return "next.failed.suppressed.stop"
	}
	return "next.failed.suppressed"
}

func (c verdictInput) isCarrierOptOut(s store.Suppression) bool {
	return c.Channel == recipient.SMS && s.Cause == store.CauseOptOut
}

func (c verdictInput) prefixPausedTexts(p store.PrefixPause) (what, next texts.Sentence) {
	return c.text("verdict.failed.prefix", texts.AtTime("since", p.Since), texts.Strong("prefix", p.Prefix),
			texts.Plain("class", c.Get("prefixes.class."+p.Class.Name())),
			texts.Plain("numbers", PauseCountsText(p, c.Words))),
		c.text("next.failed.prefix"+activeKeySuffix(p.Active(c.story.Now), p.LiftedAt), texts.AtTime("until2", p.Until),
			texts.AtTime("lifted", p.LiftedAt))
}

// activeKeySuffix returns the end of a key: whether something still holds, has ended or was lifted.
func activeKeySuffix(active bool, lifted time.Time) string {
	switch {
	case active:
		return ".holds"
	case !lifted.IsZero():
		return ".lifted"
	}
	return ".ended"
}

// suppressionStateText returns the text on whether a suppression still holds; nil if there is no
// text for that state.
func (c verdictInput) suppressionStateText(key string, s store.Suppression) texts.Sentence {
	return c.text(key+activeKeySuffix(s.Active(c.story.Now), s.LiftedAt), texts.AtTime("suntil", s.Until),
		texts.AtTime("lifted", s.LiftedAt))
}

func (c verdictInput) pausedNextStep() texts.Sentence {
	if c.facts.Pause == nil {
		return c.text("next.failed.paused.over")
	}
	return c.text("next.failed.paused.holds", texts.AtTime("psince", c.facts.Pause.Since),
		texts.Plain("pwhy", cmp.Or(c.facts.Pause.Reason, c.Get("pause.why.none"))))
}

// linkedTextTo returns a sentence on another request, with the address of its page.
func linkedTextTo(w texts.Words, key string, s store.SendOrRefusal) linkedText {
	return linkedText{Text: w.Sentence(key, texts.Strong("to", s.To), texts.AtTime("at", s.LoggedAt),
		texts.Plain("became", w.Or("status", string(s.Status)))), Link: SendPageAddress(s.ID)}
}

// reduceIfErased returns the verdict. If the recipient was erased, that replaces the advice and the reply.
func (c verdictInput) reduceIfErased(v Verdict) Verdict {
	if c.To != store.ErasedMask {
		return v
	}
	v.What, v.Next = c.Join(v.What, c.text("verdict.erased")), c.text("next.erased")
	v.Answer.Text = v.Answer.W.Sentence("answer.erased")
	return v
}

// SuppressionSummary returns why a recipient is suppressed, in a few words.
func SuppressionSummary(s store.Suppression, w texts.Words) string {
	parts := []string{w.Or("cause", string(s.Cause))}
	if s.Detail != "" {
		parts = append(parts, s.Detail)
	}
	if s.By != "" {
		parts = append(parts, s.By)
	}
	return strings.Join(parts, " · ")
}

// PauseCountsText returns the counts that led to a pause.
func PauseCountsText(p store.PrefixPause, w texts.Words) string {
	text := w.Get("prefixes.numbers", "sends", strconv.Itoa(p.Sends), "approved", strconv.Itoa(p.Approved))
	if p.UsualPercent >= 0 {
		text += w.Get("prefixes.usual", "percent", strconv.Itoa(p.UsualPercent))
	}
	return text
}
