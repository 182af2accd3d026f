package admin

import (
	"slices"

	"sendcode/internal/store"
	"sendcode/internal/texts"
	"sendcode/internal/verification"
)

// What a mail provider told of a mail after it had taken it.

type toldJSON struct {
	Kind     store.ProviderEventKind `json:"kind"`
	At       string                  `json:"at"`
	HeardAt  string                  `json:"heard_at"`
	Provider string                  `json:"provider"`
	Detail   *string                 `json:"detail"`
}

func toldOf(list []store.ProviderEvent) []toldJSON {
	out := make([]toldJSON, 0, len(list))
	for _, e := range list {
		out = append(out, toldJSON{Kind: e.Kind, At: *stamp(e.At), HeardAt: *stamp(e.HeardAt), Provider: e.Provider, Detail: text(e.Detail)})
	}
	return out
}

// toldTone is how an event looks, and what suppression may come of it.
type toldTone struct {
	kind  store.ProviderEventKind
	tone  tone
	bars  store.Cause
	after string // texts of what a suppression that came of it means
}

// toldTones are the events, the worst first.
var toldTones = []toldTone{
	{store.ProviderComplained, bad, store.Complaint, "unwanted"}, {store.ProviderOptedOut, warn, store.OptOut, "unwanted"},
	{store.ProviderBounced, bad, store.HardBounce, "bounced"}, {kind: store.ProviderDelivered, tone: good},
}

// told adds to a verdict the worst that a provider told. A code that was entered did arrive, whatever was told.
func (c matter) told(v verdict) verdict {
	for _, t := range toldTones {
		i := slices.IndexFunc(c.events, func(e store.ProviderEvent) bool { return e.Kind == t.kind })
		if i < 0 {
			continue
		}
		e := c.events[i]
		v.What = c.Join(v.What, c.about(c.variant("later."+string(e.Kind), c.topic(e.Detail)), texts.Strong("provider", e.Provider), texts.At("told", e.At), texts.Plain("words", inBrackets(c.Words, e.Detail))))
		if t.bars == "" {
			return v
		}
		v.Tone = t.tone
		if c.state != verification.Approved {
			v.Next = c.about(c.variant("next.later."+string(e.Kind), c.topic(e.Detail)))
		}
		if s, found := c.suppressionOf(store.SuppressionID(c.ID, t.bars)); found {
			v.Next = c.Join(v.Next, c.still(t.after, s))
		}
		return v
	}
	return v
}

func inBrackets(w texts.Words, s string) string {
	if s == "" {
		return ""
	}
	return w.Get("reply", "code", s)
}

func toldEntries(s store.Story, w texts.Words) (all []entry) {
	for _, e := range s.Events {
		i := slices.IndexFunc(toldTones, func(t toldTone) bool { return t.kind == e.Kind })
		line := entry{At: texts.Clock{Time: e.At, Exact: true}, Tone: still, order: e.At}
		if i >= 0 {
			line.Tone = toldTones[i].tone
		}
		line.What = w.Tell("line.told", texts.Strong("provider", e.Provider), texts.Plain("kind", w.Or("afterwards", string(e.Kind))), texts.Plain("words", inBrackets(w, e.Detail)))
		all = append(all, line)
	}
	return all
}
