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
	if s, ok := v.Addr().Interface().(Shaped); ok {
		return s.Encode(e)
	}
	n := &yaml.Node{}
	word, marshals := marshalled(v)
	switch {
	case Single(v.Type()) || marshals && word != "":
		e.scalar(n, v, tag)
	case v.Kind() == reflect.Struct:
		n = e.Struct(v)
	case v.Kind() == reflect.Map:
		n.Kind = yaml.MappingNode
		keys := v.MapKeys()
		slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
		for _, key := range keys {
			Put(n, key.String(), e.Value(addressable(v.MapIndex(key)), ""))
		}
	default:
		n = e.list(v, tag)
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
			Put(n, f.Name, e.Value(f.Value, f.Tag))
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

// Put appends an entry to a mapping.
func Put(n *yaml.Node, key string, value *yaml.Node) {
	name := &yaml.Node{}
	name.SetString(key)
	n.Content = append(n.Content, name, value)
}

func (e Encoder) scalar(n *yaml.Node, v reflect.Value, tag reflect.StructTag) {
	if _, marshals := marshalled(v); !marshals && (v.Kind() == reflect.Int || v.Kind() == reflect.Bool) {
		_ = n.Encode(v.Interface()) // numbers always encode
		return
	}
	n.SetString(e.text(v, tag))
}

func marshalled(v reflect.Value) (text string, ok bool) {
	m, ok := v.Addr().Interface().(encoding.TextMarshaler)
	if v.Kind() == reflect.Pointer {
		m, ok = v.Interface().(encoding.TextMarshaler)
	}
	if !ok || v.Kind() == reflect.Pointer && v.IsNil() {
		return "", ok
	}
	b, _ := m.MarshalText()
	return string(b), true
}

// text returns a single value in the form that the decoder reads.
func (e Encoder) text(v reflect.Value, tag reflect.StructTag) string {
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
	}
	text, marshals := marshalled(v)
	switch {
	case tag.Get("mask") != "":
		return e[tag.Get("mask")](v.String())
	case marshals:
		return text
	}
	return v.String()
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
