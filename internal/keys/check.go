package keys

import (
	"slices"
	"strings"

	"sendcode/internal/store"
)

// checkLabel is the label of check values, which are derived for nothing else.
const checkLabel = "key check"

// IndexCheck is the name of the index key's check value.
const IndexCheck = "index key"

const ringCheck = "key " // followed by the ID

// Checks returns a check value for each key, by which the database knows whether a process has the
// keys that its rows were written with. Equal keys have equal values. A key cannot be found by its
// value: it has at least 32 random bytes, and the value is HMAC-SHA256 of a fixed text under the
// index key, or a sub-key of the ring's key that is used for nothing else.
func (k Vault) Checks() store.KeyChecks {
	all := store.KeyChecks{}
	if len(k.IndexKey) > 0 {
		value := k.KeyedHash(checkLabel)
		all[IndexCheck] = value[:]
	}
	for _, id := range k.Ring.IDs() {
		all[ringCheck+id], _ = k.Ring.Subkey(id, checkLabel) // fails for an ID alone that is not on the ring
	}
	return all
}

// Lacking returns the IDs of keys that have a check value and that the ring lacks, sorted.
func (r *Ring) Lacking(checks store.KeyChecks) (ids []string) {
	have := r.IDs()
	for name := range checks {
		if id, of := strings.CutPrefix(name, ringCheck); of && !slices.Contains(have, id) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}
