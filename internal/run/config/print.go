package config

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"sendcode/internal/base/document"

	"go.yaml.in/yaml/v3"
)

const yamlHead = `# The effective configuration, as a file for SENDCODE_CONFIG would give it.
# Passwords in URLs are shown as ***; put them back before you use it as such a file.
`

// Example is a file with every setting, its meaning, and its default.
//
//go:embed example.yaml
var Example string

// maskingEncoder masks the passwords of URLs.
var maskingEncoder = document.Encoder{
	"database_url": maskURL, "redis_url": maskURL, "webhook_url": maskURL,
	"smtp_url": maskURLs,
}

// YAML returns the effective configuration for people. It masks passwords in URLs. For secrets it
// shows only whether they are set, and how many keys they contain. YAML also leaves out entries
// that name a single recipient; see yamlNode. If YAML masks nothing and leaves out no such entry,
// the result is a settings file with the same meaning.
func (c Config) YAML() string {
	var body strings.Builder
	out := yaml.NewEncoder(&body)
	out.SetIndent(2)
	if err := out.Encode(c.yamlNode()); err != nil { // an encoder of strings in memory does not fail
		return "# " + err.Error() + "\n"
	}
	return yamlHead + body.String() + c.secretsComment()
}

// yamlNode returns the configuration as YAML, with comments on the empty settings. No output may
// show a whole address, so yamlNode leaves out all test recipients, and each entry of the setting
// stop that names a single recipient, and shows only how many entries it left out. It also leaves
// out API keys from environment variables, since the settings file does not have these keys.
func (c Config) yamlNode() *yaml.Node {
	shown := c
	shown.Secrets, shown.TestRecipients, shown.Apps = Secrets{}, nil, slices.Clone(c.Apps)
	shown.Stops = slices.DeleteFunc(slices.Clone(c.Stops), func(s stop) bool { return !s.Recipient.IsZero() })
	for i, a := range c.Apps {
		shown.Apps[i].Keys = slices.DeleteFunc(slices.Clone(a.Keys), func(k appKey) bool {
			return k.ID == apiKeyID ||
				k.ID == publicKeyID
		})
	}
	hidden := map[string]int{"test_recipients": len(c.TestRecipients), "stop": len(c.Stops) - len(shown.Stops)}
	v := reflect.ValueOf(&shown).Elem()
	root := maskingEncoder.Encode(v)
	all, _ := document.FlattenedFields(v)
	for _, f := range all {
		_, value := document.FindEntry(root, f.Name)
		if value != nil && value.Kind == yaml.ScalarNode && value.Value == "" {
			value.LineComment = f.Tag.Get("unset")
		}
		if hidden[f.Name] > 0 {
			value.LineComment = strconv.Itoa(hidden[f.Name]) + " more, not shown"
		}
	}
	_, texts := document.FindEntry(root, "sms")
	switch _, carriers := document.FindEntry(texts, "carriers"); {
	case c.SMSToDevMailbox():
		carriers.LineComment = "the dev mailbox"
	case len(c.SMS.Carriers) == 0:
		carriers.LineComment = "none: there are no text messages"
	}
	return root
}

// Hash returns 12 hexadecimal digits, the same for the same settings with the same index key. The
// hash is an HMAC of YAML, without the comment on secrets. It leaves out addr, admin_addr and
// data_dir, since these settings differ between replicas. The HMAC's key is derived from the index
// key, so that nobody can test guessed settings against the hash without it.
func (c Config) Hash() string {
	shown := c
	shown.Addr, shown.AdminAddr, shown.DataDir = "", "", ""
	text, _, _ := strings.Cut(shown.YAML(), secretsIntro)
	key, err := hkdf.Key(sha256.New, c.IndexKeyBytes(), nil, "hash of settings", sha256.Size)
	if err != nil { // HKDF returns an error only for too large a length
		return ""
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(text))
	return hex.EncodeToString(mac.Sum(nil)[:6])
}

// Format prints YAML for every verb, so that a printed Config shows no secret.
func (c Config) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(c.YAML())) }

// LogValue keeps passwords of URLs out of slog.
func (c Config) LogValue() slog.Value { return slog.StringValue(c.YAML()) }

// MarshalText keeps passwords of URLs out of JSON.
func (c Config) MarshalText() ([]byte, error) { return []byte(c.YAML()), nil }

// secretsIntro begins the comment on secrets; Hash cuts there.
const secretsIntro = "# Secrets do not belong in a file of settings; they come from variables, or files that variables name:\n"

func (c Config) secretsComment() string {
	var b strings.Builder
	b.WriteString(secretsIntro)
	missing := c.missingSecrets()
	all, _ := document.FlattenedFields(reflect.ValueOf(&c.Secrets).Elem())
	for _, f := range all {
		secret, key := f.Value.Interface().(Secret), f.Name
		state := "not set"
		switch {
		case slices.ContainsFunc(missing, func(s storedSecret) bool { return s.key == key }):
			state = "generated once in data_dir"
		case secret.IsSet() && key == "secret_keys":
			state = "set, " + formatEntryCount(secret, "key")
		case secret.IsSet() && key == "webhook_secrets":
			state = "set, " + formatEntryCount(secret, "secret")
		case secret.IsSet():
			state = "set"
		}
		fmt.Fprintf(&b, "#   %s: %s\n", envName(key), state)
	}
	return b.String()
}

// formatEntryCount counts the entries of a list separated by commas: "2 keys".
func formatEntryCount(list Secret, noun string) string {
	n := strings.Count(list.Reveal(), ",") + 1
	if n != 1 {
		noun += "s"
	}
	return strconv.Itoa(n) + " " + noun
}

// Schema is the JSON Schema (2020-12) of the file. Editors use it to complete and check the file.
//
//go:embed schema.json
var Schema string
