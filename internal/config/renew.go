package config

import (
	"reflect"
	"slices"
	"strings"

	"sendcode/internal/config/document"
)

// reloads calls yield for each field that can change while the service runs, with its index and the name to log it by; the name is
// "" if the field is logged elsewhere.
func (c *Config) reloads(yield func(name string, index int)) {
	t := reflect.TypeFor[Config]()
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("yaml"), ",")
		switch reload := t.Field(i).Tag.Get("reload"); reload {
		case "":
		case "yes":
			yield(name, i)
		default:
			yield(strings.TrimPrefix(reload, "quiet"), i)
		}
	}
}

// Renewed returns c with all settings of next that can change while the service runs. A generated API key stays unless next has a
// key in its place.
func (c Config) Renewed(next Config) Config {
	into, from := reflect.ValueOf(&c).Elem(), reflect.ValueOf(next)
	key := c.APIKey
	c.reloads(func(_ string, i int) { into.Field(i).Set(from.Field(i)) })
	c.Warnings = next.Warnings
	if next.APIKey.IsSet() || next.Apps[0].hasSecretKey() || !key.IsSet() {
		return c // the hash of next.APIKey is among the apps' keys already
	}
	c.APIKey, c.Apps = key, slices.Clone(c.Apps)
	c.addAPIKey()
	return c
}

// Differs returns the names of the settings that can change while the service runs and that differ in next.
func (c Config) Differs(next Config) (parts []string) {
	a, b := reflect.ValueOf(c), reflect.ValueOf(next)
	c.reloads(func(name string, i int) {
		if name != "" && !reflect.DeepEqual(a.Field(i).Interface(), b.Field(i).Interface()) {
			parts = append(parts, name)
		}
	})
	return parts
}

// Fixed returns the names of the settings that differ in next and need a restart. Both configurations must be as Load returned
// them, without generated secrets, which would look like a change.
func (c Config) Fixed(next Config) (names []string) {
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
