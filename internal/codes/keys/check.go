package keys

import (
	"slices"
	"strings"

	"sendcode/internal/store"
)

const checkValueLabel = "key check" // of check values, and of nothing else

const IndexKeyCheckName = "index key"

const ringKeyCheckPrefix = "key " // followed by the ID

// KeyCheckValues returns a value for each key, by which the database tells whether a process has
// the keys of its data. It doesn't reveal the key, which has at least 32 random bytes: for the
// index key it is an HMAC-SHA256 of a fixed text, for a key of the ring a sub-key with no other
// use.
func (vault Vault) KeyCheckValues() store.KeyCheckValues {
	all := store.KeyCheckValues{}
	if len(vault.IndexKey) > 0 {
		value := vault.KeyedHash(checkValueLabel)
		all[IndexKeyCheckName] = value[:]
	}
	for _, id := range vault.Ring.IDs() {
		all[ringKeyCheckPrefix+id], _ = vault.Ring.Subkey(id, checkValueLabel) // fails only for an ID that is not on the ring
	}
	return all
}

// MissingKeys returns the IDs, sorted, that have a check value but no key in the ring.
func (r *Ring) MissingKeys(checks store.KeyCheckValues) (ids []string) {
	have := r.IDs()
	for name := range checks {
		if id, of := strings.CutPrefix(name, ringKeyCheckPrefix); of && !slices.Contains(have, id) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}
