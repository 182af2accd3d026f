package rig

import "sendcode/internal/verification"

func (r *Rig) Cancel(id string) verification.View {
	r.Helper()
	a, err := r.Svc.Cancel(r.Context(), BackEnd, id)
	if err != nil {
		r.Fatalf("Cancel: %v", err)
	}
	return a.View
}
