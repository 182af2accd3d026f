package config

import (
	"encoding"
	"encoding/hex"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// hider is an element of a list that may be left out when it is printed.
type hider interface{ hidden() bool }

// encode prints what a field holds, by its tags, so that the decoder reads it again.
func encode(v reflect.Value, tag reflect.StructTag) *yaml.Node {
	if s, ok := v.Addr().Interface().(shaped); ok {
		return s.node()
	}
	n := &yaml.Node{}
	word, marshals := marshalled(v)
	switch {
	case leaf(v.Type()) || marshals && word != "":
		scalar(n, v, tag)
	case v.Kind() == reflect.Struct:
		n = encodeStruct(v)
	case v.Kind() == reflect.Map:
		n.Kind = yaml.MappingNode
		keys := v.MapKeys()
		slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
		for _, key := range keys {
			put(n, key.String(), encode(addressable(v.MapIndex(key)), ""))
		}
	default:
		n = encodeList(v, tag)
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

func encodeStruct(v reflect.Value) *yaml.Node {
	n := &yaml.Node{Kind: yaml.MappingNode}
	all, _ := fieldsOf(v)
	for _, f := range all {
		if f.value.Type() != reflect.TypeFor[Secret]() && !(f.omit && f.value.IsZero()) {
			put(n, f.name, encode(f.value, f.tag))
		}
	}
	return n
}

func encodeList(v reflect.Value, tag reflect.StructTag) *yaml.Node {
	n, more := &yaml.Node{Kind: yaml.SequenceNode}, 0
	for i := range v.Len() {
		if h, ok := v.Index(i).Addr().Interface().(hider); ok && h.hidden() {
			more++
			continue
		}
		n.Content = append(n.Content, encode(v.Index(i), ""))
	}
	if more > 0 && tag.Get("count") != "" {
		n.LineComment = strconv.Itoa(more) + " more, not shown"
	}
	return n
}

func put(n *yaml.Node, key string, value *yaml.Node) {
	name := &yaml.Node{}
	name.SetString(key)
	n.Content = append(n.Content, name, value)
}

func scalar(n *yaml.Node, v reflect.Value, tag reflect.StructTag) {
	if _, marshals := marshalled(v); !marshals && (v.Kind() == reflect.Int || v.Kind() == reflect.Bool) {
		_ = n.Encode(v.Interface()) // numbers always encode
		return
	}
	n.SetString(textOf(v, tag))
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

// textOf is a single value as the decoder reads it, passwords of URLs left out.
func textOf(v reflect.Value, tag reflect.StructTag) string {
	switch value := v.Interface().(type) {
	case time.Duration:
		return short(value)
	case int64:
		return amountText(value)
	case [32]byte:
		return hex.EncodeToString(value[:])
	case time.Time:
		return value.Format(time.RFC3339)
	case *time.Location:
		return value.String()
	}
	text, marshals := marshalled(v)
	switch {
	case tag.Get("mask") == "urls":
		return maskURLs(v.String())
	case tag.Get("mask") == "url":
		return maskURL(v.String())
	case tag.Get("check") == "level":
		return strings.ToLower(text)
	case marshals:
		return text
	}
	return v.String()
}

// short writes a duration in its largest whole unit: 1h, 10m, 60s.
func short(d time.Duration) string {
	switch {
	case d >= time.Hour && d%time.Hour == 0:
		return strconv.Itoa(int(d/time.Hour)) + "h"
	case d > time.Minute && d%time.Minute == 0:
		return strconv.Itoa(int(d/time.Minute)) + "m"
	}
	return strconv.Itoa(int(d/time.Second)) + "s"
}
