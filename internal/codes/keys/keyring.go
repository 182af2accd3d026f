// Package keys has the service's secret keys, and what is derived from them. A Ring has the keys of
// SENDCODE_SECRET_KEYS: new data use the first one, older data name theirs, so that keys can be
// rotated while codes are valid. No key is used directly: HKDF (RFC 5869) derives one for each use,
// so codes, encryption and cookies never share one. parse.go and strength.go read a ring, seal.go
// encrypts with it.
//
// A Vault hashes recipients, encrypts and decrypts their addresses, and derives codes. Hashes have
// a key of their own, SENDCODE_INDEX_KEY, so that rotating the ring resets no quota.
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

const subkeySize = 32 // bytes of every derived key

// ErrUnknownKey says that the ring lacks a key, for example because it was removed too early. That
// is a mistake in operation (status 503), and doesn't mean that a code is wrong. A well-formed ID
// is in the error.
var ErrUnknownKey = errors.New("keys: unknown key id")

// Ring is an ordered, immutable set of keys, made by Parse. It is printed without its keys. The
// zero Ring has none. Safe for concurrent use.
type Ring struct {
	// held is a function because fmt can't print what a function holds. A method String isn't
	// enough: fmt doesn't call it on a Ring in an unexported field, but prints its fields, and with
	// "%s" even what is behind a pointer.
	held func() *ringContent
}

// ringContent keeps what was derived, because deriving takes longer than sealing.
type ringContent struct {
	keys    []ringKey
	derived sync.Map // derivation → derivedKey
}

type ringKey struct {
	id  string
	prk []byte // HKDF-Extract of the secret
}

// derivation names a derived key. Uses and labels are constants of the program, so there are few.
type derivation struct{ id, use, label string }

// derivedKey may be used by many goroutines.
type derivedKey struct {
	key  []byte
	aead cipher.AEAD
}

// Subkey and Seal differ in their use, so they have different keys even for the same label.
const (
	subkeyUse = "subkey"
	sealUse   = "seal"
)

// CurrentID returns the ID of the first key, for new data; "" without keys.
func (r *Ring) CurrentID() string {
	if keys := r.content().keys; len(keys) > 0 {
		return keys[0].id
	}
	return ""
}

// IDs returns all IDs, the current one first.
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

// Subkey derives 32 bytes from a key. Different labels give unrelated ones. Error: ErrUnknownKey.
func (r *Ring) Subkey(id, label string) ([]byte, error) {
	d, err := r.derive(derivation{id, subkeyUse, label})
	return bytes.Clone(d.key), err
}

// derive remembers what it has derived. Error: ErrUnknownKey.
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

// String returns the number of keys, and no part of a key.
func (r Ring) String() string {
	return fmt.Sprintf("keys(%d redacted)", len(r.content().keys))
}

func (r Ring) GoString() string { return r.String() }

func (r Ring) LogValue() slog.Value { return slog.StringValue(r.String()) }

func (r Ring) MarshalText() ([]byte, error) { return []byte(r.String()), nil }
