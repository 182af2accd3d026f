package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxDocument bounds the YAML file, in bytes.
const maxDocument = 256 << 10

// document reads one YAML file by hand, node by node, because that keeps the line of every mistake and finds them all.
// Its methods note what is wrong and go on.
type document struct {
	name string // as the user gave it
	errs *Errors
}

// parse gives the root mapping, or nil when there is none to read: an empty file, or one that is not YAML.
func (d document) parse(content []byte) *yaml.Node {
	if len(content) > maxDocument {
		d.errs.add(d.name, "is larger than %d bytes", maxDocument)
		return nil
	}
	decoder := yaml.NewDecoder(bytes.NewReader(content))
	var root, second yaml.Node
	switch err := decoder.Decode(&root); {
	case errors.Is(err, io.EOF):
		return nil
	case err != nil:
		d.errs.add(d.name, "is not YAML: %s", plain(strings.TrimPrefix(err.Error(), "yaml: ")))
		return nil
	case len(root.Content) == 0 || isNull(root.Content[0]):
		return nil
	}
	if !errors.Is(decoder.Decode(&second), io.EOF) {
		d.errs.add(d.name, "holds more than one YAML document; keep one")
	}
	return root.Content[0]
}

func (d document) where(n *yaml.Node, path string) string {
	where := fmt.Sprintf("%s:%d", d.name, n.Line)
	if path != "" {
		where += ": " + path
	}
	return where
}

func (d document) mistake(n *yaml.Node, path, format string, args ...any) {
	d.errs.add(d.where(n, path), format, args...)
}

// entries calls yield for each key of a mapping, in the order of the file. Merge keys are refused like anchors, since a
// small file could grow without end through them.
func (d document) entries(n *yaml.Node, path string, yield func(key string, value *yaml.Node, path string)) {
	if !d.kind(n, path, yaml.MappingNode, "key: value pairs") {
		return
	}
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		at := join(path, k.Value)
		switch first, twice := seen[k.Value]; {
		case k.Kind != yaml.ScalarNode || k.Tag == "!!merge":
			d.mistake(k, path, "only plain words can be keys here")
		case twice:
			d.mistake(k, at, "is there twice, first in line %d", first)
		default:
			seen[k.Value] = k.Line
			yield(k.Value, v, at)
		}
	}
}

// fields is entries for a mapping whose keys are known. A key without a value counts as left out.
func (d document) fields(n *yaml.Node, path string, known map[string]func(v *yaml.Node, path string)) {
	d.entries(n, path, func(key string, v *yaml.Node, at string) {
		read := known[key]
		switch {
		case read == nil:
			d.mistake(v, at, "there is no such key%s", didYouMean(key, sortedKeys(known)))
		case !isNull(v):
			read(v, at)
		}
	})
}

// items calls yield for each element of a list.
func (d document) items(n *yaml.Node, path string, yield func(v *yaml.Node, path string)) {
	if !d.kind(n, path, yaml.SequenceNode, "a list") {
		return
	}
	for i, v := range n.Content {
		yield(v, fmt.Sprintf("%s[%d]", path, i))
	}
}

// text takes any single value as it is written, so that a name of digits or a hash like 1e10 needs no quotes.
func (d document) text(n *yaml.Node, path string) (string, bool) {
	if !d.kind(n, path, yaml.ScalarNode, "a single value") {
		return "", false
	}
	if len(n.Value) > maxValue || strings.ContainsFunc(n.Value, isControl) {
		d.mistake(n, path, "is too long, or contains a line break or another control character")
		return "", false
	}
	return strings.TrimSpace(n.Value), true
}

func (d document) kind(n *yaml.Node, path string, kind yaml.Kind, want string) bool {
	switch {
	case n.Kind == yaml.AliasNode:
		d.mistake(n, path, "anchors and aliases are not read here; write the value out")
	case n.Kind != kind || isNull(n):
		d.mistake(n, path, "must be %s", want)
	case !strings.HasPrefix(n.Tag, "!!") || n.Tag == "!!binary":
		d.mistake(n, path, "tags such as !x are not read here")
	default:
		return true
	}
	return false
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }

var plainKey = regexp.MustCompile(`^[\w-]{1,64}$`)

// join appends a key to a path, in quotes where it would not read as one word.
func join(path, key string) string {
	if !plainKey.MatchString(key) {
		key = plain(key)
	}
	if path == "" {
		return key
	}
	return path + "." + key
}

// plain shows something from outside in one short line.
func plain(s string) string {
	const most = 80
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	if strings.ContainsFunc(s, func(r rune) bool { return !strconv.IsPrint(r) }) || s == "" {
		return strconv.Quote(s)
	}
	return s
}

func sortedKeys[V any](m map[string]V) []string {
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
