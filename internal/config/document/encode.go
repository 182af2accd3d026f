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

func hidden(v reflect.Value) bool {
	h, ok := v.Addr().Interface().(Hider)
	return ok && h.Hidden()
}

// Encoder prints values, so that a Decoder reads them again, but for what its functions mask, which tags name.
type Encoder map[string]func(text string) string

// Value returns a field as YAML, in the style that its tags name.
func (e Encoder) Value(v reflect.Value, tag reflect.StructTag) *yaml.Node {
	n := &yaml.Node{}
	switch single := e.single(v, tag).(type) {
	case string:
		n.SetString(single)
	case nil:
		n = e.several(v, tag)
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

// several returns a struct, map or list as YAML.
func (e Encoder) several(v reflect.Value, tag reflect.StructTag) *yaml.Node {
	switch v.Kind() {
	case reflect.Struct:
		return e.Struct(v)
	case reflect.Map:
		n, inner := &yaml.Node{Kind: yaml.MappingNode}, reflect.StructTag("")
		if tag.Get("style") == "lists" {
			inner = `style:"items"`
		}
		keys := v.MapKeys()
		slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
		for _, key := range keys {
			put(n, key.String(), e.Value(addressable(v.MapIndex(key)), inner))
		}
		return n
	}
	return e.list(v, tag)
}

func addressable(v reflect.Value) reflect.Value {
	one := reflect.New(v.Type()).Elem()
	one.Set(v)
	return one
}

// Struct returns a struct as a YAML mapping.
func (e Encoder) Struct(v reflect.Value) *yaml.Node {
	n := &yaml.Node{Kind: yaml.MappingNode}
	all, _ := Fields(v)
	for _, f := range all {
		if !hidden(f.Value) && !(f.omit && f.Value.IsZero()) {
			put(n, f.Name, e.Value(f.Value, f.Tag))
		}
	}
	return n
}

func (e Encoder) list(v reflect.Value, tag reflect.StructTag) *yaml.Node {
	n, more := &yaml.Node{Kind: yaml.SequenceNode}, 0
	for i := range v.Len() {
		if hidden(v.Index(i)) {
			more++
			continue
		}
		n.Content = append(n.Content, e.Value(v.Index(i), ""))
	}
	if more > 0 && tag.Get("count") != "" {
		n.LineComment = strconv.Itoa(more) + " more, not shown"
	}
	return n
}

// put appends an entry to a mapping.
func put(n *yaml.Node, key string, value *yaml.Node) {
	name := &yaml.Node{}
	name.SetString(key)
	n.Content = append(n.Content, name, value)
}

// single returns a single value in the form that the decoder reads: a text, a number, or true or false; nil for a value of several.
func (e Encoder) single(v reflect.Value, tag reflect.StructTag) any {
	switch value := v.Interface().(type) {
	case time.Duration:
		return Short(value)
	case int64:
		return amountText(value)
	case [32]byte:
		return hex.EncodeToString(value[:])
	case time.Time:
		return value.Format(time.RFC3339)
	case *time.Location:
		return value.String()
	case slog.Level:
		return strings.ToLower(value.String())
	case encoding.TextMarshaler:
		if text, _ := value.MarshalText(); len(text) > 0 || Single(v.Type()) {
			return string(text)
		}
		return nil
	}
	switch mask := e[tag.Get("mask")]; {
	case mask != nil:
		return mask(v.String())
	case v.Kind() == reflect.String:
		return v.String()
	case Single(v.Type()):
		return v.Interface()
	}
	return nil
}

// Short writes a duration in its largest whole unit: 1h, 10m, 60s.
func Short(d time.Duration) string {
	switch {
	case d >= time.Hour && d%time.Hour == 0:
		return strconv.Itoa(int(d/time.Hour)) + "h"
	case d > time.Minute && d%time.Minute == 0:
		return strconv.Itoa(int(d/time.Minute)) + "m"
	}
	return strconv.Itoa(int(d/time.Second)) + "s"
}
