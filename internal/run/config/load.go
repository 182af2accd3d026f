package config

import (
	"reflect"
	"strconv"
	"strings"
	"time"

	"sendcode/internal/base/document"
	"sendcode/internal/base/message"

	"go.yaml.in/yaml/v3"
)

// Errors is everything that is wrong with a configuration.
type Errors = document.Errors

// Load builds the configuration. The environment overrides the file that SENDCODE_CONFIG names, and
// the file overrides the defaults. The entries of environ have the form "NAME=value". The error is
// a *document.Errors with all mistakes.
//
// Load opens no port and no connection. It reads these files through readFile: the configuration
// file, the files of …_FILE variables, the files of OAuth clients, and the file of disposable
// domains. The parsers of URLs read a URL's certificate files from the disk.
func Load(environ []string, readFile func(string) ([]byte, error)) (Config, error) {
	var c Config
	from := &settingsSource{readFile: readFile, environ: environMap(environ), hasFailuresRule: map[string]bool{}}
	from.Decoder = &document.Decoder{
		Errs: &document.Errors{}, Checks: checksByName, Sources: map[*yaml.Node]string{},
		Owner: from,
	}
	d := &loader{settingsSource: from, config: &c}
	given := d.readEnviron()
	file := d.parseFile(given[configFileKey], given[configTextKey])
	hasSettings := len(file.Content) > 0
	d.setAddrFromPort(file, given)
	for _, v := range envVariables {
		if key, _ := document.FindEntry(file, v.key); v.secret && key != nil {
			d.AddMistakeAt(key, v.key, "is a secret and does not belong in this file; give %s or %[1]s_FILE",
				envName(v.key))
			setEntry(file, v.key, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null"})
		}
		if s, found := given[v.key]; found && v.key != configFileKey && v.key != configTextKey {
			setEntry(file, v.key, d.valueNode(v, s))
		}
	}
	d.root = d.DecodeStruct(file, "", reflect.ValueOf(&c).Elem())
	c.File, c.fileText, c.fileSettings = given[configFileKey].value, d.fileText, hasSettings
	d.complete()
	d.checkCombinations()
	if err := d.Errs.OrNil(); err != nil {
		return Config{}, err
	}
	c.addAPIKey()
	c.addPublicKey()
	c.UpdateWarnings(time.Now())
	return c, nil
}

// loader is the state of one Load.
type loader struct {
	*settingsSource
	config   *Config
	root     *document.Mapping // the file's settings and the environment's
	fileText string            // becomes Config.fileText
}

// parseFile returns the root of the YAML file. Instead of a file, the variable SENDCODE_CONFIG_YAML
// may contain the YAML text. If neither is given, parseFile returns an empty mapping.
func (l *loader) parseFile(from, text locatedValue) *yaml.Node {
	l.Name = document.PrintablePath(from.value)
	switch {
	case from.value != "" && text.value != "":
		l.Errs.Add(text.source, "is given together with %s; keep one", from.source)
	case text.value != "":
		l.Name = text.source
		if n := l.Parse([]byte(l.environ[text.source])); n != nil { // untrimmed: YAML needs the first indent
			return n
		}
	case from.value != "":
		content, err := l.readFile(from.value)
		if err != nil {
			l.Errs.Add(from.source, "%s cannot be read: %s", l.Name, reasonWithoutPath(err))
			break
		}
		l.fileText = string(content)
		if n := l.Parse(content); n != nil {
			return n
		}
	}
	return &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
}

// setAddrFromPort sets addr to all interfaces at the port of the variable PORT, which platforms
// set. If addr is given, it does nothing.
func (l *loader) setAddrFromPort(file *yaml.Node, given map[string]locatedValue) {
	port := strings.TrimSpace(l.environ[portVariable])
	if _, inFile := document.FindEntry(file, "addr"); port == "" || given["addr"].value != "" ||
		inFile != nil && !document.IsNull(inFile) {
		return
	}
	if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
		l.Errs.Add(portVariable, "must be from 1 to 65535; or give SENDCODE_ADDR=host:port instead")
		return
	}
	setEntry(file, "addr", l.valueNode(envVariable{}, locatedValue{":" + port, portVariable}))
}

// locationOf returns where a setting is given, for messages: its line of the file, or its variable.
func (l *loader) locationOf(key string) string {
	if l.root.Given[key] != nil {
		return l.root.LocationOf(key)
	}
	return envName(key)
}

// checksByName are the checks that tags refer to by name. Each check returns the problem with a
// text, or "".
var checksByName = map[string]func(text string) string{
	"addr": checkAddr, "database_url": checkDatabaseURL, "redis_url": checkRedisURL, "smtp_url": checkSMTPURL,
	// An identifier without quotes. Reserved words match, too, since statements quote the name.
	"role": patternCheck(`^[a-z_][a-z0-9_]{0,62}$`,
		"must be the name of a database role: small letters, digits and _, at most 63"),
	"mail_from": checkMailFrom,
	"tenant":    patternCheck(`^[A-Za-z0-9][A-Za-z0-9.-]{0,252}$`, "must be the tenant's ID or domain"),
	"ring":      checkSecretKeys, "index_key": checkIndexKey, "api_key": checkDefaultAppKey, "public_key": checkPublicKey,
	"origins": checkOrigins, "webhook_secrets": checkWebhookSecrets,
	"password": checkAdminPassword, "password_hash": checkAdminPasswordHash,
	// A token opens the console, so it is long. It must fit into a header.
	"token": patternCheck(`^[A-Za-z0-9._~+/=-]{20,1000}$`,
		"must have at least 20 letters, digits or any of . _ ~ + / = - (RFC 6750)"),
	"webhook_url": checkWebhookURL,
	"policy":      checkPolicyName, "time_zone": checkTimeZone,
	"name":        checkName,
	"hook_action": checkHookAction,
	"title":       checkTitle, "language": checkLanguage, "origin": checkPageOrigin, "return_url": checkReturnURL,
	"test_code": checkTestCode,
	// The messages never repeat the value, because people paste the key where its hash belongs.
	"key_hash":   sha256Check("a key", "must be the 64 hexadecimal digits that `sendcode key` prints, not the key"),
	"token_hash": sha256Check("a token", "must be the 64 hexadecimal digits of the token's SHA-256, not the token"),
	"proxy":      networkCheck("would trust every client: each could choose the address that the rules count"),
	"callee":     networkCheck("would allow events to every machine that this one can reach; name networks"),
	"secure_url": checkSecureURL, "redirect_url": checkConsoleCallback,
	"oidc_value": func(text string) string {
		return problemIf(text == "", "must not be empty: an empty value gives no role")
	},
	"country": checkCountry, "sender": checkSender,
	"prefix": patternCheck(`^\+[0-9]+$`, "must be + and digits, as phone numbers begin"),
	"domain": func(text string) string {
		return problemIf(text != otherDomains && normalizeMailDomain(text) == "", document.Printable(text)+" is not a domain")
	},
	"country_or_default": func(text string) string { return problemIf(text != defaultName, checkCountry(text)) },
	"sms_hash":           patternCheck(`^[A-Za-z0-9+/]{11}$`, "must be 11 characters of base64"),
	"page_host":          checkPageHost, "public_url": checkPublicURL, "accent": message.AccentProblem, "logo": checkLogo,
	"home": checkHomeLink,
	// A watched prefix has at most a calling code and three more digits.
	"unwatched": patternCheck(`^\+([1-9][0-9]{0,5})?$`,
		`must be the beginning of numbers with its plus, of six digits at most, as in "+49151"`),
	// A name of a header field (RFC 9110 section 5.1) has letters, digits and hyphens. A name in
	// mails must begin with X-, so that mail programs give it no other meaning.
	"header":      patternCheck(`^[A-Za-z][A-Za-z0-9-]{0,63}$`, "is not the name of a header"),
	"mail_header": patternCheck(`^X-[A-Za-z0-9-]{1,62}$`, "must begin with X-"),
}
