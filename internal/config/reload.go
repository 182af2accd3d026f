package config

import (
	"reflect"
	"slices"
	"strings"

	"sendcode/internal/config/document"
)

// reloadable are the fields of Config that can change while the service runs.
var reloadable = slices.DeleteFunc(reflect.VisibleFields(reflect.TypeFor[Config]()), func(f reflect.StructField) bool {
	return f.Tag.Get("reload") == ""
})

// WithReloadable returns c with those settings of next that can change while the service runs. A generated API key stays unless next
// has a key in its place.
func (c Config) WithReloadable(next Config) Config {
	into, from := reflect.ValueOf(&c).Elem(), reflect.ValueOf(next)
	key := c.APIKey
	for _, f := range reloadable {
		into.FieldByIndex(f.Index).Set(from.FieldByIndex(f.Index))
	}
	c.Warnings = next.Warnings
	if next.APIKey.IsSet() || next.Apps[0].hasSecretKey() || !key.IsSet() {
		return c // the hash of next.APIKey is among the apps' keys already
	}
	c.APIKey, c.Apps = key, slices.Clone(c.Apps)
	c.addAPIKey()
	return c
}

// ReloadableChanges returns the names of the settings that can change while the service runs and that differ in next.
func (c Config) ReloadableChanges(next Config) (parts []string) {
	a, b := reflect.ValueOf(c), reflect.ValueOf(next)
	for _, f := range reloadable {
		name := f.Tag.Get("reload")
		if name == "yes" {
			name, _, _ = strings.Cut(f.Tag.Get("yaml"), ",")
		}
		if name != "quiet" && !reflect.DeepEqual(a.FieldByIndex(f.Index).Interface(), b.FieldByIndex(f.Index).Interface()) {
			parts = append(parts, name)
		}
	}
	return parts
}

// RestartChanges returns the names of the settings that differ in next and need a restart. Both configurations must be as Load returned
// them, without generated secrets, which would look like a change.
func (c Config) RestartChanges(next Config) (names []string) {
	all, _ := document.Fields(reflect.ValueOf(&c).Elem())
	others, _ := document.Fields(reflect.ValueOf(&next).Elem())
	for i, f := range all {
		if f.Tag.Get("reload") != "" || reflect.DeepEqual(f.Value.Interface(), others[i].Value.Interface()) {
			continue
		}
		name := f.Name
		if env := f.Tag.Get("env"); env == "plain" || env == "file" {
			name = envName(name)
		}
		names = append(names, name)
	}
	return names
}
