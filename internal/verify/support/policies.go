package support

import (
	"cmp"
	"slices"

	"sendcode/quota"
)

// PolicyWithPurposes is a current policy with the names of the purposes that share it.
type PolicyWithPurposes struct {
	quota.Policy
	Purposes []string       // sorted
	Reserve  map[string]int // of each rule, by name; see policy.Purpose
}

// Policies returns the current policies, sorted by name.
func (ad *Administration) Policies() []PolicyWithPurposes {
	byName := map[string]PolicyWithPurposes{}
	for _, p := range ad.Policy.Get().Purposes {
		byName[p.Policy.Name] = PolicyWithPurposes{p.Policy, slices.Sorted(slices.Values(p.PolicyPurposes)), p.Reserve}
	}
	var all []PolicyWithPurposes
	for _, p := range byName {
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b PolicyWithPurposes) int { return cmp.Compare(a.Name, b.Name) })
	return all
}
