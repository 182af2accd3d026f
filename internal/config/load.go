package config

import (
	"reflect"
	"strings"
	"time"

	"sendcode/internal/config/document"
)

// Errors is everything that is wrong with a configuration.
type Errors = document.Errors

// Load builds the configuration from the environment ("NAME=value" entries), over the file that SENDCODE_CONFIG names,
// over the defaults. The error is an *document.Errors with everything that is wrong. Load opens no port and no
// connection; it reads the file, and those of the …_FILE variables, through readFile.
func Load(environ []string, readFile func(string) ([]byte, error)) (Config, error) {
	errs := &document.Errors{}
	c := document.Defaults[Config]()
	d := &loader{config: &c, readFile: readFile, environ: environMap(environ), given: map[string]setting{}, bounded: map[string]bool{}}
	d.Decoder = &document.Decoder{Errs: errs, Checks: checks, Skip: map[string]bool{}, Owner: d}
	d.readEnviron()
	d.Name = document.Printable(d.given[keyConfig].value)
	d.root = &document.Mapping{Decoder: d.Decoder}
	d.decodeFile(d.given[keyConfig])
	d.applyEnviron()
	d.complete()
	d.checkCombinations()
	if err := errs.OrNil(); err != nil {
		return Config{}, err
	}
	c.addAPIKey()
	c.warn(time.Now())
	return c, nil
}

// loader is the state of one Load.
type loader struct {
	*document.Decoder
	config   *Config
	readFile func(string) ([]byte, error)
	environ  map[string]string  // all variables: the file may name one that holds a secret
	given    map[string]setting // by the environment
	root     *document.Mapping  // of the file

	bounded    map[string]bool // policies of the file that have a rule with scope failures, by path
	references []reference
}

// reference is a name that must be declared somewhere.
type reference struct {
	kind, name, where string // kind is "policy", "purpose" or "app"
}

// loaderOf returns the loader of the file that a mapping is in.
func loaderOf(p *document.Mapping) *loader { return p.Owner.(*loader) }

// addReference notes that the value of a key names a policy, purpose or app; complete checks that it exists.
func addReference(p *document.Mapping, kind, key, name string) {
	d := loaderOf(p)
	d.references = append(d.references, reference{kind, name, p.LocationOf(key)})
}

// decodeFile decodes the YAML file, if there is one, except for secrets and what the environment gives.
func (d *loader) decodeFile(from setting) {
	if from.value == "" {
		return
	}
	content, err := d.readFile(from.value)
	if err != nil {
		d.Errs.Add(from.where, "%s cannot be read: %s", document.Printable(from.value), reasonWithoutPath(err))
		return
	}
	n := d.Parse(content)
	if n == nil {
		return
	}
	d.root = d.DecodeStruct(n, "", reflect.ValueOf(d.config).Elem())
	for _, v := range variables {
		if v.isSecret() && d.root.Given[v.key] != nil {
			d.root.AddMistake(v.key, "is a secret and does not belong in this file; give %s or %[1]s_FILE", envName(v.key))
		}
	}
}

// applyEnviron sets the fields that the environment gives.
func (d *loader) applyEnviron() {
	for _, v := range variables {
		s, found := d.given[v.key]
		if !found {
			continue
		}
		set := func(field reflect.Value, text string) bool {
			problem := d.ParseInto(field, v.tag, strings.TrimSpace(text))
			if problem != "" {
				d.Errs.Add(s.where, "%s", problem)
			}
			return problem == ""
		}
		field := v.field(d.config)
		if v.kind() != "list" {
			set(field, s.value)
			continue
		}
		field.SetZero()
		for text := range strings.SplitSeq(s.value, ",") {
			if one := reflect.New(field.Type().Elem()).Elem(); set(one, text) {
				field.Set(reflect.Append(field, one))
			}
		}
	}
}

// locationOf returns where a setting is given: its variable, or its line of the file.
func (d *loader) locationOf(key string) string {
	s, found := d.given[key]
	switch {
	case found:
		return s.where
	case d.root.Given[key] != nil:
		return d.root.LocationOf(key)
	}
	return envName(key)
}
