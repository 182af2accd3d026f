package keys

import (
	"slices"
	"strings"

	"sendcode/internal/store"
)

const checkValueLabel = "key check" // used for check values only

const IndexKeyCheckName = "index key"

const ringKeyCheckPrefix = "key " // followed by the ID

// KeyCheckValues returns a value for each key. The database stores these values, so a process can
// find out whether it has the keys of the data there. A value doesn't reveal its key, which has at
// least 32 random bytes: for the index key it is an HMAC-SHA256 of a fixed text, and for a key of
// the ring it is a sub-key with no other use.
func (vault Vault) KeyCheckValues() store.KeyCheckValues {
	all := store.KeyCheckValues{}
	if len(vault.IndexKey) > 0 {
		value := vault.KeyedHash(checkValueLabel)
		all[IndexKeyCheckName] = value[:]
	}
	for _, id := range vault.Ring.IDs() {
		all[ringKeyCheckPrefix+id], _ = vault.Ring.Subkey(id, checkValueLabel) // Subkey fails only for an ID that is not on the ring
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
