package config

import (
	"encoding/base64"
	"maps"
	"time"
)

// Load builds the configuration from the environment ("NAME=value" entries), over the file that SENDCODE_CONFIG names,
// over the defaults. The error is an *Errors with everything that is wrong. Load opens no port and no
// connection; it reads the file, and those of the …_FILE variables, through readFile.
func Load(environ []string, readFile func(string) ([]byte, error)) (Config, error) {
	errs := &Errors{}
	given := fromEnviron(environ, readFile, errs)
	c := Config{Checks: defaultChecks(), Spellings: defaultSpellings(), Suppressions: Suppressions{defaultSuppression}, Retention: defaultRetention, RequestsPerMinute: defaultRequests, SMS: defaultSMS(), Admin: defaultAdmin()}
	sections := sections{config: &c, readFile: readFile, getenv: lookup(environ)}
	settings := map[string]setting{}
	if file, ok := given[keyConfig]; ok {
		c.File = file.value
		sections.document = document{plain(file.value), errs}
		if content, err := readFile(file.value); err != nil {
			errs.add(file.where, "%s cannot be read: %s", plain(file.value), cause(err))
		} else if root := sections.parse(content); root != nil {
			sections.read(root, settings)
		}
	}
	layers := layered(settings, given)
	c.readSettings(layers, errs)
	sections.complete()
	sections.completeWebhooks(layers)
	c.checkTogether(layers, &sections, errs)
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
