package config

import (
	"encoding/base64"
	"maps"
	"reflect"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// Load builds the configuration from the environment ("NAME=value" entries), over the file that SENDCODE_CONFIG names,
// over the defaults. The error is an *Errors with everything that is wrong. Load opens no port and no
// connection; it reads the file, and those of the …_FILE variables, through readFile.
func Load(environ []string, readFile func(string) ([]byte, error)) (Config, error) {
	errs := &Errors{}
	given := fromEnviron(environ, readFile, errs)
	c := withDefaults[Config]()
	c.File = given[keyConfig].value
	d := &decoder{
		document: document{plain(c.File), errs}, config: &c, readFile: readFile, getenv: lookup(environ),
		settings: map[string]setting{}, hooks: map[string]*place{},
	}
	root := d.file(given[keyConfig])
	layers := layered(d.settings, given)
	c.readSettings(layers, errs)
	d.complete(root)
	d.completeWebhooks(layers)
	c.checkTogether(layers, root)
	if err := errs.orNil(); err != nil {
		return Config{}, err
	}
	if key := c.IndexKeyBytes(); key != nil {
		c.IndexKey = NewSecret(base64.StdEncoding.EncodeToString(key))
	}
	c.addAPIKey()
	c.warn(time.Now())
	return c, nil
}

// file reads the YAML file, if there is one.
func (d *decoder) file(from setting) *place {
	if from.value == "" {
		return &place{decoder: d}
	}
	content, err := d.readFile(from.value)
	var n *yaml.Node
	if err != nil {
		d.errs.add(from.where, "%s cannot be read: %s", plain(from.value), cause(err))
	} else {
		n = d.parse(content)
	}
	if n == nil {
		return &place{decoder: d}
	}
	return d.structure(n, "", reflect.ValueOf(d.config).Elem())
}

// layered lays the environment over the file and the file over the defaults.
func layered(file, environ map[string]setting) map[string]setting {
	effective := map[string]setting{}
	for _, v := range variables {
		effective[v.key] = setting{v.initial, envName(v.key)}
	}
	maps.Copy(effective, file)
	maps.Copy(effective, environ)
	return effective
}

// readSettings takes the variables into their fields.
func (c *Config) readSettings(from map[string]setting, errs *Errors) {
	for _, v := range variables {
		s, values := from[v.key], []string{from[v.key].value}
		if s.value == "" || v.key == keyConfig {
			continue
		}
		field := v.in(c)
		if v.list {
			field.SetZero()
			values = strings.Split(s.value, ",")
		}
		for _, text := range values {
			one := field
			if v.list {
				one = reflect.New(field.Type().Elem()).Elem()
			}
			if problem := set(one, v.tag, strings.TrimSpace(text)); problem != "" {
				errs.add(s.where, "%s", problem)
			} else if v.list {
				field.Set(reflect.Append(field, one))
			}
		}
	}
}
