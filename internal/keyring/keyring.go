// Package keyring holds the secret keys of SENDCODE_SECRET_KEYS and everything that is derived from them.
//
// A ring has several keys so that they can be rotated while codes are alive: the first one serves what is new, the
// others still serve what names them. What is stored carries the id of its key. No key of the ring is used as it is:
// HKDF (RFC 5869) makes one sub-key per purpose, so codes, encryption and cookies never share one.
//
// app parses the ring at the start and hands it to verification (codes), to the encryption of recipients and to the
// sessions of the pages. The recipient hash does not come from here: its key is SENDCODE_INDEX_KEY, so
// that a rotation frees no quota.
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

// ErrUnknownKey says that the ring has no key with this id, for example because it was removed too early. That
// is a fault of the operation (503), and tells nothing about a code.
var ErrUnknownKey = errors.New("keyring: unknown key id")

var errNoLabel = errors.New("keyring: a sub-key needs a label")

// Ring is a set of keys with an order, made by Parse. It is immutable, safe for concurrent use, and prints as redacted.
// The zero Ring knows no key.
type Ring struct {
	// A function, because fmt skips the methods of a Ring in an unexported field and prints its insides:
	// it would even follow a pointer there, for a verb that does not fit ("%s").
	keys func() []key
	// What was derived from them: to derive one and to set up its cipher takes longer than to seal with it.
	kept func() *sync.Map // derivation → derived
}

type key struct {
	id  string
	prk []byte // HKDF-Extract of the secret
}

// Current is the id of the key for everything new.
func (r *Ring) Current() string {
	if all := r.all(); len(all) > 0 {
		return all[0].id
	}
	return ""
}

// IDs are those of all keys, the current one first.
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

// String shows how many keys there are, and nothing of them.
func (r Ring) String() string {
	return fmt.Sprintf("keyring(%d redacted)", len(r.all()))
}

// GoString is String.
func (r Ring) GoString() string { return r.String() }

// LogValue is String for slog.
func (r Ring) LogValue() slog.Value { return slog.StringValue(r.String()) }

// MarshalText is String for JSON, YAML and whatever else writes text.
func (r Ring) MarshalText() ([]byte, error) { return []byte(r.String()), nil }
