package config

import (
	"errors"
	"io/fs"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"sendcode/internal/config/document"
)

const prefix = "SENDCODE_"

// testPrefix is left to the project's own tests; the server ignores it.
const testPrefix = prefix + "TEST_"

// The settings that are named outside of Config.
const (
	keyAddr              = "addr"
	keyAdminAddr         = "admin_addr"
	keySMTPURL           = "smtp_url"
	keySecretKeys        = "secret_keys"
	keyIndexKey          = "index_key"
	keyAPIKey            = "api_key"
	keyAdminPassword     = "admin_password"
	keyAdminPasswordHash = "admin_password_hash"
	keyWebhookSecrets    = "webhook_secrets"
	keyConfig            = "config"
)

// variable is one setting that the environment may give.
type variable struct {
	key   string
	index []int // of its field in Config
	tag   reflect.StructTag
}

var variables = variablesOf(reflect.TypeFor[Config](), nil)

// variablesOf returns the variables that the tags env of a struct name, also in the structs within it. A field of an inner struct has a
// name of its own in the environment.
func variablesOf(t reflect.Type, index []int) (all []variable) {
	for i := range t.NumField() {
		f, at := t.Field(i), append(index[:len(index):len(index)], i)
		env, found := f.Tag.Lookup("env")
		switch {
		case found:
			_, key, renamed := strings.Cut(env, " ")
			if !renamed {
				key, _, _ = strings.Cut(f.Tag.Get("yaml"), ",")
			}
			all = append(all, variable{key, at, f.Tag})
		case f.Type.Kind() == reflect.Struct && !document.IsScalar(f.Type):
			all = append(all, variablesOf(f.Type, at)...)
		}
	}
	return all
}

// field returns the field of c that the variable sets.
func (v variable) field(c *Config) reflect.Value {
	return reflect.ValueOf(c).Elem().FieldByIndex(v.index)
}

// kind returns plain, file (SENDCODE_…_FILE may name a file that holds the value) or list (separated by commas).
func (v variable) kind() string {
	kind, _, _ := strings.Cut(v.tag.Get("env"), " ")
	return kind
}

// isSecret reports whether only the environment may give the variable, so that the YAML file can be shared.
func (v variable) isSecret() bool {
	return reflect.TypeFor[Config]().FieldByIndex(v.index).Type == reflect.TypeFor[Secret]()
}

// envName returns the name of a setting's variable.
func envName(key string) string { return prefix + strings.ToUpper(key) }

// setting is a value with the place that it came from.
type setting struct {
	value, where string
}

// readEnviron stores the values of variables, and of the files that the variables …_FILE name. Empty variables count as missing, because
// container tools pass them. White space around is trimmed, since editors end a file with a line break.
func (d *loader) readEnviron() {
	d.reportUnknown()
	for _, v := range variables {
		d.Skip[v.key] = v.isSecret()
		s := d.readSetting(v)
		switch {
		case s.value == "":
		case len(s.value) > document.MaxValue: // no mistake repeats the value
			d.Errs.Add(s.where, "is longer than %d bytes", document.MaxValue)
		case !utf8.ValidString(s.value):
			d.Errs.Add(s.where, "is not UTF-8 text")
		case strings.ContainsFunc(s.value, document.IsControl):
			d.Errs.Add(s.where, "contains a line break or another control character")
		default:
			d.given[v.key], d.Skip[v.key] = s, true
		}
	}
}

// readSetting returns the value of one setting from its variable or its file; empty if neither is given, or with a mistake, which it adds.
func (d *loader) readSetting(v variable) setting {
	name := envName(v.key)
	value, path := strings.TrimSpace(d.environ[name]), strings.TrimSpace(d.environ[name+"_FILE"])
	if path == "" || v.kind() != "file" {
		return setting{value, name}
	}
	if value != "" {
		d.Errs.Add(name, "is given twice, also as %s_FILE; keep one", name)
		return setting{}
	}
	content, err := d.readFile(path)
	s := setting{strings.TrimSpace(string(content)), name + "_FILE"}
	switch {
	case err != nil:
		d.Errs.Add(s.where, "%s cannot be read: %s", document.Printable(path), reasonWithoutPath(err))
	case s.value == "":
		d.Errs.Add(s.where, "%s is empty", document.Printable(path))
	}
	return s
}

// environMap returns the variables by name. Of duplicates the last counts, as in os/exec.
func environMap(environ []string) map[string]string {
	all := map[string]string{}
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		all[name] = value
	}
	return all
}

// reportUnknown adds a mistake for each SENDCODE_ variable that is no setting.
func (d *loader) reportUnknown() {
	var known []string // without the prefix, which every name has in common
	for _, v := range variables {
		known = append(known, strings.ToUpper(v.key))
		if v.kind() == "file" {
			known = append(known, strings.ToUpper(v.key)+"_FILE")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(d.environ)) {
		short, ours := strings.CutPrefix(name, prefix)
		if !ours || strings.HasPrefix(name, testPrefix) || slices.Contains(known, short) || fromOrchestrator(name, d.environ[name]) {
			continue
		}
		meant := strings.Replace(document.DidYouMean(short, known), "mean ", "mean "+prefix, 1)
		if short == "PORT" || short == "HOST" || short == "LISTEN" {
			meant = ", did you mean SENDCODE_ADDR=host:port?"
		}
		d.Errs.Add(document.Printable(name), "there is no such variable%s", meant)
	}
}

// Kubernetes and Docker links tell every container about services near it. A service called "sendcode" or
// "sendcode-redis" thus sets variables that look like ours, and must not keep the program from starting
// (kubernetes.io, "Discovering services": {NAME}_SERVICE_HOST, and {NAME}_PORT=tcp://…).
var (
	serviceName = regexp.MustCompile(`^SENDCODE_(\w+_)?SERVICE_(HOST|PORT(_\w+)?)$`)
	linkName    = regexp.MustCompile(`^SENDCODE_(\w+_)?PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?$`)
	linkURLName = regexp.MustCompile(`^SENDCODE_(\w+_)?PORT$`)
	linkURL     = regexp.MustCompile(`^\s*(tcp|udp|sctp)://`)
)

// fromOrchestrator reports whether a container platform sets a variable of this name by itself.
func fromOrchestrator(name, value string) bool {
	return serviceName.MatchString(name) || linkName.MatchString(name) ||
		linkURLName.MatchString(name) && linkURL.MatchString(value)
}

// reasonWithoutPath returns the reason of a failed file operation, without the path.
func reasonWithoutPath(err error) string {
	if pathError, ok := errors.AsType[*fs.PathError](err); ok {
		return pathError.Err.Error()
	}
	return err.Error()
}
