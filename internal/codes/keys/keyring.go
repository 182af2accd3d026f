// Package keys has the secret keys of the service and all values that are derived from them. A Ring
// has the keys of SENDCODE_SECRET_KEYS. A Vault hashes recipients, encrypts and decrypts their
// addresses, and derives codes.
//
// A ring can have several keys, so that an operator can rotate keys while codes are valid. New data
// use the first key. Older data use the other keys. Stored data include the ID of their key. No key
// of the ring is used directly. HKDF (RFC 5869) derives one sub-key for each use, so codes,
// encryption and cookies never share a key.
//
// Package app parses the ring when the program starts. The ring protects codes, proofs, encrypted
// recipients and the cookies of pages. The hashes of recipients use another key,
// SENDCODE_INDEX_KEY, so that a rotation of the ring does not reset quotas. Packages verification,
// outbox, jobs and support each have a Vault.
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

// ErrUnknownKey says that the ring has no key with the given ID, for example because the key was
// removed too early. This is a mistake in operating the service (status 503). It does not mean that
// a code is wrong. If the ID is well-formed, the error that wraps ErrUnknownKey includes the ID.
var ErrUnknownKey = errors.New("keys: unknown key id")

// Ring is an ordered set of keys. Parse returns a Ring. A Ring is immutable and safe for concurrent
// use. It is printed without its keys. The zero Ring has no keys.
type Ring struct {
	// held returns the keys. It is a function, because fmt cannot print the variables of a
	// function. A method String does not suffice: if a Ring is in an unexported field, fmt does not
	// call String but prints the fields of the Ring. With the verb "%s", fmt would even print keys
	// behind a pointer.
	held func() *ringContent
}

// ringContent has the keys of a ring, and the keys and ciphers that were derived from them. A
// derived key and its cipher are stored because their computation takes longer than sealing.
type ringContent struct {
	keys    []ringKey
	derived sync.Map // derivation → derivedKey
}

type ringKey struct {
	id  string
	prk []byte // HKDF-Extract of the secret
}

// derivation is the name of a derived key: the ID of the ring's key, the use and the label. Uses
// and labels are constants of the program, so a ring stores few derived keys.
type derivation struct{ id, use, label string }

// derivedKey is a derived key and its cipher. Many goroutines may use the same derivedKey.
type derivedKey struct {
	key  []byte
	aead cipher.AEAD
}

// These are the uses in a derivation. Subkey and Seal have different uses, so they have different
// keys even for the same label.
const (
	subkeyUse = "subkey"
	sealUse   = "seal"
)

// CurrentID returns the ID of the first key, which is used for new data. It returns "" if the ring
// has no keys.
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

// derive returns the sub-key and the cipher that d names. At the first call, derive computes the
// sub-key and the cipher from the ring's key. Later calls return the stored result. If the ring has
// no key with the ID of d, derive returns ErrUnknownKey.
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
