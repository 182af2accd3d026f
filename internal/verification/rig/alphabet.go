package rig

import "sendcode/internal/verification"

// bothChecks are by ID and by name.
func (r *Rig) BothChecks(id string) map[string]func(string) (verification.Checked, error) {
	return map[string]func(string) (verification.Checked, error){
		"by ID": func(typed string) (verification.Checked, error) { return r.Svc.Check(r.Context(), BackEnd, id, typed) },
		"by name": func(typed string) (verification.Checked, error) {
			return r.Svc.CheckNamed(r.Context(), BackEnd, verification.Named{Channel: "email", To: Ana}, typed)
		},
	}
}
