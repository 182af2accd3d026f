package config

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"
)

// WithReloadable returns c with the reloadable settings of next. These are Reloadable, the API
// keys, the origins of the public key, and the webhook secrets. If c has a generated API key, the
// key stays valid until an app of next has a configured secret key.
func (c Config) WithReloadable(next Config) Config {
	key := c.APIKey
	c.Reloadable, c.APIKey, c.WebhookSecrets = next.Reloadable, next.APIKey, next.WebhookSecrets
	c.PublicKey, c.Origins = next.PublicKey, next.Origins
	if next.hasSecretKeys() || !key.IsSet() {
		c.LocalPublicKey = "" // Load has added next.APIKey to the apps' keys
	} else {
		c.APIKey, c.Apps = key, slices.Clone(c.Apps)
		c.addAPIKey()
	}
	c.UpdateWarnings(time.Now())
	return c
}

// CheckKeptNames returns an error if the page or a hook names an app or a purpose that c does not
// have. Load finds such a mistake in one file. A reload keeps the page and the hooks of the file
// before, and takes the apps and purposes of the new file.
func (c Config) CheckKeptNames() error {
	hasApp := func(name string) bool { return slices.ContainsFunc(c.Apps, func(a App) bool { return a.Name == name }) }
	if c.Page.App != "" && !hasApp(c.Page.App) {
		return fmt.Errorf("page.app is %s until a restart: keep this app until then", c.Page.App)
	}
	for _, h := range c.Hooks {
		lacks := func(purpose string) bool { _, found := c.Purposes[purpose]; return !found }
		if !hasApp(h.App) || slices.ContainsFunc(slices.Collect(maps.Values(h.Purposes)), lacks) {
			return fmt.Errorf("the hook %s uses the app %s and its purposes until a restart: keep them until then", h.Name, h.App)
		}
	}
	return nil
}

// ReloadableChanges returns the names of the reloadable settings that differ in next.
func (c Config) ReloadableChanges(next Config) []string {
	names := changedSettings(c.Reloadable, next.Reloadable)
	if !reflect.DeepEqual(c.Disposable, next.Disposable) && !slices.Contains(names, "disposable_domains") {
		names = append(names, "disposable_domains")
	}
	return names
}

// RestartChanges returns the names of the settings that differ in next and need a restart. Both
// configurations must be unchanged results of Load: a secret that LoadOrCreateSecrets generated
// would look like a change.
func (c Config) RestartChanges(next Config) []string {
	next.Reloadable, next.APIKey, next.WebhookSecrets = c.Reloadable, c.APIKey, c.WebhookSecrets
	next.PublicKey, next.Origins = c.PublicKey, c.Origins
	names := append(changedSettings(c, next), changedSettings(c.Secrets, next.Secrets)...)
	for _, v := range envVariables {
		if i := slices.Index(names, v.key); i >= 0 && v.kind != "list" {
			names[i] = envName(v.key)
		}
	}
	return names
}

// changedSettings returns the keys of the fields that differ between two structs.
func changedSettings[T any](a, b T) (names []string) {
	before, after := reflect.ValueOf(a), reflect.ValueOf(b)
	for i := range before.NumField() {
		name, _, _ := strings.Cut(before.Type().Field(i).Tag.Get("yaml"), ",")
		if name != "" && name != "-" && !reflect.DeepEqual(before.Field(i).Interface(), after.Field(i).Interface()) {
			names = append(names, name)
		}
	}
	return names
}
