// Package keyring holds the secret keys of SENDCODE_SECRET_KEYS and everything that is derived from them.
//
// A ring has several keys, so that they can be rotated while codes are valid: the first key is used for new data, the others for data
// that name them. Stored data have the ID of their key. No key of the ring is used directly: HKDF (RFC 5869) derives one sub-key for
// each use, so codes, encryption and cookies never share one.
//
// Package app parses the ring at the start. It is used for codes, the encryption of recipients and the sessions of the pages. Hashes of
// recipients use another key, SENDCODE_INDEX_KEY, so that a rotation does not reset quotas.
package keyring

import (
	"bytes"
	"crypto/hkdf"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"sync"
)

// subkeySize is the length of every derived key in bytes.
const subkeySize = 32

// ErrUnknownKey says that the ring has no key with this ID, for example because it was removed too early. It is an operational fault (503),
// and says nothing about a code.
var ErrUnknownKey = errors.New("keyring: unknown key id")

var errNoLabel = errors.New("keyring: a sub-key needs a label")

// Ring is an ordered set of keys, made by Parse. It is immutable, safe for concurrent use, and prints as redacted. The zero Ring has no key.
type Ring struct {
	// A function, since fmt would print keys here if the Ring is in an unexported field: it does not call String then,
	// and even follows a pointer, for a verb that does not fit ("%s").
	keys func() []key
	// What was derived from them: to derive one and to set up its cipher takes longer than to seal with it.
	kept func() *sync.Map // derivation → derived
}

type key struct {
	id  string
	prk []byte // HKDF-Extract of the secret
}

// Current returns the ID of the first key, which is used for new data; "" without keys.
func (r *Ring) Current() string {
	if all := r.all(); len(all) > 0 {
		return all[0].id
	}
	return ""
}

// IDs returns the IDs of all keys, the current one first.
func (r *Ring) IDs() []string {
	var ids []string
	for _, k := range r.all() {
		ids = append(ids, k.id)
	}
	return ids
}

func (r Ring) all() []key {
	if r.keys == nil {
		return nil
	}
	return r.keys()
}

// Subkey derives 32 bytes from the key with this id. Different labels give unrelated keys. The error
// is ErrUnknownKey for an id that is not on the ring.
func (r *Ring) Subkey(id, label string) ([]byte, error) {
	d, err := r.derive(derivation{id, "subkey", label})
	return bytes.Clone(d.key), err
}

// expand separates the keys of Subkey from those of Seal, also where both have the same label.
func (r *Ring) expand(d derivation) ([]byte, error) {
	if d.label == "" {
		return nil, errNoLabel
	}
	for _, k := range r.all() {
		if k.id == d.id {
			return hkdf.Expand(sha256.New, k.prk, "sendcode 1 "+d.use+"\x00"+d.label, subkeySize)
		}
	}
	return nil, ErrUnknownKey
}

// String returns the number of keys, and nothing of the keys.
func (r Ring) String() string {
	return fmt.Sprintf("keyring(%d redacted)", len(r.all()))
}

// GoString returns String.
func (r Ring) GoString() string { return r.String() }

// LogValue returns String, for slog.
func (r Ring) LogValue() slog.Value { return slog.StringValue(r.String()) }

// MarshalText returns String, for JSON, YAML and other encoders.
func (r Ring) MarshalText() ([]byte, error) { return []byte(r.String()), nil }
