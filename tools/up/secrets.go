package main

import (
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// seed is what every secret of this checkout is derived from.
type seed []byte

const seedSize = 32 // bytes

// loadSeed reads the seed, or makes it once.
func loadSeed(path string) (seed, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		text = make([]byte, seedSize)
		rand.Read(text) // never fails (crypto/rand)
		return text, os.WriteFile(path, text, 0o600)
	}
	if err == nil && len(text) != seedSize {
		err = fmt.Errorf("%s is damaged; remove it", path)
	}
	return text, err
}

type secrets struct {
	ring, index, apiKey, password string
}

func (s seed) secrets() secrets {
	return secrets{
		ring:     "up:" + base64.StdEncoding.EncodeToString(s.derive("codes", 32)),
		index:    base64.StdEncoding.EncodeToString(s.derive("index", 32)),
		apiKey:   "sk_" + hex.EncodeToString(s.derive("api key", 16)),
		password: base64.RawURLEncoding.EncodeToString(s.derive("password", 12)),
	}
}

// derive gives size bytes that tell nothing about those for another purpose (RFC 5869).
func (s seed) derive(purpose string, size int) []byte {
	key, err := hkdf.Key(sha256.New, s, nil, "sendcode up "+purpose, size)
	if err != nil {
		panic(err) // sizes are constants, far below the limit of 255 hashes
	}
	return key
}

func (s secrets) env() []string {
	return []string{
		"SENDCODE_SECRET_KEYS=" + s.ring,
		"SENDCODE_INDEX_KEY=" + s.index,
		"SENDCODE_API_KEY=" + s.apiKey,
		"SENDCODE_ADMIN_PASSWORD=" + s.password,
	}
}
