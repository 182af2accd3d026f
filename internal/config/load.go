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
	d := &reader{config: &c, readFile: readFile, environ: byName(environ), given: map[string]setting{}, bounded: map[string]bool{}}
	d.Decoder = &document.Decoder{Errs: errs, Checks: checks, Skip: map[string]bool{}, Owner: d}
	d.readEnviron()
	d.Name = document.Plain(d.given[keyConfig].value)
	d.root = &document.Place{Decoder: d.Decoder}
	d.decodeFile(d.given[keyConfig])
	d.applyEnviron()
	d.complete()
	d.checkTogether()
	if err := errs.OrNil(); err != nil {
		return Config{}, err
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
	given    map[string]setting // by the environment
	root     *document.Place    // of the file

	bounded    map[string]bool // policies of the file that have a rule with scope failures, by path
	references []reference
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

// decodeFile decodes the YAML file, if there is one, except for secrets and what the environment gives.
func (d *reader) decodeFile(from setting) {
	if from.value == "" {
		return
	}
	content, err := d.readFile(from.value)
	if err != nil {
		d.Errs.Add(from.where, "%s cannot be read: %s", document.Plain(from.value), reasonWithoutPath(err))
		return
	}
	n := d.Parse(content)
	if n == nil {
		return
	}
	d.root = d.Structure(n, "", reflect.ValueOf(d.config).Elem())
	for _, v := range variables {
		if v.secret() && d.root.Given[v.key] != nil {
			d.root.Complain(v.key, "is a secret and does not belong in this file; give %s or %[1]s_FILE", envName(v.key))
		}
	}
}

// applyEnviron sets the fields that the environment gives.
func (d *reader) applyEnviron() {
	for _, v := range variables {
		s, found := d.given[v.key]
		if !found {
			continue
		}
		set := func(field reflect.Value, text string) bool {
			problem := d.Set(field, v.tag, strings.TrimSpace(text))
			if problem != "" {
				d.Errs.Add(s.where, "%s", problem)
			}
			return problem == ""
		}
		field := v.in(d.config)
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

// where returns where a setting is given: its variable, or its line of the file.
func (d *reader) where(key string) string {
	s, found := d.given[key]
	switch {
	case found:
		return s.where
	case d.root.Given[key] != nil:
		return d.root.Of(key)
	}
	return envName(key)
}
