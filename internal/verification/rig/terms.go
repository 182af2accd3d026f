package rig

import (
	"maps"

	"sendcode/internal/policy"
	"sendcode/quota"
)

// terms are the rig's with another policy for all purposes.
func (r *Rig) Terms(p quota.Policy) policy.Set {
	t := policy.Set{Purposes: maps.Clone(r.Settings.Purposes), Apps: r.Settings.Apps}
	for name, purpose := range t.Purposes {
		purpose.Policy = p
		t.Purposes[name] = purpose
	}
	return t
}

func (r *Rig) Change(p quota.Policy) { r.Helper(); r.Svc.Change(r.Terms(p)) }
