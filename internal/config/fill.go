package config

import (
	"slices"
	"strings"

	"sendcode/internal/keyring"
)

// Generated is a secret that came from the data directory and not from a setting.
type Generated struct {
	Name  string // the variable that would replace it: "SENDCODE_API_KEY"
	Value Secret
	New   bool // made by this call; false when a former start made it
}

// FillSecrets supplies the secrets that no setting gives from <dir>/secrets.yaml, which it makes the first time, and
// returns those that it supplied. Nothing is supplied, and dir not touched, while others can reach the
// server: Load has refused a configuration that would need it. The file is written whole or not at all, for the owner
// only. One that is there and not whole is an error and is left as it is: other keys would make
// codes under way invalid and count every recipient anew.
//
// Call it with the lock of LockDataDir held or not; it excludes a second call by itself.
func (c *Config) FillSecrets(dir string) ([]Generated, error) {
	missing := c.missingSecrets()
	if len(missing) == 0 {
		return nil, nil
	}
	secrets, fresh, err := openSecrets(dir, slices.Contains(missing, keyIndexKey) || slices.Contains(missing, keySecretKeys))
	if err != nil {
		return nil, err
	}
	var supplied []Generated
	for _, key := range missing {
		value := NewSecret(secrets[key])
		*c.secret(key) = value
		supplied = append(supplied, Generated{envName(key), value, fresh})
	}
	if slices.Contains(missing, keyAPIKey) {
		c.addAPIKey()
	}
	return supplied, nil
}

// missingSecrets names what has to be supplied.
func (c *Config) missingSecrets() []string {
	var missing []string
	need := func(key string, given bool) {
		if !given && c.Loopback() {
			missing = append(missing, key)
		}
	}
	need(keySecretKeys, c.SecretKeys.IsSet())
	need(keyIndexKey, c.IndexKey.IsSet())
	need(keyAPIKey, c.APIKey.IsSet() || c.Apps[0].hasSecretKey())
	need(keyAdminPassword, c.AdminEnabled())
	return missing
}

func (c *Config) secret(key string) *Secret {
	switch key {
	case keySecretKeys:
		return &c.SecretKeys
	case keyIndexKey:
		return &c.IndexKey
	case keyAPIKey:
		return &c.APIKey
	case keyAdminPassword:
		return &c.AdminPassword
	case keyAdminPasswordHash:
		return &c.AdminPasswordHash
	case keyAdminToken:
		return &c.AdminToken
	}
	return new(Secret)
}

// generateSecrets makes all of them, also those that a setting gives today: so a file in which one is missing is broken.
func generateSecrets() (map[string]string, error) {
	ring, err := keyring.Generate()
	if err != nil {
		return nil, err
	}
	index, err := generateIndexKey()
	if err != nil {
		return nil, err
	}
	key, _ := NewAPIKey(SecretKey)
	return map[string]string{
		keySecretKeys: ring, keyIndexKey: index, keyAPIKey: key, keyAdminPassword: randomText(passwordBytes),
	}, nil
}

// passwordBytes of randomness make a password: 20 characters to type.
const passwordBytes = 15

func generateIndexKey() (string, error) {
	entry, err := keyring.Generate()
	_, encoded, _ := strings.Cut(entry, ":")
	return encoded, err
}

// NewIndexKey makes a value for SENDCODE_INDEX_KEY.
func NewIndexKey() (string, error) { return generateIndexKey() }
