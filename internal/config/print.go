package config

import (
	_ "embed"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"sendcode/internal/config/document"

	"go.yaml.in/yaml/v3"
)

const printHead = `# The effective configuration, as a file for SENDCODE_CONFIG would give it.
# Passwords in URLs are shown as ***; put them back before you use it as such a file.
`

// Example is a file with every setting, what it means, and what holds by default.
//
//go:embed example.yaml
var Example string

// encoder has the masks that tags name.
var encoder = document.Encoder{"url": maskURL, "urls": maskURLs}

// YAML returns the effective configuration for people. Secrets are only counted, and URLs have no passwords. If no URL has a
// password, the result is a configuration file with the same meaning.
func (c Config) YAML() string {
	var body strings.Builder
	out := yaml.NewEncoder(&body)
	out.SetIndent(2)
	if err := out.Encode(c.yamlNode()); err != nil { // strings in memory: nothing can fail
		return "# " + err.Error() + "\n"
	}
	return printHead + body.String() + c.secretsComment()
}

// yamlNode returns the configuration as YAML, with comments on the empty settings.
func (c Config) yamlNode() *yaml.Node {
	v := reflect.ValueOf(&c).Elem()
	root := encoder.EncodeStruct(v)
	all, _ := document.Fields(v)
	for _, f := range all {
		if _, value := mappingEntry(root, f.Name); value != nil && value.Kind == yaml.ScalarNode && value.Value == "" {
			value.LineComment = f.Tag.Get("unset")
		}
	}
	_, texts := mappingEntry(root, "sms")
	switch _, carriers := mappingEntry(texts, "carriers"); {
	case c.SMSToDevMailbox():
		carriers.LineComment = "the dev mailbox"
	case len(c.SMS.Carriers) == 0:
		carriers.LineComment = "none: there are no text messages"
	}
	return root
}

// mappingEntry returns the name and the value of a key in a mapping; nil if it is not there.
func mappingEntry(n *yaml.Node, key string) (name, value *yaml.Node) {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i], n.Content[i+1]
		}
	}
	return nil, nil
}

// Format prints YAML by every verb, so that a Config that is printed shows no secret.
func (c Config) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(c.YAML())) }

// LogValue keeps passwords of URLs out of slog.
func (c Config) LogValue() slog.Value { return slog.StringValue(c.YAML()) }

// MarshalText keeps passwords of URLs out of JSON.
func (c Config) MarshalText() ([]byte, error) { return []byte(c.YAML()), nil }

// secretsComment returns a comment that says which secrets are set.
func (c Config) secretsComment() string {
	var b strings.Builder
	b.WriteString("# Secrets do not belong in a file of settings; they come from variables, or files that variables name:\n")
	missing := c.missingSecrets()
	for _, v := range variables {
		secret, ok := v.field(&c).Interface().(Secret)
		if !ok {
			continue
		}
		state := "not set"
		switch {
		case slices.ContainsFunc(missing, func(s storedSecret) bool { return s.key == v.key }):
			state = "generated once in data_dir"
		case secret.IsSet() && v.key == keySecretKeys:
			state = "set, " + countEntries(secret, "key")
		case secret.IsSet() && v.key == keyWebhookSecrets:
			state = "set, " + countEntries(secret, "secret")
		case secret.IsSet():
			state = "set"
		}
		fmt.Fprintf(&b, "#   %s: %s\n", envName(v.key), state)
	}
	return b.String()
}

// countEntries returns the number of entries in a list separated by commas, with the noun for them: "2 keys".
func countEntries(list Secret, noun string) string {
	n := strings.Count(list.Reveal(), ",") + 1
	if n != 1 {
		noun += "s"
	}
	return strconv.Itoa(n) + " " + noun
}
