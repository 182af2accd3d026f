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

	"sendcode/internal/config/document"

	"go.yaml.in/yaml/v3"
)

const prefix = "SENDCODE_"

// testPrefix is left to the project's own tests; the server ignores it.
const testPrefix = prefix + "TEST_"

// variable is one setting that the environment may give.
type variable struct {
	key    string // its path in the file
	kind   string // plain, file (SENDCODE_…_FILE may name a file that holds the value) or list (separated by commas)
	secret bool   // only the environment may give it
}

// The variables that are no settings: one names the file, one has its text, and PORT, which
// platforms set, has no prefix.
const (
	keyFile = "config"
	keyText = "config_yaml"
	keyPort = "PORT"
)

var variables = append(variablesOf(reflect.TypeFor[Config](), ""), variable{key: keyFile, kind: "plain"},
	variable{key: keyText, kind: "plain"})

// variablesOf returns the variables that the tags env of a struct name, also in the structs within
// it.
func variablesOf(t reflect.Type, path string) (all []variable) {
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		at := strings.TrimPrefix(path+"."+name, ".")
		if kind, found := f.Tag.Lookup("env"); found {
			all = append(all, variable{at, kind, f.Type == reflect.TypeFor[Secret]()})
		} else if f.Type.Kind() == reflect.Struct && !document.IsScalar(f.Type) {
			all = append(all, variablesOf(f.Type, strings.TrimSuffix(at, "."))...)
		}
	}
	return all
}

// node returns a value as the file would give it.
func (d *source) node(v variable, s setting) *yaml.Node {
	n := &yaml.Node{}
	n.SetString(s.value)
	if v.kind == "list" {
		n = &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
		for text := range strings.SplitSeq(s.value, ",") {
			n.Content = append(n.Content, d.node(variable{}, setting{text, s.where}))
		}
	}
	d.Others[n] = s.where
	return n
}

// override sets a key of a mapping, or one in a mapping within it such as admin.token_role, to
// another node.
func override(n *yaml.Node, key string, value *yaml.Node) {
	if n.Kind != yaml.MappingNode {
		return // a mistake, which is found when it is decoded
	}
	key, inner, nested := strings.Cut(key, ".")
	if nested {
		_, outer := document.Entry(n, key)
		if outer == nil || document.IsNull(outer) {
			outer = &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
		}
		override(outer, inner, value)
		value = outer
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

// envName returns the name of a setting's variable.
func envName(key string) string { return prefix + shortName(key) }

func shortName(key string) string { return strings.ToUpper(strings.ReplaceAll(key, ".", "_")) }

// setting is a value with the place that it came from.
type setting struct {
	value, where string
}

// readEnviron returns the values of variables, and of the files that the variables …_FILE name, by
// key. Empty variables count as missing, because container tools pass them. White space around is
// trimmed, since editors end a file with a line break.
func (d *source) readEnviron() map[string]setting {
	d.reportUnknown()
	given := map[string]setting{}
	for _, v := range variables {
		s, problem := d.readSetting(envName(v.key), v.kind == "file")
		if problem == "" && v.key != keyText { // whose text is checked as a file is
			problem = problemWithValue(s.value)
		}
		if problem != "" {
			d.Errs.Add(s.where, "%s", problem)
		} else if s.value != "" {
			given[v.key] = s
		}
	}
	return given
}

// readSetting returns the value of the variable with this name or, with mayBeFile, of the file that
// the variable …_FILE names. value is "" if neither is given; then there is no problem.
func (d *source) readSetting(name string, mayBeFile bool) (s setting, problem string) {
	s = setting{strings.TrimSpace(d.environ[name]), name}
	path := strings.TrimSpace(d.environ[name+"_FILE"])
	switch {
	case path == "" || !mayBeFile:
		return s, ""
	case s.value != "":
		return s, "is given twice, also as " + name + "_FILE; keep one"
	}
	content, err := d.readFile(path)
	s = setting{strings.TrimSpace(string(content)), name + "_FILE"}
	switch {
	case err != nil:
		return s, document.Printable(path) + " cannot be read: " + reasonWithoutPath(err)
	case s.value == "":
		return s, document.Printable(path) + " is empty"
	}
	return s, ""
}

// problemWithValue returns why a text cannot be the value of a setting, without the text; "" if it
// can.
func problemWithValue(text string) string {
	switch {
	case len(text) > document.MaxValue:
		return "is longer than " + strconv.Itoa(document.MaxValue) + " bytes"
	case !utf8.ValidString(text):
		return "is not UTF-8 text"
	case strings.ContainsFunc(text, document.IsControl):
		return "contains a line break or another control character"
	}
	return ""
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
func (d *source) reportUnknown() {
	var known []string // without the prefix, which every name has in common
	for _, v := range variables {
		known = append(known, shortName(v.key))
		if v.kind == "file" {
			known = append(known, shortName(v.key)+"_FILE")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(d.environ)) {
		short, ours := strings.CutPrefix(name, prefix)
		if !ours || strings.HasPrefix(name, testPrefix) || slices.Contains(known, short) ||
			fromOrchestrator(name, d.environ[name]) {
			continue
		}
		meant := strings.Replace(document.DidYouMean(short, known), "mean ", "mean "+prefix, 1)
		if short == "PORT" || short == "HOST" || short == "LISTEN" {
			meant = ", did you mean SENDCODE_ADDR=host:port?"
		}
		d.Errs.Add(document.Printable(name), "there is no such variable%s", meant)
	}
}

// Kubernetes and Docker links tell every container about services near it. A service called
// "sendcode" or "sendcode-redis" thus sets variables that look like ours, and must not keep the
// program from starting (kubernetes.io, "Discovering services": {NAME}_SERVICE_HOST, and
// {NAME}_PORT=tcp://…).
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
