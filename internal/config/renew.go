package config

import (
	"reflect"
	"slices"
	"strings"

	"sendcode/internal/config/document"
)

// reloads calls yield for each field that can change while the service runs, with what it is called; "" where that is said
// elsewhere.
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

// Renewed is c with all of next that can change while the service runs: the policies, the purposes and the apps with their
// titles and keys. A generated API key stays where next has no key that would take its place.
func (c Config) Renewed(next Config) Config {
	into, from := reflect.ValueOf(&c).Elem(), reflect.ValueOf(next)
	key := c.APIKey
	c.reloads(func(_ string, i int) { into.Field(i).Set(from.Field(i)) })
	c.Warnings = next.Warnings
	app, _ := next.App(DefaultApp)
	if next.APIKey.IsSet() || app.hasSecretKey() || !key.IsSet() {
		return c // the hash of next.APIKey is among the apps' keys already
	}
	c.APIKey, c.Apps = key, slices.Clone(c.Apps)
	c.addAPIKey()
	return c
}

// Differs names the parts that can change while the service runs and are others in next.
func (c Config) Differs(next Config) (parts []string) {
	a, b := reflect.ValueOf(c), reflect.ValueOf(next)
	c.reloads(func(name string, i int) {
		if name != "" && !reflect.DeepEqual(a.Field(i).Interface(), b.Field(i).Interface()) {
			parts = append(parts, name)
		}
	})
	return parts
}

// Fixed names the settings that are others in next and that only a restart brings into force. Both must be as Load gave
// them: a secret that was filled in later would look like a change.
func (c Config) Fixed(next Config) (names []string) {
	for _, v := range variables {
		field := v.in(&c)
		if v.list || v.key == keyConfig || v.tag.Get("reload") != "" {
			continue
		}
		if other := v.in(&next); !reflect.DeepEqual(field.Interface(), other.Interface()) {
			names = append(names, envName(v.key))
			field.Set(other) // so that what holds it is not named too
		}
	}
	all, _ := document.Fields(reflect.ValueOf(&c).Elem())
	others, _ := document.Fields(reflect.ValueOf(&next).Elem())
	for i, f := range all {
		if f.Tag.Get("reload") == "" && !reflect.DeepEqual(f.Value.Interface(), others[i].Value.Interface()) {
			names = append(names, f.Name)
		}
	}
	return names
}
