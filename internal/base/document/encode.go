package document

import (
	"encoding"
	"encoding/hex"
	"log/slog"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// Encoder writes structs in the form that Decoder reads, and masks their secrets. Each function
// masks the fields whose tag `check` equals the function's key.
type Encoder map[string]func(text string) string

const maxLineWidth = 140 // bytes; a longer mapping or list is split into lines

// Encode puts each key of the struct on a line of its own.
func (e Encoder) Encode(v reflect.Value) *yaml.Node {
	n := e.encodeComposite(v)
	for i := 1; i < len(n.Content); i += 2 {
		for _, inner := range n.Content[i].Content {
			layOut(inner)
		}
		if !slices.ContainsFunc(n.Content[i].Content, isComposite) && n.Content[i].Kind == yaml.SequenceNode {
			layOut(n.Content[i])
		}
	}
	return n
}

func isComposite(n *yaml.Node) bool { return n.Kind != yaml.ScalarNode }

// layOut puts a mapping or a list on one line if it fits into maxLineWidth bytes. Otherwise layOut
// does the same with each element.
func layOut(n *yaml.Node) {
	if !isComposite(n) {
		return
	}
	n.Style = yaml.FlowStyle
	if line, err := yaml.Marshal(n); err != nil || len(line) > maxLineWidth {
		n.Style = 0
		for _, inner := range n.Content {
			layOut(inner)
		}
	}
}

func (e Encoder) encodeValue(v reflect.Value, tag reflect.StructTag) *yaml.Node {
	n := &yaml.Node{}
	switch single := e.encodeScalar(v, tag).(type) {
	case string:
		n.SetString(single)
	case nil:
		n = e.encodeComposite(v)
	default:
		_ = n.Encode(single) // numbers always encode
	}
	return n
}

func (e Encoder) encodeComposite(v reflect.Value) *yaml.Node {
	n := &yaml.Node{Kind: yaml.MappingNode}
	switch v.Kind() {
	case reflect.Struct:
		all, _ := FlattenedFields(v)
		for _, f := range all {
			if !(f.omit && f.Value.IsZero()) {
				appendEntry(n, f.Name, e.encodeValue(f.Value, f.Tag))
			}
		}
	case reflect.Map:
		keys := v.MapKeys()
		slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
		for _, key := range keys {
			element := reflect.New(v.Type().Elem()).Elem()
			element.Set(v.MapIndex(key))
			appendEntry(n, key.String(), e.encodeValue(element, ""))
		}
	default:
		n.Kind = yaml.SequenceNode
		for i := range v.Len() {
			n.Content = append(n.Content, e.encodeValue(v.Index(i), ""))
		}
	}
	return n
}

func appendEntry(n *yaml.Node, key string, value *yaml.Node) {
	name := &yaml.Node{}
	name.SetString(key)
	n.Content = append(n.Content, name, value)
}

// encodeScalar returns nil for a value that is encoded as a mapping or a list.
func (e Encoder) encodeScalar(v reflect.Value, tag reflect.StructTag) any {
	switch value := v.Interface().(type) {
	case time.Duration:
		return formatDuration(value)
	case int64:
		return formatAmount(value)
	case [32]byte:
		return hex.EncodeToString(value[:])
	case time.Time:
		return value.Format(time.RFC3339)
	case slog.Level:
		return strings.ToLower(value.String())
	case encoding.TextMarshaler:
		if text, _ := value.MarshalText(); len(text) > 0 || IsScalar(v.Type()) {
			return string(text)
		}
		return nil
	}
	switch mask := e[tag.Get("check")]; {
	case mask != nil:
		return mask(v.String())
	case v.Kind() == reflect.String:
		return v.String()
	case IsScalar(v.Type()):
		return v.Interface()
	}
	return nil
}

// formatDuration uses the largest unit in which the duration is a whole number, as in 1h or 10m,
// but writes one minute as 60s.
func formatDuration(d time.Duration) string {
	switch {
	case d >= time.Hour && d%time.Hour == 0:
		return strconv.Itoa(int(d/time.Hour)) + "h"
	case d > time.Minute && d%time.Minute == 0:
		return strconv.Itoa(int(d/time.Minute)) + "m"
	}
	return strconv.Itoa(int(d/time.Second)) + "s"
}
