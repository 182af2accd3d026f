package explain

import (
	"sendcode/internal/base/texts"
)

// JudgeWithoutRows returns the verdict on a recipient without rows.
func JudgeWithoutRows(w texts.Words) *Verdict {
	return &Verdict{Tone: Warn, What: w.Sentence("norows.what"), Next: w.Sentence("norows.next")}
}
