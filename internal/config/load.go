package config

import (
	"encoding/base64"
	"maps"
	"reflect"
	"strings"
	"time"

	"sendcode/internal/config/document"

	"go.yaml.in/yaml/v3"
)

// Errors is everything that is wrong with a configuration.
type Errors = document.Errors

// Load builds the configuration from the environment ("NAME=value" entries), over the file that SENDCODE_CONFIG names,
// over the defaults. The error is an *document.Errors with everything that is wrong. Load opens no port and no
// connection; it reads the file, and those of the …_FILE variables, through readFile.
func Load(environ []string, readFile func(string) ([]byte, error)) (Config, error) {
	errs := &document.Errors{}
	all := byName(environ)
	given := fromEnviron(all, readFile, errs)
	c := document.Defaults[Config]()
	c.File = given[keyConfig].value
	d := &reader{config: &c, readFile: readFile, environ: all, settings: map[string]setting{}, hooks: map[string]*document.Place{}}
	d.Decoder = &document.Decoder{Name: document.Plain(c.File), Errs: errs, Checks: checks, Take: d.take, Owner: d}
	root := d.file(given[keyConfig])
	layers := layered(d.settings, given)
	d.readSettings(layers)
	d.complete(root)
	d.completeWebhooks(layers)
	c.checkTogether(layers, root)
	if err := errs.OrNil(); err != nil {
		return Config{}, err
	}
	if key := c.IndexKeyBytes(); key != nil {
		c.IndexKey = NewSecret(base64.StdEncoding.EncodeToString(key))
	}
	c.addAPIKey()
	c.warn(time.Now())
	return c, nil
}

// reader is the state of one Load.
type reader struct {
	*document.Decoder
	config   *Config
	readFile func(string) ([]byte, error)
	environ  map[string]string  // all variables: the file may name one that holds a secret
	settings map[string]setting // of the file, those that the environment may give as well

	hooks       map[string]*document.Place // of webhooks, by app
	badPolicies []string                   // declared with mistakes: to name them is no mistake of its own
	references  []reference
}

// reference is a name that must be declared somewhere.
type reference struct {
	kind, name, where string // kind is "policy", "purpose" or "app"
}

// readerOf returns the reader of the file that a place is in.
func readerOf(p *document.Place) *reader { return p.Owner.(*reader) }

func refer(p *document.Place, kind, key, name string) {
	d := readerOf(p)
	d.references = append(d.references, reference{kind, name, p.Of(key)})
}

// take keeps a setting that the environment may give as well, and returns true; false if the field is not one.
func (d *reader) take(f document.Field, n *yaml.Node, path string) bool {
	switch env := f.Tag.Get("env"); {
	case env == "" || env == "list":
		return false
	case f.Value.Type() == reflect.TypeFor[Secret]():
		d.Mistake(n, path, "is a secret and does not belong in this file; give %s or %[1]s_FILE", envName(f.Name))
	default:
		if text, ok := d.Text(n, path); ok && text != "" {
			d.settings[f.Name] = setting{text, d.Where(n, path)}
		}
	}
	return true
}

// file reads the YAML file, if there is one.
func (d *reader) file(from setting) *document.Place {
	if from.value == "" {
		return &document.Place{Decoder: d.Decoder}
	}
	content, err := d.readFile(from.value)
	var n *yaml.Node
	if err != nil {
		d.Errs.Add(from.where, "%s cannot be read: %s", document.Plain(from.value), reasonWithoutPath(err))
	} else {
		n = d.Parse(content)
	}
	if n == nil {
		return &document.Place{Decoder: d.Decoder}
	}
	return d.Structure(n, "", reflect.ValueOf(d.config).Elem())
}

// layered returns the settings of the environment, else of the file, else their defaults.
func layered(file, environ map[string]setting) map[string]setting {
	effective := map[string]setting{}
	for _, v := range variables {
		effective[v.key] = setting{v.initial, envName(v.key)}
	}
	maps.Copy(effective, file)
	maps.Copy(effective, environ)
	return effective
}

// readSettings sets the fields of all variables.
func (d *reader) readSettings(from map[string]setting) {
	for _, v := range variables {
		s, values := from[v.key], []string{from[v.key].value}
		if s.value == "" || v.key == keyConfig {
			continue
		}
		field := v.in(d.config)
		if v.list {
			field.SetZero()
			values = strings.Split(s.value, ",")
		}
		for _, text := range values {
			one := field
			if v.list {
				one = reflect.New(field.Type().Elem()).Elem()
			}
			if problem := d.Set(one, v.tag, strings.TrimSpace(text)); problem != "" {
				d.Errs.Add(s.where, "%s", problem)
			} else if v.list {
				field.Set(reflect.Append(field, one))
			}
		}
	}
}
