package keys

import (
	"slices"
	"strings"

	"sendcode/internal/store"
)

// checkValueLabel is the label of check values, and of nothing else.
const checkValueLabel = "key check"

// IndexKeyCheckName is the name of the index key's check value.
const IndexKeyCheckName = "index key"

const ringKeyCheckPrefix = "key " // followed by the ID

// KeyCheckValues returns a check value for each key. The database compares these values with its
// own, to know whether a process has the keys of its rows. Equal keys have equal values. A value
// does not reveal its key: a key has at least 32 random bytes, and the value is HMAC-SHA256 of a
// fixed text under the index key, or under a sub-key of the ring's key that has no other use.
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

// MissingKeys returns the IDs of keys that have a check value and that the ring lacks, sorted.
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
