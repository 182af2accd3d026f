package explain

import (
	"sendcode/internal/base/texts"
)

// JudgeWithoutRows returns the verdict on a recipient without rows: why nothing is sent to it, if
// there is such a reason.
func JudgeWithoutRows(unserved string, w texts.Words) *Verdict {
	if what := w.Sentence("norows.what." + unserved); unserved != "" && what != nil {
		return &Verdict{Tone: Warn, What: what, Next: w.Sentence("norows.next." + unserved)}
	}
	return &Verdict{Tone: Warn, What: w.Sentence("norows.what"), Next: w.Sentence("norows.next")}
}
