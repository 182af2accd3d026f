package config

import (
	"errors"
	"io/fs"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"sendcode/internal/base/document"

	"go.yaml.in/yaml/v3"
)

const envPrefix = "SENDCODE_"

// testEnvPrefix begins the variables of the project's own tests; the server ignores them.
const testEnvPrefix = envPrefix + "TEST_"

// envVariable is one setting that the environment may give.
type envVariable struct {
	key    string // in the file
	kind   string // plain, file (SENDCODE_…_FILE may name a file that holds the value) or list (separated by commas)
	secret bool   // only the environment may give it
}

// These variables are not settings. SENDCODE_CONFIG is the path of the settings' file.
// SENDCODE_CONFIG_YAML has the text of that file. Hosting platforms set PORT to the port on which
// the service should listen.
const (
	configFileKey = "config"
	configTextKey = "config_yaml"
	portVariable  = "PORT"
)

// envVariables are all SENDCODE_ variables that the service reads, without their …_FILE forms: the
// settings that the environment may give, SENDCODE_CONFIG and SENDCODE_CONFIG_YAML.
var envVariables = append(envVariablesOf(reflect.TypeFor[Config]()), envVariable{key: configFileKey, kind: "plain"},
	envVariable{key: configTextKey, kind: "plain"})

// envVariablesOf returns the variables that a struct and its embedded structs declare by the tag
// "env".
func envVariablesOf(t reflect.Type) (all []envVariable) {
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		if kind, found := f.Tag.Lookup("env"); found {
			all = append(all, envVariable{name, kind, f.Type == reflect.TypeFor[Secret]()})
		} else if f.Anonymous {
			all = append(all, envVariablesOf(f.Type)...)
		}
	}
	return all
}

// valueNode returns the YAML node of a variable's value, as if the value stood in the file.
func (ss *settingsSource) valueNode(v envVariable, s locatedValue) *yaml.Node {
	n := &yaml.Node{}
	n.SetString(s.value)
	if v.kind == "list" {
		n = &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
		for text := range strings.SplitSeq(s.value, ",") {
			n.Content = append(n.Content, ss.valueNode(envVariable{}, locatedValue{text, s.source}))
		}
	}
	ss.Sources[n] = s.source
	return n
}

func setEntry(n *yaml.Node, key string, value *yaml.Node) {
	if n.Kind != yaml.MappingNode {
		return // DecodeStruct reports this mistake
	}
	for i := 0; i < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			n.Content[i+1] = value
			return
		}
	}
	name := &yaml.Node{}
	name.SetString(key)
	n.Content = append(n.Content, name, value)
}

func envName(key string) string { return envPrefix + nameWithoutPrefix(key) }

func nameWithoutPrefix(key string) string { return strings.ToUpper(key) }

// locatedValue is a value and its source. The source is the name of a variable, or the place of a
// setting in the file. Messages about the value name the source.
type locatedValue struct {
	value, source string
}

// readEnviron returns the values that the environment gives, by key. A value is in a variable, or
// in the file that the variable …_FILE names. An empty variable counts as missing, because
// container tools set empty variables. readEnviron trims the values, since editors end a file with
// a line break.
func (ss *settingsSource) readEnviron() map[string]locatedValue {
	ss.reportUnknown()
	given := map[string]locatedValue{}
	for _, v := range envVariables {
		s, problem := ss.readVariable(envName(v.key), v.kind == "file")
		if problem == "" && v.key != configTextKey { // Parse checks this text like a file
			problem = problemWithValue(s.value)
		}
		if problem == "" && v.key != "admin_password" && v.key != configTextKey && isQuoted(s.value) {
			problem = "is in quotes, and here the quotes are part of the value, as in a file for docker --env-file: leave them out"
		}
		if problem != "" {
			ss.Errs.Add(s.source, "%s", problem)
		} else if s.value != "" {
			given[v.key] = s
		}
	}
	return given
}

// readVariable returns the value of the variable with this name. If mayBeFile is true, the variable
// …_FILE may instead name a file with the value. If neither variable is given, the value and
// problem are "".
func (ss *settingsSource) readVariable(name string, mayBeFile bool) (s locatedValue, problem string) {
	s = locatedValue{strings.TrimSpace(ss.environ[name]), name}
	path := strings.TrimSpace(ss.environ[name+"_FILE"])
	switch {
	case path == "" || !mayBeFile:
		return s, ""
	case s.value != "":
		return s, "is given twice, also as " + name + "_FILE; keep one"
	}
	return ss.readSecretFile(path, name+"_FILE")
}

// byteOrderMark begins a file of UTF-8 that some editors of Windows have saved.
const byteOrderMark = "\ufeff"

// readSecretFile returns the value in a file. source is the variable or the setting that names the
// file, for messages.
func (ss *settingsSource) readSecretFile(path, source string) (s locatedValue, problem string) {
	content, err := ss.readFile(path)
	s = locatedValue{strings.TrimSpace(strings.TrimPrefix(string(content), byteOrderMark)), source}
	switch {
	case err != nil:
		return s, document.PrintablePath(path) + " cannot be read: " + reasonWithoutPath(err)
	case s.value == "":
		return s, document.PrintablePath(path) + " is empty"
	case strings.HasPrefix(s.value, "\xff\xfe") || strings.HasPrefix(s.value, "\xfe\xff"):
		return s, document.PrintablePath(path) + " is UTF-16, as Windows PowerShell writes files; save it as UTF-8"
	}
	return s, ""
}

// problemWithValue returns the problem with the text of a setting, or "". The problem does not
// repeat the text.
func problemWithValue(text string) string {
	switch {
	case len(text) > document.MaxValueSize:
		return "is longer than " + strconv.Itoa(document.MaxValueSize) + " bytes"
	case !utf8.ValidString(text):
		return "is not UTF-8 text"
	case strings.ContainsFunc(text, document.IsControl):
		return "contains a line break or another control character"
	}
	return ""
}

// isQuoted reports whether a text begins and ends with the same quotes.
func isQuoted(text string) bool {
	return len(text) > 1 && strings.ContainsAny(text[:1], `"'`) && text[0] == text[len(text)-1]
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

// reportUnknown adds a mistake for each SENDCODE_ variable that the service does not know.
func (ss *settingsSource) reportUnknown() {
	var known []string // names without envPrefix, so that only the rest is compared
	for _, v := range envVariables {
		known = append(known, nameWithoutPrefix(v.key))
		if v.kind == "file" {
			known = append(known, nameWithoutPrefix(v.key)+"_FILE")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(ss.environ)) {
		short, ours := strings.CutPrefix(name, envPrefix)
		if !ours || strings.HasPrefix(name, testEnvPrefix) || slices.Contains(known, short) ||
			isSetByOrchestrator(name, ss.environ[name]) {
			continue
		}
		meant := strings.Replace(document.DidYouMean(short, known), "mean ", "mean "+envPrefix, 1)
		if short == "PORT" || short == "HOST" || short == "LISTEN" {
			meant = ", did you mean SENDCODE_ADDR=host:port?"
		}
		ss.Errs.Add(document.Printable(name), "there is no such variable%s", meant)
	}
}

// Kubernetes and Docker links set variables for the services near a container: {NAME}_SERVICE_HOST
// and {NAME}_PORT=tcp://… (kubernetes.io, "Discovering services"). If a service is called
// "sendcode" or "sendcode-redis", these variables begin with SENDCODE_. Unknown variables with this
// beginning stop the start, but these must not.
var (
	serviceNamePattern = regexp.MustCompile(`^SENDCODE_(\w+_)?SERVICE_(HOST|PORT(_\w+)?)$`)
	linkNamePattern    = regexp.MustCompile(`^SENDCODE_(\w+_)?PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?$`)
	linkURLNamePattern = regexp.MustCompile(`^SENDCODE_(\w+_)?PORT$`)
	linkURLPattern     = regexp.MustCompile(`^\s*(tcp|udp|sctp)://`)
)

// isSetByOrchestrator reports whether the variable is one that Kubernetes or Docker sets.
func isSetByOrchestrator(name, value string) bool {
	return serviceNamePattern.MatchString(name) || linkNamePattern.MatchString(name) ||
		linkURLNamePattern.MatchString(name) && linkURLPattern.MatchString(value)
}

// reasonWithoutPath returns the reason of a failed file operation, without the path.
func reasonWithoutPath(err error) string {
	if pathError, ok := errors.AsType[*fs.PathError](err); ok {
		return pathError.Err.Error()
	}
	return err.Error()
}
