package support

import (
	"cmp"
	"context"
	"slices"

	"sendcode/internal/store"
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

// RecipientsAtLimit returns the recipients that have used up a rule of the policy, at most limit,
// those with the newest send first, and how many there are in all. The rule must have the scope
// recipient, since the database counts no other. Error: fault.Unavailable.
func (ad *Administration) RecipientsAtLimit(ctx context.Context, p PolicyWithPurposes, rule quota.Rule, limit int) (
	[]store.FrequentRecipient, int, error,
) {
	now := ad.Now()
	within := now.Sub(quota.Cutoffs([]quota.Rule{rule}, now)[0])
	crowds, all, err := ad.Store.FrequentRecipients(ctx,
		store.FrequentRecipientsQuery{Purposes: p.Purposes, Within: within, AtLeast: rule.Limit, Limit: limit})
	return crowds, all, err
}
