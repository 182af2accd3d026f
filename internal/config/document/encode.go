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

// Hider is a value that may be left out when it is printed.
type Hider interface{ Hidden() bool }

func isHidden(v reflect.Value) bool {
	h, ok := v.Addr().Interface().(Hider)
	return ok && h.Hidden()
}

// Encoder encodes structs as a Decoder reads them. It holds the functions that mask secrets, by the name in the tag mask.
type Encoder map[string]func(text string) string

// EncodeValue returns a field as YAML, in the style that its tags name.
func (e Encoder) EncodeValue(v reflect.Value, tag reflect.StructTag) *yaml.Node {
	n := &yaml.Node{}
	switch single := e.encodeScalar(v, tag).(type) {
	case string:
		n.SetString(single)
	case nil:
		n = e.encodeComposite(v, tag)
	default:
		_ = n.Encode(single) // numbers always encode
	}
	switch tag.Get("style") {
	case "flow":
		n.Style = yaml.FlowStyle
	case "items":
		for _, item := range n.Content {
			if item.Kind != yaml.ScalarNode {
				item.Style = yaml.FlowStyle
			}
		}
	}
	return n
}

// encodeComposite returns a struct, map or list as YAML.
func (e Encoder) encodeComposite(v reflect.Value, tag reflect.StructTag) *yaml.Node {
	switch v.Kind() {
	case reflect.Struct:
		return e.EncodeStruct(v)
	case reflect.Map:
		n, inner := &yaml.Node{Kind: yaml.MappingNode}, reflect.StructTag("")
		if tag.Get("style") == "lists" {
			inner = `style:"items"`
		}
		keys := v.MapKeys()
		slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
		for _, key := range keys {
			appendEntry(n, key.String(), e.EncodeValue(addressable(v.MapIndex(key)), inner))
		}
		return n
	}
	return e.encodeList(v, tag)
}

func addressable(v reflect.Value) reflect.Value {
	one := reflect.New(v.Type()).Elem()
	one.Set(v)
	return one
}

// EncodeStruct returns a struct as a YAML mapping.
func (e Encoder) EncodeStruct(v reflect.Value) *yaml.Node {
	n := &yaml.Node{Kind: yaml.MappingNode}
	all, _ := Fields(v)
	for _, f := range all {
		if !isHidden(f.Value) && !(f.omit && f.Value.IsZero()) {
			appendEntry(n, f.Name, e.EncodeValue(f.Value, f.Tag))
		}
	}
	return n
}

func (e Encoder) encodeList(v reflect.Value, tag reflect.StructTag) *yaml.Node {
	n, more := &yaml.Node{Kind: yaml.SequenceNode}, 0
	for i := range v.Len() {
		if isHidden(v.Index(i)) {
			more++
			continue
		}
		n.Content = append(n.Content, e.EncodeValue(v.Index(i), ""))
	}
	if more > 0 && tag.Get("count") != "" {
		n.LineComment = strconv.Itoa(more) + " more, not shown"
	}
	return n
}

// appendEntry appends an entry to a mapping.
func appendEntry(n *yaml.Node, key string, value *yaml.Node) {
	name := &yaml.Node{}
	name.SetString(key)
	n.Content = append(n.Content, name, value)
}

// encodeScalar returns a single value in the form that the decoder reads: a text, a number, or true or false; nil for a struct, map or
// list.
func (e Encoder) encodeScalar(v reflect.Value, tag reflect.StructTag) any {
	switch value := v.Interface().(type) {
	case time.Duration:
		return FormatDuration(value)
	case int64:
		return formatAmount(value)
	case [32]byte:
		return hex.EncodeToString(value[:])
	case time.Time:
		return value.Format(time.RFC3339)
	case *time.Location:
		return value.String()
	case slog.Level:
		return strings.ToLower(value.String())
	case encoding.TextMarshaler:
		if text, _ := value.MarshalText(); len(text) > 0 || IsScalar(v.Type()) {
			return string(text)
		}
		return nil
	}
	switch mask := e[tag.Get("mask")]; {
	case mask != nil:
		return mask(v.String())
	case v.Kind() == reflect.String:
		return v.String()
	case IsScalar(v.Type()):
		return v.Interface()
	}
	return nil
}

// FormatDuration writes a duration in its largest whole unit: 1h, 10m, 60s.
func FormatDuration(d time.Duration) string {
	switch {
	case d >= time.Hour && d%time.Hour == 0:
		return strconv.Itoa(int(d/time.Hour)) + "h"
	case d > time.Minute && d%time.Minute == 0:
		return strconv.Itoa(int(d/time.Minute)) + "m"
	}
	return strconv.Itoa(int(d/time.Second)) + "s"
}
