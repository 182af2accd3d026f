// Package document reads YAML into structs and prints structs as YAML, both by the tags of their
// fields. It does not know what the settings mean: package internal/run/config declares them, and
// the checks to which the tags refer.
//
// yaml.Unmarshal is not enough. It stops at the first mistake, and a check that runs after a
// mapping has been decoded has no line numbers. A JSON Schema (santhosh-tekuri/jsonschema) was
// tried, too. For line numbers, suggestions, defaults and readable messages it needed as much code
// as this package has.
package document

import (
	"encoding"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Decoder reads a file into a struct, node by node, and finds every mistake with its line. Its
// methods record a mistake and go on. The tags of a field:
//
//	yaml      its key; ",inline" and ",omitempty" as in package yaml
//	default   its default value, in YAML
//	required  the file must have the key
//	check     the name of a check in Checks; keys: the same, for the keys of a mapping
//	oneof     the allowed words
//	range     the least and the largest value; words after them are part of the message, and ", or 0" in them admits zero
//	unique    the list must have no duplicates: yes, or the key by which its mappings must differ
//
// A field with a single value keeps its default if the value in the file is empty. A list of one
// scalar needs no brackets.
type Decoder struct {
	Name    string // the name of the file, as the user gave it
	Errs    *Errors
	Checks  map[string]func(text string) string // by name; each returns the problem with a text, or ""
	Sources map[*yaml.Node]string               // the source of a node that is not from the file, such as the name of a variable
	Owner   any                                 // for Check methods that need more than the file
}

// Mapping is a mapping in the file, decoded into a struct. It is the argument of the struct's
// method Check.
type Mapping struct {
	*Decoder
	Node     *yaml.Node
	Path     string
	Given    map[string]*yaml.Node // the values, by key
	Faulty   map[string]bool       // keys with a mistake
	Children map[string][]*Mapping // the decoded mappings under each key: one, or one for each element of a list; none of a Go map
	before   int                   // the number of mistakes found in the file before this mapping
}

// checker checks the fields of a struct together after they were decoded. Check may also set fields
// that follow from others.
type checker interface{ Check(p *Mapping) }

// preparer reads the mapping before the fields are decoded. If Prepare returns false, they aren't
// decoded.
type preparer interface{ Prepare(p *Mapping) bool }

// Valid reports whether decoding the mapping has found no mistake. It is for Prepare and Check:
// later mistakes elsewhere in the file count, too.
func (m *Mapping) Valid() bool { return len(m.Errs.Mistakes) == m.before }

// nodeAtOrSelf returns the node and path of a key or, if the key isn't given, of the mapping.
func (m *Mapping) nodeAtOrSelf(key string) (*yaml.Node, string) {
	if n := m.Given[key]; n != nil {
		return n, JoinPath(m.Path, key)
	}
	return m.Node, m.Path
}

// AddMistake adds a mistake at a key, or at the mapping if the key isn't given. It adds none if
// decoding the key's value has found one.
func (m *Mapping) AddMistake(key, format string, args ...any) {
	if !m.Faulty[key] && m.Node != nil && (m.Node.Kind == yaml.MappingNode || IsNull(m.Node)) {
		n, path := m.nodeAtOrSelf(key)
		m.AddMistakeAt(n, path, format, args...)
	}
}

// LocationOf returns the file, the line and the path of a key, or of the mapping if the key isn't
// given.
func (m *Mapping) LocationOf(key string) string { return m.location(m.nodeAtOrSelf(key)) }

// Field is a struct's field with a key in the file.
type Field struct {
	Name  string
	Tag   reflect.StructTag
	Value reflect.Value
	omit  bool
}

// FlattenedFields returns the fields of a struct and of the structs that it inlines. parts are the
// struct itself and the inlined structs.
func FlattenedFields(v reflect.Value) (all []Field, parts []reflect.Value) {
	parts = append(parts, v)
	for i := range v.NumField() {
		f, value := v.Type().Field(i), v.Field(i)
		name, option, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		switch {
		case option == "inline":
			for value.Kind() == reflect.Interface || value.Kind() == reflect.Pointer {
				value = value.Elem()
			}
			if value.IsValid() {
				more, inner := FlattenedFields(value)
				all, parts = append(all, more...), append(parts, inner...)
			}
		case name != "" && name != "-":
			all = append(all, Field{name, f.Tag, value, option == "omitempty"})
		}
	}
	return all, parts
}

func setDefaults(v reflect.Value) {
	all, _ := FlattenedFields(v)
	for _, f := range all {
		var n yaml.Node
		if text, ok := f.Tag.Lookup("default"); ok && yaml.Unmarshal([]byte(text), &n) == nil {
			(&Decoder{Errs: &Errors{}}).decodeValue(n.Content[0], "", f.Value, f.Tag)
		} else if f.Value.Kind() == reflect.Struct && !IsScalar(f.Value.Type()) {
			setDefaults(f.Value)
		}
	}
}

// Defaults returns a T with the defaults of its tags.
func Defaults[T any]() (v T) {
	setDefaults(reflect.ValueOf(&v).Elem())
	return v
}

// DecodeStruct sets a struct to its defaults, decodes a mapping into it, and runs its checks. A
// null node is an empty mapping.
func (d *Decoder) DecodeStruct(n *yaml.Node, path string, v reflect.Value) *Mapping {
	p := &Mapping{d, n, path, map[string]*yaml.Node{}, map[string]bool{}, map[string][]*Mapping{}, len(d.Errs.Mistakes)}
	v.SetZero()
	if s, ok := v.Addr().Interface().(preparer); ok && !s.Prepare(p) {
		return p
	}
	setDefaults(v)
	all, parts := FlattenedFields(v)
	known := map[string]Field{}
	for _, f := range all {
		known[f.Name] = f
	}
	if !IsNull(n) {
		d.eachEntry(n, path, func(key string, n *yaml.Node, at string) {
			f, found := known[key]
			switch before := len(d.Errs.Mistakes); {
			case !found:
				suggestion := DidYouMean(key, slices.Sorted(maps.Keys(known)))
				d.AddMistakeAt(n, at, "there is no such key%s", suggestion)
			// Null counts as not given. So does an empty value, unless the field is a string.
			case IsNull(n) || isEmptyScalar(n) && IsScalar(f.Value.Type()) && f.Value.Kind() != reflect.String:
			default:
				p.Given[key] = n
				p.Children[key] = d.decodeValue(n, at, f.Value, f.Tag)
				p.Faulty[key] = len(d.Errs.Mistakes) > before
			}
		})
	}
	for _, f := range all {
		if n := p.Given[f.Name]; f.Tag.Get("required") != "" && (n == nil || isEmptyScalar(n)) {
			p.AddMistake("", "%s is missing", f.Name)
		}
	}
	for _, part := range slices.Backward(parts) {
		if c, ok := part.Addr().Interface().(checker); ok {
			c.Check(p)
		}
	}
	return p
}

// decodeValue decodes a node into v. It returns the mappings in the node, for Mapping.Children.
func (d *Decoder) decodeValue(n *yaml.Node, path string, v reflect.Value, tag reflect.StructTag) (mappings []*Mapping) {
	_, unmarshals := v.Addr().Interface().(encoding.TextUnmarshaler)
	switch {
	case IsScalar(v.Type()) || unmarshals && v.Kind() == reflect.Struct && n.Kind == yaml.ScalarNode:
		if text, ok := d.scalar(n, path); ok && text != "" {
			if problem := d.parseInto(v, tag, text); problem != "" {
				d.AddMistakeAt(n, path, "%s", problem)
			}
		}
	case v.Kind() == reflect.Struct && IsNull(n):
		d.checkKind(n, path, yaml.MappingNode, "key: value pairs")
		return []*Mapping{{Decoder: d}}
	case v.Kind() == reflect.Struct:
		return []*Mapping{d.DecodeStruct(n, path, v)}
	case v.Kind() == reflect.Map:
		d.decodeMap(n, path, v, tag)
	case n.Kind == yaml.ScalarNode && IsScalar(v.Type().Elem()):
		v.SetZero()
		d.decodeItem(n, path, v, tag)
	default:
		v.SetZero()
		d.eachItem(n, path, func(n *yaml.Node, path string) {
			mappings = append(mappings,
				d.decodeItem(n, path, v, tag)...)
		})
	}
	return mappings
}

// decodeItem appends an element to the list, unless it is a single value with a mistake. It returns
// the mappings in the element.
func (d *Decoder) decodeItem(n *yaml.Node, path string, list reflect.Value, tag reflect.StructTag) []*Mapping {
	before := len(d.Errs.Mistakes)
	element := reflect.New(list.Type().Elem()).Elem()
	if isEmptyScalar(n) {
		d.AddMistakeAt(n, path, "is empty; leave it out")
	}
	mappings := d.decodeValue(n, path, element, tag)
	problem := checkUnique(list, element, tag)
	switch {
	case mappings == nil && len(d.Errs.Mistakes) > before:
		return nil
	case mappings == nil && problem != "":
		d.AddMistakeAt(n, path, "%s", problem)
		return nil
	case problem != "":
		mappings[0].AddMistake(tag.Get("unique"), "%s", problem)
	}
	list.Set(reflect.Append(list, element))
	return mappings
}

// checkUnique returns a problem if the list already has an element that equals element. The tag
// unique says whether whole elements are compared, or only the values of a key.
func checkUnique(list, element reflect.Value, tag reflect.StructTag) string {
	key := tag.Get("unique")
	part := func(v reflect.Value) any {
		if v.Kind() == reflect.Struct && !IsScalar(v.Type()) {
			all, _ := FlattenedFields(v)
			return all[slices.IndexFunc(all, func(f Field) bool { return f.Name == key })].Value.Interface()
		}
		return v.Interface()
	}
	for i := 0; key != "" && i < list.Len(); i++ {
		if value := part(element); value != "" && reflect.DeepEqual(part(list.Index(i)), value) {
			return Printable(fmt.Sprint(value)) + " is given twice"
		}
	}
	return ""
}

func (d *Decoder) decodeMap(n *yaml.Node, path string, v reflect.Value, tag reflect.StructTag) {
	v.SetZero()
	d.eachEntry(n, path, func(key string, n *yaml.Node, path string) {
		before := len(d.Errs.Mistakes)
		element := reflect.New(v.Type().Elem()).Elem()
		if problem := d.Checks[tag.Get("keys")]; problem != nil && problem(key) != "" {
			d.AddMistakeAt(n, path, "%s", problem(key))
			return
		}
		if isEmptyScalar(n) && !IsNull(n) || n.Kind == yaml.SequenceNode && len(n.Content) == 0 {
			d.AddMistakeAt(n, path, "is empty; leave it out")
		}
		if element.Kind() == reflect.Struct {
			d.DecodeStruct(n, path, element)
		} else {
			d.decodeValue(n, path, element, tag)
			if len(d.Errs.Mistakes) > before {
				return
			}
		}
		if v.IsNil() {
			v.Set(reflect.MakeMap(v.Type()))
		}
		v.SetMapIndex(reflect.ValueOf(key), element)
	})
}
