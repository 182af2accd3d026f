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
	secrets, fresh, err := openSecrets(dir, slices.ContainsFunc(missing, func(s kept) bool { return s.label == "" }))
	if err != nil {
		return nil, err
	}
	var generated []Generated
	for _, s := range missing {
		*s.of(c) = NewSecret(secrets[s.key])
		if s.label != "" {
			generated = append(generated, Generated{envName(s.key), s.label, secrets[s.key], fresh})
		}
		if s.key == keyAPIKey {
			c.addAPIKey()
		}
	}
	return generated, nil
}

// kept is a secret that the data directory holds.
type kept struct {
	key, label string // label is for the person who needs it; "" for the keys that the database is written with
	of         func(*Config) *Secret
	instead    func(*Config) bool // something else is given in its place
	check      func(string) string
	generate   func() string
}

// keptSecrets are all of them, in the order of their file.
var keptSecrets = []kept{
	{keySecretKeys, "", func(c *Config) *Secret { return &c.SecretKeys }, nothing, checkSecretKeys, NewRingKey},
	{keyIndexKey, "", func(c *Config) *Secret { return &c.IndexKey }, nothing, checkIndexKey, NewIndexKey},
	{keyAPIKey, "API key", func(c *Config) *Secret { return &c.APIKey }, func(c *Config) bool {
		app, _ := c.App(DefaultApp)
		return app.hasSecretKey()
	}, checkAPIKey, func() string {
		key, _ := NewAPIKey(SecretKey)
		return key
	}},
	{keyAdminPassword, "password", func(c *Config) *Secret { return &c.AdminPassword }, func(c *Config) bool { return c.AdminEnabled() },
		checkAdminPassword, func() string { return randomText(passwordBytes) }},
}

func nothing(*Config) bool { return false }

// missingSecrets returns the secrets that no setting gives, on loopback; elsewhere nil.
func (c *Config) missingSecrets() (missing []kept) {
	for _, s := range keptSecrets {
		if c.Loopback() && !s.of(c).IsSet() && !s.instead(c) {
			missing = append(missing, s)
		}
	}
	return missing
}

// passwordBytes of randomness make a password: 20 characters to type.
const passwordBytes = 15
