package explain

import (
	"sendcode/internal/store"
	"sendcode/internal/texts"
)

// Unserved returns the verdict on a recipient without rows to whom nothing is sent for this reason; nil for other reasons.
func Unserved(reason string, w texts.Words) *Verdict {
	what := w.Tell("norows.what." + reason)
	if reason == "" || what == nil {
		return nil
	}
	return &Verdict{Tone: Warn, What: what, Next: w.Tell("norows.next." + reason),
		Answer: Answer{W: w, Text: w.Tell("answer.norows.unserved")}}
}

// Unknown returns the verdict on a recipient without rows; near are requests of recipients with a similar spelling.
func Unknown(near []store.Send, w texts.Words) *Verdict {
	v := &Verdict{Tone: Warn, What: w.Tell("norows.what"), Next: w.Tell("norows.next"), Answer: Answer{W: w, Text: w.Tell("answer.norows")}}
	for _, row := range near {
		if row.To != store.Erased {
			v.Near = append(v.Near, onwardTo(w, "near.asked", row))
		}
	}
	if len(v.Near) > 0 {
		v.Next = w.Tell("norows.next.near")
	}
	return v
}
