package rig

import ()

// spent is how many places of the rule of a day a recipient has used.
func (r *Rig) Spent(to string) int {
	r.Helper()
	a, err := r.Svc.Quota(r.Context(), BackEnd, "email", to, "")
	if err != nil {
		r.Fatal(err)
	}
	return a.Quota.Rules[2].Used
}
