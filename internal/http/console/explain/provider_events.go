package explain

import (
	"slices"

	"sendcode/internal/base/texts"
	"sendcode/internal/store"
	"sendcode/internal/verify/verification"
)

// providerEventKinds has an entry for each kind of provider event, with the tone of the kind and
// the cause of the suppression that may follow. The worst kind is first. The kinds delayed and
// unmapped are last, so a page explains them only if the send has no other event.
var providerEventKinds = []struct {
	kind  store.ProviderEventKind
	tone  Tone
	cause store.SuppressionCause
	after string // key of the texts about the suppression that followed
}{
	{store.ProviderComplained, Bad, store.CauseComplaint, "unwanted"},
	{store.ProviderOptedOut, Warn, store.CauseOptOut, "unwanted"},
	{store.ProviderBounced, Bad, store.CauseHardBounce, "bounced"},
	{kind: store.ProviderDelivered, tone: Good},
	{kind: store.ProviderDelayed, tone: Warn},
	{kind: store.ProviderUnmapped, tone: Warn},
}

// withProviderEvent adds the worst provider event to a verdict. If events of this kind can suppress
// the recipient, withProviderEvent also replaces the verdict's tone and its next step, the advice
// to the reader. If the code was entered, the message arrived, so the verdict keeps its next step.
func (vi verdictInput) withProviderEvent(v Verdict) Verdict {
	for _, t := range providerEventKinds {
		i := slices.IndexFunc(vi.story.Events, func(e store.ProviderEvent) bool { return e.Kind == t.kind })
		if i < 0 {
			continue
		}
		e := vi.story.Events[i]
		v.What = vi.Join(v.What, vi.text(vi.variantKey("later."+string(e.Kind), serverCodeTopic(e.Detail)),
			texts.Strong("provider", e.Provider),
			texts.AtTime("told", e.At), texts.Plain("words", inBrackets(vi.Words, e.Detail))))
		if t.cause == "" {
			return v
		}
		v.Tone = t.tone
		if vi.state != verification.Approved {
			v.Next = vi.text(vi.variantKey("next.later."+string(e.Kind), serverCodeTopic(e.Detail)))
		}
		if s, found := vi.suppressionOf(store.SuppressionID(vi.ID, t.cause)); found {
			v.Next = vi.Join(v.Next, vi.suppressionStateText(t.after, s))
		}
		return v
	}
	return v
}

// inBrackets returns a server's code or words in brackets; "" for none.
func inBrackets(w texts.Words, s string) string {
	if s == "" {
		return ""
	}
	return w.Get("reply", "code", s)
}

func providerEventEntries(s store.SendDetails, w texts.Words) (all []TimelineEntry) {
	for _, e := range s.Events {
		line := TimelineEntry{At: w.WithMilliseconds(e.At), Tone: Neutral, order: e.At}
		for _, t := range providerEventKinds {
			if t.kind == e.Kind {
				line.Tone = t.tone
			}
		}
		line.What = w.Sentence("line.told", texts.Strong("provider", e.Provider),
			texts.Plain("kind", w.Or("provider_event", string(e.Kind))),
			texts.Plain("words", inBrackets(w, e.Detail)))
		all = append(all, line)
	}
	return all
}
