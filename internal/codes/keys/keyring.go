// Package keys holds the service's secret keys and derives other keys from them. A Ring has the
// keys of SENDCODE_SECRET_KEYS. New data use its first key, and older data name the key that they
// used, so keys can be rotated while codes are valid. No key is used directly: HKDF (RFC 5869)
// derives one for each use, so codes, encryption and cookies never share a key. parse.go and
// strength.go read a ring, and seal.go encrypts with it.
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

// ErrUnknownKey means that the ring lacks a key, for example because it was removed too early. That
// is an operator's mistake (status 503), and doesn't mean that a code is wrong. If the key's ID is
// well-formed, the error's text contains it.
var ErrUnknownKey = errors.New("keys: unknown key id")

// Ring is an ordered, immutable set of keys, made by Parse. It is printed without its keys. The
// zero Ring has no keys. Safe for concurrent use.
type Ring struct {
	// contentFunc is a function because fmt can't print what a function holds. A String method
	// isn't enough: fmt doesn't call it for a Ring in an unexported field, but prints the fields of
	// the Ring, and with "%s" even the value behind a pointer.
	contentFunc func() *ringContent
}

// ringContent caches derived keys, because deriving a key takes longer than sealing.
type ringContent struct {
	keys    []ringKey
	derived sync.Map // derivation → derivedKey
}

type ringKey struct {
	id  string
	prk []byte // HKDF-Extract of the secret
}

// derivation names a derived key. Uses and labels are constants of the program, so there are only a
// few derivations.
type derivation struct{ id, use, label string }

// A derivedKey is safe for concurrent use.
type derivedKey struct {
	key  []byte
	aead cipher.AEAD
}

// Subkey and Seal pass different uses, so they get different keys even for the same label.
const (
	subkeyUse = "subkey"
	sealUse   = "seal"
)

// CurrentID returns the ID of the first key, which new data use, or "" if the ring has no keys.
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
	if r.contentFunc == nil {
		return &ringContent{}
	}
	return r.contentFunc()
}

// Subkey derives 32 bytes from a key. Different labels give unrelated bytes. Error: ErrUnknownKey.
func (r *Ring) Subkey(id, label string) ([]byte, error) {
	d, err := r.derive(derivation{id, subkeyUse, label})
	return bytes.Clone(d.key), err
}

// derive caches the keys that it derives. Error: ErrUnknownKey.
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
