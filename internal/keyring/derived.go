package keyring

import (
	"crypto/cipher"

	"golang.org/x/crypto/chacha20poly1305"
)

// derivation says what is derived: from the key of an ID, for a use under a label. Uses and labels are constants of the program and IDs
// those of the ring, so the derived keys that a ring keeps are few.
type derivation struct{ id, use, label string }

// derived is a derived key, and its cipher, which any number may use at once.
type derived struct {
	key  []byte
	aead cipher.AEAD
}

const useSeal = "seal"

func (r *Ring) derive(d derivation) (derived, error) {
	if r.kept == nil {
		return derived{}, ErrUnknownKey
	}
	if known, ok := r.kept().Load(d); ok {
		return known.(derived), nil
	}
	key, err := r.expand(d)
	if err != nil {
		return derived{}, err
	}
	aead, err := chacha20poly1305.NewX(key)
	if err != nil {
		return derived{}, err
	}
	made := derived{key, aead}
	r.kept().Store(d, made)
	return made, nil
}
