package console

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"sendcode/internal/store"
	"sendcode/internal/texts"
)

// extentView is how far the log reaches, and how far the background has come with what is old.
type extentView struct {
	Lines      []string
	Partitions []partitionView
}

type partitionView struct {
	Name         string
	Begins, Ends string // days in UTC; empty: from the beginning, without an end
	Rows, Size   string
}

// extent asks the log; nil where the console was not given one to ask.
func (a *Console) extent(ctx context.Context, w texts.Words) (*extentView, error) {
	if a.Extent == nil {
		return nil, nil
	}
	e, err := a.Extent(ctx)
	if err != nil {
		return nil, err
	}
	v := extentView{Lines: []string{w.Get("extent.empty")}}
	if !e.Oldest.IsZero() {
		v.Lines = []string{w.Get("extent.oldest", "day", e.Oldest.Format(time.DateOnly))}
	}
	switch {
	case e.Age == 0:
		v.Lines = append(v.Lines, w.Get("extent.ever"))
	case e.Due >= store.MaxDue:
		v.Lines = append(v.Lines, w.Get("extent.kept", "time", w.Wait(e.Age)), w.Get("extent.due.many", "n", strconv.Itoa(store.MaxDue)))
	case e.Due == 0:
		v.Lines = append(v.Lines, w.Get("extent.kept", "time", w.Wait(e.Age)), w.Get("extent.due.none"))
	default:
		v.Lines = append(v.Lines, w.Get("extent.kept", "time", w.Wait(e.Age)), w.Plural("extent.due", e.Due))
	}
	if e.Forgetting > 0 {
		v.Lines = append(v.Lines, w.Plural("extent.forgetting", e.Forgetting))
	}
	if e.Late > 0 {
		v.Lines = append(v.Lines, w.Plural("extent.late", e.Late))
	}
	for _, p := range e.Partitions {
		v.Partitions = append(v.Partitions, partitionView{p.Name, dayOf(p.Begins), dayOf(p.Ends), about(p.Rows), size(p.Bytes)})
	}
	return &v, nil
}

func dayOf(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Format(time.DateOnly)
}

// about is an estimate; the database may have none yet.
func about(n int64) string {
	if n < 0 {
		return "–"
	}
	return strconv.FormatInt(n, 10)
}

// size writes bytes with a binary unit: "512 KiB".
func size(bytes int64) string {
	n, units := float64(bytes), []string{"B", "KiB", "MiB", "GiB", "TiB"}
	for len(units) > 1 && n >= 1024 {
		n, units = n/1024, units[1:]
	}
	return fmt.Sprintf("%.0f %s", n, units[0])
}
