package config

import "slices"

// Generated is a secret of the data directory that a person needs: the API key and the password of the console.
type Generated struct {
	Name  string // the variable that would replace it: "SENDCODE_API_KEY"
	Label string // for people: "API key", "password"
	Value string // in the clear, to be shown at the terminal
	New   bool   // made by this call; false when a former start made it
}

// NeedsDataDir reports whether anything is kept in DataDir: the SQLite file, or secrets that no setting gives.
func (c *Config) NeedsDataDir() bool { return c.DatabaseURL == "" || len(c.missingSecrets()) > 0 }

// FillSecrets supplies the secrets that no setting gives from <dir>/secrets.yaml, which it makes the first time, and
// returns those that a person needs. Nothing is supplied, and dir not touched, while others can reach the
// server: Load has refused a configuration that would need it. The file is written whole or not at all, for the owner
// only. One that is there and not whole is an error and is left as it is, and so is a missing one where a database
// was written with its keys: other keys would make codes under way invalid and count every recipient anew.
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
	var generated []Generated
	for _, key := range missing {
		*c.secret(key) = NewSecret(secrets[key])
		switch key {
		case keyAPIKey:
			c.addAPIKey()
			generated = append(generated, Generated{envName(key), "API key", secrets[key], fresh})
		case keyAdminPassword:
			generated = append(generated, Generated{envName(key), "password", secrets[key], fresh})
		}
	}
	return generated, nil
}

// missingSecrets returns the keys of the secrets that no setting gives, on loopback; elsewhere nil.
func (c *Config) missingSecrets() []string {
	var missing []string
	need := func(key string, given bool) {
		if !given && c.Loopback() {
			missing = append(missing, key)
		}
	}
	need(keySecretKeys, c.SecretKeys.IsSet())
	need(keyIndexKey, c.IndexKey.IsSet())
	app, _ := c.App(DefaultApp)
	need(keyAPIKey, c.APIKey.IsSet() || app.hasSecretKey())
	need(keyAdminPassword, c.AdminEnabled())
	return missing
}

func (c *Config) secret(key string) *Secret {
	i := slices.IndexFunc(variables, func(v variable) bool { return v.key == key })
	return variables[i].in(c).Addr().Interface().(*Secret)
}

// generateSecrets returns all secrets, also those that a setting gives today: so a file in which one is missing is damaged.
func generateSecrets() map[string]string {
	key, _ := NewAPIKey(SecretKey)
	return map[string]string{
		keySecretKeys: NewRingKey(), keyIndexKey: NewIndexKey(), keyAPIKey: key, keyAdminPassword: randomText(passwordBytes),
	}
}

// passwordBytes of randomness make a password: 20 characters to type.
const passwordBytes = 15
