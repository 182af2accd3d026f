// Package keys holds the secret keys of the service and everything that is derived from them. A
// Ring holds the keys of SENDCODE_SECRET_KEYS. A Vault hashes recipients, encrypts and decrypts
// their addresses, and derives codes.
//
// A ring has several keys, so that they can be rotated while codes are valid. The first key is used
// for new data, the other keys for older data. Stored data have the ID of their key. No key of the
// ring is used directly: HKDF (RFC 5869) derives one sub-key for each use, so codes, encryption and
// cookies never share a key.
//
// Package app parses the ring at the start. The ring protects codes, proofs, encrypted recipients
// and the cookies of pages. Hashes of recipients use another key, SENDCODE_INDEX_KEY, so that a
// rotation does not reset quotas. Packages verification, outbox, jobs and support each have a
// Vault.
package keys

import (
	"bytes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"

	"golang.org/x/crypto/chacha20poly1305"
)

// subkeySize is the length of every derived key in bytes.
const subkeySize = 32

// ErrUnknownKey says that the ring has no key with this ID, for example because the key was removed
// too early. It is an operational fault (503), and says nothing about a code. An error that wraps
// it names the ID, if the ID is well-formed.
var ErrUnknownKey = errors.New("keys: unknown key id")

// Ring is an ordered set of keys, made by Parse. It is immutable, safe for concurrent use, and
// prints as redacted. The zero Ring has no key.
type Ring struct {
	// held is a function, since fmt cannot look into a function. For a Ring in an unexported field,
	// fmt does not call String, and would print the keys, even those behind a pointer ("%s").
	held func() *ringContent
}

// ringContent is the content of a ring: its keys, and the keys and ciphers derived from them. The
// ciphers are kept, since deriving a key and setting up its cipher takes longer than sealing.
type ringContent struct {
	keys    []ringKey
	derived sync.Map // derivation → derivedKey
}

type ringKey struct {
	id  string
	prk []byte // HKDF-Extract of the secret
}

// derivation names a derived key by the ID of the ring's key, the use and the label. Uses and
// labels are constants of the program, so a ring holds few derived keys.
type derivation struct{ id, use, label string }

// derivedKey is a derived key and its cipher; many goroutines may use it together.
type derivedKey struct {
	key  []byte
	aead cipher.AEAD
}

// The uses separate the keys of Subkey from those of Seal, even if both have the same label.
const (
	subkeyUse = "subkey"
	sealUse   = "seal"
)

// CurrentID returns the ID of the first key, which is used for new data; "" without keys.
func (r *Ring) CurrentID() string {
	if keys := r.content().keys; len(keys) > 0 {
		return keys[0].id
	}
	return ""
}

// IDs returns the IDs of all keys, the current one first.
func (r *Ring) IDs() []string {
	var ids []string
	for _, k := range r.content().keys {
		ids = append(ids, k.id)
	}
	return ids
}

func (r Ring) content() *ringContent {
	if r.held == nil {
		return &ringContent{}
	}
	return r.held()
}

// Subkey derives 32 bytes from the key with this ID. Different labels give unrelated keys. Error:
// ErrUnknownKey if the ring has no such key.
func (r *Ring) Subkey(id, label string) ([]byte, error) {
	d, err := r.derive(derivation{id, subkeyUse, label})
	return bytes.Clone(d.key), err
}

// derive returns the sub-key and the cipher for the use and label of d, from the ring's key with
// d's ID. It computes both at the first call and keeps them. Error: ErrUnknownKey.
func (r *Ring) derive(d derivation) (derivedKey, error) {
	all := r.content()
	if known, ok := all.derived.Load(d); ok {
		return known.(derivedKey), nil
	}
	i := slices.IndexFunc(all.keys, func(k ringKey) bool { return k.id == d.id })
	switch {
	case i < 0 && validID(d.id): // an invalid ID may be anything that a client sent
		return derivedKey{}, fmt.Errorf("%w %s", ErrUnknownKey, d.id)
	case i < 0:
		return derivedKey{}, ErrUnknownKey
	}
	key, err := hkdf.Expand(sha256.New, all.keys[i].prk, "sendcode 1 "+d.use+"\x00"+d.label, subkeySize)
	if err != nil {
		return derivedKey{}, err
	}
	aead, err := chacha20poly1305.NewX(key)
	if err != nil {
		return derivedKey{}, err
	}
	all.derived.Store(d, derivedKey{key, aead})
	return derivedKey{key, aead}, nil
}

// String returns the number of keys, and nothing of the keys.
func (r Ring) String() string {
	return fmt.Sprintf("keys(%d redacted)", len(r.content().keys))
}

// GoString returns String.
func (r Ring) GoString() string { return r.String() }

// LogValue returns String, for slog.
func (r Ring) LogValue() slog.Value { return slog.StringValue(r.String()) }

// MarshalText returns String, for JSON, YAML and other encoders.
func (r Ring) MarshalText() ([]byte, error) { return []byte(r.String()), nil }
