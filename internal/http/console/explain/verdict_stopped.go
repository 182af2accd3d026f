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

// suppressionOf returns the suppression with this ID among the suppressions of the send. If there
// is no such suppression, the result is false.
func (vi verdictInput) suppressionOf(id uuid.UUID) (store.Suppression, bool) {
	i := slices.IndexFunc(vi.story.Suppressions, func(s store.Suppression) bool { return s.ID == id })
	if i < 0 {
		return store.Suppression{}, false
	}
	return vi.story.Suppressions[i], true
}

func (vi verdictInput) suppressedTexts() (what, next texts.Sentence) {
	s, found := vi.suppressionOf(vi.Suppression)
	if !found {
		return vi.text("verdict.failed.suppressed.old"), vi.text("next.failed.suppressed.old")
	}
	what = vi.text("verdict.failed.suppressed", texts.AtDay("since", s.Since, vi.story.Now), texts.Plain("cause", SuppressionSummary(s, vi.Words)))
	return what, vi.suppressionStateText(vi.remedyKey(s), s)
}

// withLaterSuppression begins the advice with the suppression that came after the send, if there is
// one, and makes the tone at least Warn.
func (vi verdictInput) withLaterSuppression(v Verdict) Verdict {
	s := vi.facts.Suppression
	if s == nil {
		return v
	}
	if v.Tone != Bad {
		v.Tone = Warn
	}
	v.Next = vi.Join(suppressedSentence(vi.channelKey("next.suppressed"), *s, vi.story.Now, vi.Words), v.Next)
	return v
}

func suppressedSentence(key string, s store.Suppression, now time.Time, w texts.Words) texts.Sentence {
	return w.Sentence(key, texts.AtDay("since", s.Since, now), texts.AtDay("suntil", s.Until, now),
		texts.Plain("cause", SuppressionSummary(s, w)))
}

// remedyKey returns the key of the text about what to do about a suppression. A recipient who opted
// out at the carrier must first withdraw that opt-out at the carrier. A recipient who may not want
// messages is asked first.
func (vi verdictInput) remedyKey(s store.Suppression) string {
	switch {
	case !s.Active(vi.story.Now) || s.Cause == store.CauseHardBounce:
		return "next.failed.suppressed"
	case vi.Channel == recipient.SMS && s.Cause == store.CauseOptOut:
		return "next.failed.suppressed.stop"
	}
	return "next.failed.suppressed.asked"
}

func (vi verdictInput) prefixPausedTexts(p store.PrefixPause) (what, next texts.Sentence) {
	return vi.text("verdict.failed.prefix", texts.AtDay("since", p.Since, vi.story.Now), texts.Strong("prefix", p.Prefix),
			texts.Plain("class", vi.Get("prefixes.class."+p.Class.Name())),
			texts.Plain("numbers", PauseCountsText(p, vi.Words))),
		vi.text("next.failed.prefix"+activeKeySuffix(p.Active(vi.story.Now), p.LiftedAt), texts.AtTime("until2", p.Until),
			texts.AtTime("lifted", p.LiftedAt))
}

// activeKeySuffix returns the last part of a text's key. This part says whether a suppression or a
// pause is active, was lifted or has ended.
func activeKeySuffix(active bool, lifted time.Time) string {
	switch {
	case active:
		return ".holds"
	case !lifted.IsZero():
		return ".lifted"
	}
	return ".ended"
}

// suppressionStateText returns the text about whether a suppression is active, was lifted or has
// ended. If this state has no text, it returns nil.
func (vi verdictInput) suppressionStateText(key string, s store.Suppression) texts.Sentence {
	until := texts.AtTime("suntil", s.Until)
	if s.Active(vi.story.Now) {
		until = texts.AtDay("suntil", s.Until, vi.story.Now)
	}
	return vi.text(key+activeKeySuffix(s.Active(vi.story.Now), s.LiftedAt), until, texts.AtTime("lifted", s.LiftedAt))
}

func (vi verdictInput) pausedNextStep() texts.Sentence {
	if vi.facts.Pause == nil {
		return vi.text("next.failed.paused.over")
	}
	return vi.text("next.failed.paused.holds", texts.AtTime("psince", vi.facts.Pause.Since),
		texts.Plain("pwhy", cmp.Or(vi.facts.Pause.Reason, vi.Get("pause.why.none"))))
}

// linkedTextTo returns a sentence about another request, with the address of that request's page.
func linkedTextTo(w texts.Words, key string, s store.SendOrRefusal) linkedText {
	return linkedText{Text: w.Sentence(key, texts.Strong("to", s.To), texts.AtTime("at", s.LoggedAt),
		texts.Plain("became", w.Or("status", string(s.Status))), texts.Strong("rule", s.BlockedBy),
		texts.Plain("purpose", s.Purpose)), Link: SendPageAddress(s.ID)}
}

// reduceIfErased returns the verdict. If the recipient was erased, it adds a sentence about the
// erasure and replaces the advice.
func (vi verdictInput) reduceIfErased(v Verdict) Verdict {
	if vi.To != store.ErasedMask {
		return v
	}
	v.What, v.Next = vi.Join(v.What, vi.text("verdict.erased")), vi.text("next.erased")
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
