package admin

import (
	"slices"

	"github.com/google/uuid"

	"sendcode/internal/audit"
)

// Verdicts on what was handed to nobody: since when, why, and what to do.

func (c matter) suppressionOf(id uuid.UUID) (audit.Suppression, bool) {
	i := slices.IndexFunc(c.suppressions, func(s audit.Suppression) bool { return s.ID == id })
	if i < 0 {
		return audit.Suppression{}, false
	}
	return c.suppressions[i], true
}

func (c matter) suppressed() (what, next sentence) {
	s, found := c.suppressionOf(c.Suppression)
	if !found {
		return c.about("verdict.failed.suppressed.old"), c.about("next.failed.suppressed.old")
	}
	return c.about("verdict.failed.suppressed", at("since", s.Since), plain("cause", causeOf(s, c.words))), c.still("next.failed.suppressed", s)
}

// still says whether a suppression still holds. A text that there is not says nothing.
func (c matter) still(key string, s audit.Suppression) sentence {
	state := ".ended"
	switch {
	case s.Active(c.now):
		state = ".holds"
	case !s.LiftedAt.IsZero():
		state = ".lifted"
	}
	return c.about(key+state, at("suntil", s.Until), at("lifted", s.LiftedAt))
}

func (c matter) paused() sentence {
	if c.pause == nil {
		return c.about("next.failed.paused.over")
	}
	return c.about("next.failed.paused.holds", at("psince", c.pause.Since), plain("pwhy", or(c.pause.Reason, c.texts["pause.why.none"])))
}
