package keyring

import (
	"crypto/cipher"
	"sync"

	"golang.org/x/crypto/chacha20poly1305"
)

// derivationName says what is derived: from the key of an ID, for a use under a label.
type derivationName struct{ id, use, label string }

// derivation is a derived key and, where it is one for sealing, its cipher, which any number may use at once.
type derivation struct {
	key  []byte
	aead cipher.AEAD
}

// derivations keeps what was derived. Uses and labels are constants of the program and IDs those of the ring, so they are few.
type derivations struct {
	mu   sync.RWMutex
	kept map[derivationName]derivation
}

const useSeal = "seal"

func (r *Ring) derivation(name derivationName) (derivation, error) {
	if r.derived == nil {
		return derivation{}, ErrUnknownKey
	}
	all := r.derived()
	all.mu.RLock()
	known, ok := all.kept[name]
	all.mu.RUnlock()
	if ok {
		return known, nil
	}
	made, err := r.newDerivation(name)
	if err != nil {
		return derivation{}, err
	}
	all.mu.Lock()
	defer all.mu.Unlock()
	all.kept[name] = made
	return made, nil
}

func (r *Ring) newDerivation(name derivationName) (d derivation, err error) {
	if d.key, err = r.expand(name.id, name.use, name.label); err != nil {
		return derivation{}, err
	}
	if name.use == useSeal {
		d.aead, err = chacha20poly1305.NewX(d.key)
	}
	return d, err
}
