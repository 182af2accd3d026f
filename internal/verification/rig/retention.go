package rig

import "sendcode/internal/store"

func (r *Rig) RowsLeft() int {
	rows, err := r.Store.Sends(r.Context(), store.Filter{Limit: 200})
	if err != nil {
		r.Fatal(err)
	}
	return len(rows)
}
