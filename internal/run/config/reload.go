package config

import (
	"crypto/sha256"
	"errors"
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
	c.fileText, c.fileSettings = next.fileText, next.fileSettings
	if next.hasSecretKeys() || !key.IsSet() {
		c.LocalPublicKey = "" // Load has added next.APIKey to the apps' keys
	} else {
		c.APIKey, c.Apps = key, slices.Clone(c.Apps)
		c.addAPIKey()
	}
	c.UpdateWarnings(time.Now())
	return c
}

// CheckNothingLost returns an error if next, an unchanged result of Load, lacks so much of c that
// an accident is likelier than a decision: a full disk, a failed template or an interrupted copy
// leaves an empty file, or the beginning of one. Since a missing setting has its default, such a
// file would refuse all keys, replace an operator's rules by the built-in ones and end all stops. A
// restart accepts any valid file.
func (c Config) CheckNothingLost(next Config) error {
	keys, nextKeys := c.configuredKeys(), next.configuredKeys()
	lost := keys.lostIn(nextKeys)
	cut := func() bool { // the file is only the beginning of the loaded one
		rest, begins := strings.CutPrefix(c.fileText, strings.TrimRight(next.fileText, "\r\n"))
		return begins && strings.TrimSpace(rest) != "" && (lost > 0 || !strings.ContainsAny(rest[:1], "\r\n"))
	}
	const ifMeant = "; if that is meant, restart the service"
	switch {
	case c.fileSettings && !next.fileSettings:
		return errors.New("the file has no setting, and the loaded one had some" + ifMeant)
	case keys.countInFile() > 0 && nextKeys.countInFile() == 0:
		return fmt.Errorf("apps: the file has no key, and the loaded one had %d"+ifMeant, keys.countInFile())
	case keys.countSecret() > 0 && nextKeys.countSecret() == 0:
		return errors.New("apps: no app has a secret key, and the loaded file had some" + ifMeant)
	case lost > 0 && lost == len(keys):
		return errors.New("apps: the file has none of the keys that are in use, by ID or by hash: " +
			"remove the old keys after the new ones are loaded, or restart the service")
	case cut():
		return errors.New("the file is only the beginning of the loaded one, as after an interrupted copy; " +
			"if that is meant, add a comment, or restart the service")
	case len(c.Disposable) > 0 && len(next.Disposable) == 0 && next.DisposableFile == c.DisposableFile:
		return errors.New("disposable_domains: the file has no domain, and the loaded one had some" + ifMeant)
	}
	return nil
}

type keyName struct{ app, id string }

// namedKeys are keys that an operator has configured, in the file or by variables.
type namedKeys map[keyName]appKey

// configuredKeys returns the keys of all apps without the one that the service generates.
func (c Config) configuredKeys() namedKeys {
	all := namedKeys{}
	for _, a := range c.Apps {
		for _, k := range a.Keys {
			if generated := k.ID == apiKeyID && c.LocalPublicKey != ""; !generated {
				all[keyName{a.Name, k.ID}] = k
			}
		}
	}
	return all
}

func (keys namedKeys) countIf(is func(appKey) bool) (n int) {
	for _, k := range keys {
		if is(k) {
			n++
		}
	}
	return n
}

func (keys namedKeys) countInFile() int {
	return keys.countIf(func(k appKey) bool { return k.ID != apiKeyID && k.ID != publicKeyID })
}

func (keys namedKeys) countSecret() int {
	return keys.countIf(func(k appKey) bool { return k.Kind == SecretKeyKind })
}

// lostIn returns the number of keys whose name and hash are both missing in others.
func (keys namedKeys) lostIn(others namedKeys) int {
	hashes := map[[sha256.Size]byte]bool{}
	for _, k := range others {
		hashes[k.SHA256] = true
	}
	lost := 0
	for name, k := range keys {
		if _, kept := others[name]; !kept && !hashes[k.SHA256] {
			lost++
		}
	}
	return lost
}

// CheckKept returns an error if c, a result of WithReloadable, joins reloaded settings with kept
// ones that Load refuses in one file: the page or a hook names an app or a purpose that c does not
// have, a hook's app has a human check, or folding would change the address of a test recipient.
func (c Config) CheckKept() error {
	hasApp := func(name string) bool { return slices.ContainsFunc(c.Apps, func(a App) bool { return a.Name == name }) }
	if c.Page.App != "" && !hasApp(c.Page.App) {
		return fmt.Errorf("page.app is %s until a restart: keep this app until then", c.Page.App)
	}
	for _, h := range c.Hooks {
		lacks := func(purpose string) bool { _, found := c.Purposes[purpose]; return !found }
		if !hasApp(h.App) || slices.ContainsFunc(slices.Collect(maps.Values(h.Purposes)), lacks) {
			return fmt.Errorf("the hook %s uses the app %s and its purposes until a restart: keep them until then", h.Name, h.App)
		}
		if slices.ContainsFunc(c.Apps, func(a App) bool { return a.Name == h.App && a.HumanCheck.By != "" }) {
			return fmt.Errorf("the hook %s sends for the app %s until a restart: give the app no human_check until then", h.Name, h.App)
		}
	}
	for i, t := range c.TestRecipients {
		if c.foldingChanges(t.To) {
			return fmt.Errorf("folding is that of the start until a restart, and changes the address of test_recipients[%d]", i)
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
