package config

import (
	"encoding/hex"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"sendcode/quota"
)

const printHead = `# The effective configuration, as a file for SENDCODE_CONFIG would give it.
# Passwords in URLs are shown as ***; put them back before you use it as such a file.
`

// YAML is the effective configuration for people. Secrets are counted, not shown, and URLs have no passwords. Without
// passwords in URLs it is a valid configuration file that means the same.
func (c Config) YAML() string {
	var body strings.Builder
	encoder := yaml.NewEncoder(&body)
	encoder.SetIndent(2)
	if err := encoder.Encode(c.node()); err != nil { // strings in memory: nothing can fail
		return "# " + err.Error() + "\n"
	}
	return printHead + body.String() + c.secretsComment()
}

// String is YAML, so that a Config that is printed shows no secret.
func (c Config) String() string { return c.YAML() }

// Format covers the verbs that would walk the fields.
func (c Config) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(c.YAML())) }

// LogValue keeps passwords of URLs out of slog.
func (c Config) LogValue() slog.Value { return slog.StringValue(c.YAML()) }

// MarshalText keeps passwords of URLs out of JSON.
func (c Config) MarshalText() ([]byte, error) { return []byte(c.YAML()), nil }

func (c Config) node() *yaml.Node {
	root := mapping()
	for _, v := range variables {
		if v.inFile && !v.list {
			value := c.shown(v.key)
			n := text(value)
			if value == "" {
				n.LineComment = v.meaning
			}
			put(root, v.key, n)
		}
	}
	templates := text(c.Templates)
	if c.Templates == "" {
		templates.LineComment = "the built-in ones"
	}
	put(root, "templates", templates)
	put(root, "policies", c.policiesNode())
	put(root, "purposes", c.purposesNode())
	put(root, "apps", c.appsNode())
	put(root, "trusted_proxies", networksNode(c.TrustedProxies))
	put(root, "checks", flow(mapping("network", boundNode(c.Checks.Network), "wide_network", boundNode(c.Checks.WideNetwork), "app", boundNode(c.Checks.App))))
	put(root, "breaker", boundNode(c.Breaker))
	put(root, "spellings", boundNode(c.Spellings))
	put(root, "test_recipients", unshown(sequence(), len(c.TestRecipients)))
	put(root, "block", c.blockNode())
	put(root, "paused", c.pausedNode())
	put(root, "suppressions", flow(mapping("for", text(short(c.Suppressions.For)))))
	put(root, "retention", text(short(c.Retention)))
	put(root, "requests_per_minute", number(c.RequestsPerMinute))
	put(root, "provider_events", c.providersNode())
	put(root, "disposable_domains", text(c.DisposableFile))
	put(root, "folding", c.foldingNode())
	put(root, "sms", c.smsNode())
	put(root, "webhooks", flow(mapping("allow", networksNode(c.WebhooksAllow))))
	put(root, "page", c.pageNode())
	put(root, "admin", c.adminNode())
	return root
}

func networksNode(networks []netip.Prefix) *yaml.Node {
	all := flow(sequence())
	for _, n := range networks {
		all.Content = append(all.Content, text(n.String()))
	}
	return all
}

func (c Config) shown(key string) string {
	switch key {
	case keyAddr:
		return c.Addr
	case keyAdminAddr:
		return c.AdminAddr
	case keyDataDir:
		return c.DataDir
	case keyDatabaseURL:
		return maskURL(c.DatabaseURL)
	case keyDatabaseRole:
		return c.DatabaseRole
	case keyRedisURL:
		return maskURL(c.RedisURL)
	case keySMTPURL:
		return maskURLs(c.SMTPURL)
	case keyMailFrom:
		return c.MailFrom
	case keyDKIMSelector:
		return c.DKIMSelector
	case keyAdminTokenRole:
		return c.Admin.TokenRole
	case keyLogLevel:
		return strings.ToLower(c.LogLevel.String())
	}
	return ""
}

func (c Config) policiesNode() *yaml.Node {
	all := mapping()
	for _, name := range sortedKeys(c.Policies) {
		rules := sequence()
		for _, r := range c.Policies[name].Rules {
			rules.Content = append(rules.Content, ruleNode(r))
		}
		put(all, name, rules)
	}
	return all
}

func ruleNode(r quota.Rule) *yaml.Node {
	rule := mapping("name", text(r.Name), "scope", text(string(r.Scope.Base())), "limit", number(r.Limit))
	if r.Calendar() {
		put(rule, "per", text(string(r.Per)))
		put(rule, "time_zone", text(r.Zone.String()))
	} else {
		put(rule, "window", text(short(r.Window)))
	}
	if r.Scope.Browsers() {
		put(rule, "callers", text(browsers))
	}
	if r.Observe {
		put(rule, "mode", text(observe))
	}
	return flow(rule)
}

func (c Config) purposesNode() *yaml.Node {
	all := mapping()
	for _, name := range sortedKeys(c.Purposes) {
		p := c.Purposes[name]
		code := mapping("length", number(p.Code.Length), "alphabet", text(p.Code.Alphabet))
		put(all, name, flow(mapping("policy", text(p.Policy), "ttl", text(short(p.TTL)), "code", code, "notify", text(string(p.Notify)))))
	}
	return all
}

// appsNode leaves out the key of SENDCODE_API_KEY: it is not of the file.
func (c Config) appsNode() *yaml.Node {
	all := sequence()
	for _, a := range c.Apps {
		keys := sequence()
		for _, k := range a.Keys {
			if k.ID != apiKeyID {
				hash := text(hex.EncodeToString(k.SHA256[:]))
				key := mapping("id", text(k.ID), "kind", text(string(k.Kind)), "sha256", hash)
				if !k.Expires.IsZero() {
					put(key, "expires", text(k.Expires.Format(time.RFC3339)))
				}
				if len(k.Scopes) > 0 {
					put(key, "scopes", texts(k.Scopes))
				}
				keys.Content = append(keys.Content, key)
			}
		}
		all.Content = append(all.Content, flow(mapping("name", text(a.Name), "title", text(a.Title), "origins", texts(a.Origins), "keys", keys, "webhook", webhookNode(a.Webhook))))
	}
	return all
}

// secretsComment says of each secret whether it is there.
func (c Config) secretsComment() string {
	var b strings.Builder
	b.WriteString("# Secrets do not belong in a file of settings; they come from variables, or files that variables name:\n")
	missing := c.missingSecrets()
	for _, key := range []string{keySecretKeys, keyIndexKey, keyAPIKey, keyAdminPassword, keyAdminPasswordHash, keyAdminToken, keyMetricsToken, keyOIDCSecret, keyWebhookSecrets} {
		state := "not set"
		switch {
		case slices.Contains(missing, key):
			state = "generated once in data_dir"
		case key == keySecretKeys:
			state = "set, " + count(strings.Count(c.SecretKeys.Reveal(), ",")+1, "key")
		case key == keyWebhookSecrets && c.WebhookSecrets.IsSet():
			state = "set, " + count(strings.Count(c.WebhookSecrets.Reveal(), ",")+1, "secret")
		case c.secret(key).IsSet():
			state = "set"
		}
		fmt.Fprintf(&b, "#   %s: %s\n", envName(key), state)
	}
	return b.String()
}

func count(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return strconv.Itoa(n) + " " + noun
}

// short writes a duration in its largest whole unit: 1h, 10m, 60s.
func short(d time.Duration) string {
	switch {
	case d >= time.Hour && d%time.Hour == 0:
		return strconv.Itoa(int(d/time.Hour)) + "h"
	case d > time.Minute && d%time.Minute == 0:
		return strconv.Itoa(int(d/time.Minute)) + "m"
	}
	return strconv.Itoa(int(d/time.Second)) + "s"
}

// blockNode leaves addresses out: no output shows a whole one.
func (c Config) blockNode() *yaml.Node {
	all, addresses := flow(sequence()), 0
	for _, b := range c.Blocks {
		switch {
		case b.Domain != "":
			all.Content = append(all.Content, mapping("domain", text(b.Domain), "reason", text(b.Reason)))
		case b.Prefix != "":
			all.Content = append(all.Content, mapping("prefix", text(b.Prefix), "reason", text(b.Reason)))
		default:
			addresses++
		}
	}
	return unshown(all, addresses)
}

func (c Config) foldingNode() *yaml.Node {
	all := flow(sequence())
	for _, domain := range sortedKeys(c.Folding) {
		fold := c.Folding[domain]
		all.Content = append(all.Content, mapping("domain", text(domain), "plus_tags", truth(fold.PlusTags), "dots", truth(fold.Dots)))
	}
	return all
}

// unshown says how many entries there are beside those shown.
func unshown(n *yaml.Node, count int) *yaml.Node {
	if count > 0 {
		n.LineComment = strconv.Itoa(count) + " more, not shown"
	}
	return n
}
