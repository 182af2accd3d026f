package config

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"strings"

	"sendcode/internal/keyring"
)

// apiKeyBytes of randomness make an API key: 192 bits, 32 characters.
const apiKeyBytes = 24

// NewAPIKey makes an API key, sk_… or pk_…, and the SHA-256 of all of it in hex, for the file. Nothing keeps the key.
func NewAPIKey(kind KeyKind) (key, sha256hex string) {
	prefix := "sk_"
	if kind == PublicKey {
		prefix = "pk_"
	}
	key = prefix + randomText(apiKeyBytes)
	sum := sha256.Sum256([]byte(key))
	return key, hex.EncodeToString(sum[:])
}

// randomText is n random bytes in base64url. The system's source cannot fail: without it the program stops.
func randomText(n int) string {
	random := make([]byte, n)
	rand.Read(random)
	return base64.RawURLEncoding.EncodeToString(random)
}

// NewRingKey makes an entry for SENDCODE_SECRET_KEYS, "id:base64".
func NewRingKey() (string, error) { return keyring.Generate() }

// NewIndexKey makes a value for SENDCODE_INDEX_KEY, in base64.
func NewIndexKey() (string, error) {
	entry, err := keyring.Generate()
	_, encoded, _ := strings.Cut(entry, ":")
	return encoded, err
}
