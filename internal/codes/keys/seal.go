package keys

import (
	"crypto/rand"
	"errors"
	"slices"
)

const sealVersion = 1 // first byte of sealed data; another format would have another version

// errCannotOpen means that data were damaged, never sealed, or sealed with another label or other
// additional data.
var errCannotOpen = errors.New("keys: sealed data cannot be opened")

// Seal encrypts with the current key. Open needs the same label and additional data. The result is
//
//	version (1 byte) | length of the key id (1 byte) | key id | nonce (24 bytes) | ciphertext and tag
//
// The cipher is XChaCha20-Poly1305. A key may be used for years, and its random nonces are long
// enough for any number of messages; AES-GCM allows 2^32 (NIST SP 800-38D section 8.3).
func (r *Ring) Seal(label string, plaintext, additional []byte) ([]byte, error) {
	id := r.CurrentID()
	d, err := r.derive(derivation{id, sealUse, label})
	if err != nil {
		return nil, err
	}
	out := make([]byte, 0, 2+len(id)+d.aead.NonceSize()+len(plaintext)+d.aead.Overhead())
	out = append(append(out, sealVersion, byte(len(id))), id...)
	header := len(out)
	out = out[:header+d.aead.NonceSize()]
	nonce := out[header:]
	rand.Read(nonce)
	return d.aead.Seal(out, nonce, plaintext, slices.Concat(out[:header], additional)), nil
}

// Open decrypts sealed data. Errors: ErrUnknownKey if the ring lacks their key, otherwise
// errCannotOpen.
func (r *Ring) Open(label string, sealed, additional []byte) ([]byte, error) {
	header, rest, ok := splitHeader(sealed)
	if !ok {
		return nil, errCannotOpen
	}
	d, err := r.derive(derivation{string(header[2:]), sealUse, label})
	if err != nil {
		return nil, err
	}
	if len(rest) < d.aead.NonceSize() {
		return nil, errCannotOpen
	}
	nonce, ciphertext := rest[:d.aead.NonceSize()], rest[d.aead.NonceSize():]
	plaintext, err := d.aead.Open(nil, nonce, ciphertext, slices.Concat(header, additional))
	if err != nil {
		return nil, errCannotOpen
	}
	return plaintext, nil
}

// Reseal encrypts sealed data anew, with the current key. Errors: those of Open.
func (r *Ring) Reseal(label string, sealed, additional []byte) ([]byte, error) {
	plaintext, err := r.Open(label, sealed, additional)
	if err != nil {
		return nil, err
	}
	return r.Seal(label, plaintext, additional)
}

// SealedBy returns the ID of the key that sealed the data; "" if they are not sealed.
func SealedBy(sealed []byte) string {
	header, _, ok := splitHeader(sealed)
	if !ok || !validID(string(header[2:])) {
		return ""
	}
	return string(header[2:])
}

// splitHeader returns a header of two bytes and the key's ID.
func splitHeader(sealed []byte) (header, rest []byte, ok bool) {
	if len(sealed) < 2 || sealed[0] != sealVersion || len(sealed) < 2+int(sealed[1]) {
		return nil, nil, false
	}
	end := 2 + int(sealed[1])
	return sealed[:end], sealed[end:], true
}
