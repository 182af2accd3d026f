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
// stored check values, to find out whether the process has the keys of the stored data. Equal keys
// have equal check values.
//
// A check value does not reveal its key, which has at least 32 random bytes. The check value of the
// index key is an HMAC-SHA256 of a fixed text. The check value of a key in the ring is a sub-key
// with no other use.
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

// MissingKeys returns the sorted IDs of keys that are not in the ring although the given map has a
// check value for them.
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
