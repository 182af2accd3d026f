package document

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// MaxSize and MaxValueSize bound the YAML file and one value, in bytes. A key ring with some
// hundred keys fits into a value.
const (
	MaxSize      = 256 << 10
	MaxValueSize = 64 << 10
)

// Parse returns the root of a YAML file, or nil if the file is empty. If it can't parse the file,
// it records a mistake and returns nil.
func (d *Decoder) Parse(content []byte) *yaml.Node {
	if len(content) > MaxSize {
		d.Errs.Add(d.Name, "is larger than %d bytes", MaxSize)
		return nil
	}
	file := yaml.NewDecoder(bytes.NewReader(content))
	var root, second yaml.Node
	switch err := file.Decode(&root); {
	case errors.Is(err, io.EOF):
		return nil
	case err != nil:
		detail := ": " + strings.TrimPrefix(err.Error(), "yaml: ")
		// The parser reports the line in which it noticed the mistake. The mistake itself may be in
		// an earlier line.
		if line, ok := strings.CutPrefix(detail, ": line "); ok {
			detail = ", near line " + line
		}
		d.Errs.Add(d.Name, "is not YAML%s", Printable(detail))
		return nil
	case len(root.Content) == 0 || IsNull(root.Content[0]):
		return nil
	}
	if !errors.Is(file.Decode(&second), io.EOF) {
		d.Errs.Add(d.Name, "contains several YAML documents; keep one")
	}
	return root.Content[0]
}

// location returns the file, the line and the path of a node, or the node's source if it isn't from
// the file.
func (d *Decoder) location(n *yaml.Node, path string) string {
	if other := d.Sources[n]; other != "" {
		return other
	}
	where := fmt.Sprintf("%s:%d", d.Name, n.Line)
	if path != "" {
		where += ": " + path
	}
	return where
}

func (d *Decoder) AddMistakeAt(n *yaml.Node, path, format string, args ...any) {
	d.Errs.Add(d.location(n, path), format, args...)
}

// eachEntry walks a mapping in the order of the file. Duplicate keys, aliases and merge keys are
// mistakes: with aliases a small file could become huge.
func (d *Decoder) eachEntry(n *yaml.Node, path string, yield func(key string, value *yaml.Node, path string)) {
	if !d.checkKind(n, path, yaml.MappingNode, "key: value pairs") {
		return
	}
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		at := JoinPath(path, k.Value)
		switch first, twice := seen[k.Value]; {
		case k.Kind != yaml.ScalarNode || k.Tag == "!!merge":
			d.AddMistakeAt(k, path, "a key must be a plain word")
		case twice:
			d.AddMistakeAt(k, at, "is given twice, first in line %d", first)
		default:
			seen[k.Value] = k.Line
			yield(k.Value, v, at)
		}
	}
}

func (d *Decoder) eachItem(n *yaml.Node, path string, yield func(v *yaml.Node, path string)) {
	if !d.checkKind(n, path, yaml.SequenceNode, "a list") {
		return
	}
	for i, v := range n.Content {
		yield(v, fmt.Sprintf("%s[%d]", path, i))
	}
}

// scalar returns a single value as text, without the spaces around it. YAML's types don't matter,
// so a name of digits, or a hash such as 1e10, needs no quotes. For any other node, and for a text
// that is too long or has a control character, scalar adds a mistake and returns false.
func (d *Decoder) scalar(n *yaml.Node, path string) (string, bool) {
	if !d.checkKind(n, path, yaml.ScalarNode, "a single value") {
		return "", false
	}
	if len(n.Value) > MaxValueSize || strings.ContainsFunc(n.Value, IsControl) {
		d.AddMistakeAt(n, path, "is too long, or contains a line break or another control character")
		return "", false
	}
	return strings.TrimSpace(n.Value), true
}

// checkKind adds a mistake and returns false if a node is not of this kind or can't be decoded.
// want describes the kind for the message.
func (d *Decoder) checkKind(n *yaml.Node, path string, kind yaml.Kind, want string) bool {
	switch {
	case n.Kind == yaml.AliasNode:
		d.AddMistakeAt(n, path, "anchors and aliases are not supported; write the value out")
	case n.Kind != kind || IsNull(n):
		d.AddMistakeAt(n, path, "must be %s", want)
	case !strings.HasPrefix(n.Tag, "!!") || n.Tag == "!!binary":
		d.AddMistakeAt(n, path, "tags such as !x are not supported")
	default:
		return true
	}
	return false
}

// IsNull reports whether a node has no value, as in "key:".
func IsNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }

// FindEntry returns a key of a mapping and its value, or nil for both if the mapping lacks the key.
func FindEntry(n *yaml.Node, key string) (name, value *yaml.Node) {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i], n.Content[i+1]
		}
	}
	return nil, nil
}

func isEmptyScalar(n *yaml.Node) bool {
	return n.Kind == yaml.ScalarNode && strings.TrimSpace(n.Value) == ""
}

var plainKeyPattern = regexp.MustCompile(`^[\w-]{1,64}$`)

// JoinPath joins a path and a key with a dot. If the key isn't a plain word, Printable formats it.
func JoinPath(path, key string) string {
	if !plainKeyPattern.MatchString(key) {
		key = Printable(key)
	}
	if path == "" {
		return key
	}
	return path + "." + key
}

// Printable shortens a text from outside to 80 bytes, and quotes it as PrintablePath does.
func Printable(s string) string {
	const maxLength = 80
	if len(s) > maxLength {
		s = strings.ToValidUTF8(s[:maxLength], "") + "…"
	}
	return PrintablePath(s)
}

// PrintablePath quotes a path that is empty or contains characters that can't be printed, such as a
// line break. It does not shorten the path, because a person looks for the file.
func PrintablePath(s string) string {
	if strings.ContainsFunc(s, func(r rune) bool { return !strconv.IsPrint(r) }) || s == "" {
		return strconv.Quote(s)
	}
	return s
}

// IsControl reports whether r is a control character or a line break, in ASCII or Unicode.
func IsControl(r rune) bool {
	return r < ' ' || r == 0x7f || 0x80 <= r && r < 0xa0 || r == '\u2028' || r == '\u2029'
}
