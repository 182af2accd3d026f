package rig

import (
	"sendcode/internal/store"
	"sendcode/internal/verification"
)

// refusedRows are all rows of refusals.
func (r *Rig) RefusedRows() (rows []store.Send) {
	r.Helper()
	filter := store.Filter{Status: store.Refused, Limit: 200}
	for {
		page, err := r.Store.Sends(r.Context(), filter)
		if err != nil {
			r.Fatal(err)
		}
		rows = append(rows, page...)
		if len(page) < filter.Limit {
			return rows
		}
		last := page[len(page)-1]
		filter.Before = &store.Mark{At: last.LoggedAt, ID: last.ID}
	}
}

func (r *Rig) RowsOf(to string) []store.Send {
	r.Helper()
	to2, err := verification.ParseRecipient("email", to)
	if err != nil {
		r.Fatal(err)
	}
	h := r.Svc.Vault.Hash(to2)
	rows, err := r.Store.Sends(r.Context(), store.Filter{Recipient: &h, Limit: 10})
	if err != nil {
		r.Fatal(err)
	}
	return rows
}
