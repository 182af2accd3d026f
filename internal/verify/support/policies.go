package support

import (
	"cmp"
	"maps"
	"slices"

	"sendcode/internal/codes/policy"
)

// PolicyWithPurposes is a current policy and the purposes that share it.
type PolicyWithPurposes struct {
	Name     string
	Rules    []policy.RuleInForce
	Purposes []string // sorted
	// NoReserve are the apps in which the policy has no reserve, though Rules have one; sorted.
	NoReserve []string
}

// Policies returns the policies sorted by name.
func (ad *Administration) Policies() []PolicyWithPurposes {
	set := ad.Policy.Get()
	byName := map[string]PolicyWithPurposes{}
	for _, p := range set.Purposes {
		byName[p.Policy.Name] = PolicyWithPurposes{
			p.Policy.Name, set.RulesInForce(p), slices.Sorted(slices.Values(p.PolicyPurposes)), set.AppsWithoutReserve(p),
		}
	}
	return slices.SortedFunc(maps.Values(byName), func(a, b PolicyWithPurposes) int { return cmp.Compare(a.Name, b.Name) })
}
