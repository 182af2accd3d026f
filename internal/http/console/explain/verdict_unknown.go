package explain

import (
	"sendcode/internal/base/texts"
	"sendcode/internal/store"
)

// JudgeWithoutRows returns the verdict on a recipient without rows: why nothing is sent to it, if
// there is such a reason, else requests for recipients with a similar spelling.
func JudgeWithoutRows(unserved string, near []store.SendOrRefusal, w texts.Words) *Verdict {
	if what := w.Sentence("norows.what." + unserved); unserved != "" && what != nil {
		return &Verdict{
			Tone: Warn, What: what, Next: w.Sentence("norows.next." + unserved),
			Answer: personReply{W: w, Text: w.Sentence("answer.norows.unserved")},
		}
	}
	v := &Verdict{
		Tone: Warn, What: w.Sentence("norows.what"), Next: w.Sentence("norows.next"),
		Answer: personReply{W: w, Text: w.Sentence("answer.norows")},
	}
	for _, row := range near {
		if row.To != store.ErasedMask {
			v.Near, v.Next = append(v.Near, linkedTextTo(w, "near.asked", row)), w.Sentence("norows.next.near")
		}
	}
	return v
}
