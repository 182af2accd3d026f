package rig

import (
	"strings"

	"github.com/google/uuid"

	"sendcode/internal/store"
	"sendcode/internal/support"
)

func ActOf(what string) store.AuditEntry {
	return store.AuditEntry{ID: uuid.Must(uuid.NewV7()), Who: "mei", Role: "operator", What: what, Reason: "ticket 7",
		Outcome: store.AuditDone}
}

func (r *Rig) Person() support.Person {
	r.Helper()
	p, err := r.Svc.Desk.Person("", "email", Ana, "", "ticket 7")
	r.NoError(err)
	return p
}

func (r *Rig) NoError(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

// ends are the outcomes of all acts, the oldest first, with whom they were on.
func (r *Rig) Ends() string {
	r.Helper()
	list, err := r.Store.AuditEntries(r.Context(), store.AuditFilter{Limit: 100})
	r.NoError(err)
	var out []string
	for i := len(list) - 1; i >= 0; i-- {
		a := list[i]
		out = append(out, strings.Join(strings.Fields(strings.Join([]string{a.What, string(a.Outcome), a.Detail, a.To}, " ")), " "))
	}
	return strings.Join(out, "; ")
}

func (r *Rig) Verification(id string) store.Verification {
	r.Helper()
	v, _, _, err := r.Store.Verification(r.Context(), id)
	r.NoError(err)
	return v
}
