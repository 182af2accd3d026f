package rig

import (
	"fmt"
	"slices"

	"sendcode/internal/recipient"
	"sendcode/internal/store"
)

// watcher is an observer that remembers what would have been refused.
type Watcher struct {
	blind
	Told []string
}

func (w *Watcher) Observed(ch recipient.Channel, app, rule string) {
	w.Told = append(w.Told, fmt.Sprint(ch, " ", app, " ", rule))
}

// sendsObserved is hasObserved over sends alone; a refusal has nothing to observe.
func (r *Rig) SendsObserved(want ...[]string) {
	r.Helper()
	var got [][]string
	for _, row := range r.Rows() {
		if row.Status != store.Refused {
			got = append(got, row.Observed)
		} else if row.Observed != nil {
			r.Errorf("a refusal observed %v", row.Observed)
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		r.Errorf("observed %v, want %v", got, want)
	}
}

// rows is the whole log, the oldest first.
func (r *Rig) Rows() []store.Send {
	r.Helper()
	rows, err := r.Store.Sends(r.Context(), store.Filter{Limit: 100})
	if err != nil {
		r.Fatal(err)
	}
	slices.Reverse(rows)
	return rows
}
