package config

import (
	"cmp"
	"encoding"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// decoder reads a file into a struct by its tags, as yaml.Unmarshal does, but keeps the line of every mistake and finds them
// all. The tags of a field:
//
//	yaml      its key; ",inline" and ",omitempty" as in package yaml
//	default   what holds when it is not given, in YAML
//	required  it has to be given; yes, or quota where that looks
//	check     the name of a check in checks; keys: the same, of the keys of a mapping
//	oneof     the words that it may be
//	range     the least and the largest value; zero says what 0 means beside them, why adds a reason
//	wrong     replaces the words of a mistake; %s is the value
//	unique    a list holds nothing twice: yes, or the key by which its mappings differ; twice replaces the words of the mistake
//	most      how many a list may hold, and of what
//	single    a list of one may be written without brackets
//	none      {} stands for nothing
//	env       it is a variable too: plain, file (SENDCODE_…_FILE may name a file that holds it) or list (by commas)
//	unset     what an empty value means, for people
//	style     how it is printed: flow, or items for a list whose items are; mask: url or urls; count: hidden items are counted
//	reload    it can change while the service runs
type decoder struct {
	document
	config   *Config
	readFile func(string) ([]byte, error)
	getenv   func(string) string // of any name, where the file asks for it
	settings map[string]setting  // of the file, which the environment may give as well

	hooks       map[string]*place // of webhooks, by app
	badPolicies []string          // there, but with mistakes: no reason to complain about what names them
	references  []reference
}

// reference is a name that must be declared somewhere.
type reference struct {
	kind, name, where string // kind is "policy", "purpose" or "app"
}

// place is where a mapping stands in the file, for what is found once it has been read.
type place struct {
	*decoder
	node   *yaml.Node
	path   string
	given  map[string]*yaml.Node // by key
	faulty map[string]bool       // keys that were complained about
	items  map[string][]*place   // of mappings, and of lists of them, by key
	before int                   // mistakes when it began
}

// checker is a struct that looks at its fields together, once they have been read.
type checker interface{ check(p *place) }

// preparer is a struct that does so before; false: it can't be read.
type preparer interface{ prepare(p *place) bool }

// shaped is a type that has a form of its own in the file.
type shaped interface {
	decode(d *decoder, n *yaml.Node, path string)
	node() *yaml.Node
}

func (p *place) clean() bool { return len(p.errs.Mistakes) == p.before }

// complain is of a key, where it is given and nothing was said of it yet; else of the mapping.
func (p *place) complain(key, format string, args ...any) {
	switch n := p.given[key]; {
	case p.faulty[key] || p.node == nil || p.node.Kind != yaml.MappingNode && !isNull(p.node):
	case n != nil:
		p.mistake(n, join(p.path, key), format, args...)
	default:
		p.mistake(p.node, p.path, format, args...)
	}
}

func (p *place) refer(kind, key, name string) {
	n, path := p.node, p.path
	if p.given[key] != nil {
		n, path = p.given[key], join(p.path, key)
	}
	p.references = append(p.references, reference{kind, name, p.where(n, path)})
}

// field is one field of a struct, those of inlined ones included.
type field struct {
	name  string
	omit  bool
	tag   reflect.StructTag
	value reflect.Value
}

func fieldsOf(v reflect.Value) (all []field, parts []reflect.Value) {
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
				more, inner := fieldsOf(value)
				all, parts = append(all, more...), append(parts, inner...)
			}
		case name != "" && name != "-":
			all = append(all, field{name, option == "omitempty", f.Tag, value})
		}
	}
	return all, parts
}

// setDefaults gives a struct what its tags say.
func setDefaults(v reflect.Value) {
	all, _ := fieldsOf(v)
	for _, f := range all {
		if text, ok := f.tag.Lookup("default"); ok {
			var n yaml.Node
			if leaf(f.value.Type()) {
				set(f.value, f.tag, text)
			} else if yaml.Unmarshal([]byte(text), &n) == nil {
				d := &decoder{document: document{errs: &Errors{}}}
				d.value(n.Content[0], "", f.value, f.tag)
			}
		} else if f.value.Kind() == reflect.Struct && !leaf(f.value.Type()) {
			setDefaults(f.value)
		}
	}
}

// structure reads a mapping; null is one without keys where nothing is allowed.
func (d *decoder) structure(n *yaml.Node, path string, v reflect.Value) *place {
	p := &place{d, n, path, map[string]*yaml.Node{}, map[string]bool{}, map[string][]*place{}, len(d.errs.Mistakes)}
	if s, ok := v.Addr().Interface().(preparer); ok && !s.prepare(p) {
		return p
	}
	all, parts := fieldsOf(v)
	known := map[string]func(*yaml.Node, string){}
	for _, f := range all {
		known[f.name] = func(n *yaml.Node, path string) {
			before := len(d.errs.Mistakes)
			p.given[f.name] = n
			if env := f.tag.Get("env"); v.Type() == reflect.TypeFor[Config]() && env != "" && env != "list" {
				d.single(f, n, path)
			} else {
				p.items[f.name] = d.value(n, path, f.value, f.tag)
			}
			p.faulty[f.name] = len(d.errs.Mistakes) > before
		}
	}
	if !isNull(n) {
		d.fields(n, path, known)
	}
	for _, f := range all {
		if f.tag.Get("required") == "yes" && p.given[f.name] == nil {
			p.complain("", "%s is missing", f.name)
		}
	}
	for _, part := range slices.Backward(parts) {
		if c, ok := part.Addr().Interface().(checker); ok {
			c.check(p)
		}
	}
	return p
}

// single keeps a setting that the environment may give as well.
func (d *decoder) single(f field, n *yaml.Node, path string) {
	if f.value.Type() == reflect.TypeFor[Secret]() {
		d.mistake(n, path, "is a secret and does not belong in this file; give %s or %[1]s_FILE", envName(f.name))
		return
	}
	if text, ok := d.text(n, path); ok && text != "" {
		d.settings[f.name] = setting{text, d.where(n, path)}
	}
}

// value reads what a field holds, and gives the places of the mappings in it.
func (d *decoder) value(n *yaml.Node, path string, v reflect.Value, tag reflect.StructTag) (places []*place) {
	if s, ok := v.Addr().Interface().(shaped); ok {
		s.decode(d, n, path)
		return nil
	}
	_, unmarshals := v.Addr().Interface().(encoding.TextUnmarshaler)
	switch {
	case leaf(v.Type()) || unmarshals && v.Kind() == reflect.Struct && n.Kind == yaml.ScalarNode:
		if text, ok := d.text(n, path); ok {
			if problem := set(v, tag, text); problem != "" {
				d.mistake(n, path, "%s", problem)
			}
		}
	case v.Kind() == reflect.Struct && tag.Get("none") != "" && n.Kind == yaml.MappingNode && len(n.Content) == 0:
		v.SetZero()
	case v.Kind() == reflect.Struct:
		return []*place{d.notNull(n, path, v)}
	case v.Kind() == reflect.Map:
		d.mapping(n, path, v, tag)
	case tag.Get("single") != "" && n.Kind == yaml.ScalarNode:
		d.item(n, path, v, tag)
	default:
		v.SetZero()
		d.items(n, path, func(n *yaml.Node, path string) { places = append(places, d.item(n, path, v, tag)...) })
	}
	return places
}

func (d *decoder) notNull(n *yaml.Node, path string, v reflect.Value) *place {
	if isNull(n) {
		d.kind(n, path, yaml.MappingNode, "key: value pairs")
		return &place{decoder: d}
	}
	return d.structure(n, path, v)
}

// item adds an element to a list, if it is right or a mapping.
func (d *decoder) item(n *yaml.Node, path string, list reflect.Value, tag reflect.StructTag) []*place {
	before := len(d.errs.Mistakes)
	one := reflect.New(list.Type().Elem()).Elem()
	if one.Kind() == reflect.Struct && !leaf(one.Type()) {
		setDefaults(one)
	}
	places := d.value(n, path, one, tag)
	twice := unique(list, one, tag)
	switch {
	case places == nil && len(d.errs.Mistakes) > before:
		return nil
	case places == nil && twice != "":
		d.mistake(n, path, "%s", twice)
		return nil
	case twice != "":
		places[0].complain(tag.Get("unique"), "%s", twice)
	}
	list.Set(reflect.Append(list, one))
	if most := tag.Get("most"); most != "" && strings.HasPrefix(most, strconv.Itoa(list.Len()-1)+" ") {
		places[0].complain("", "there may be %s at most", most)
	}
	return places
}

// unique says that a list holds an element already, by its tag.
func unique(list, one reflect.Value, tag reflect.StructTag) string {
	key := tag.Get("unique")
	part := func(v reflect.Value) any {
		if v.Kind() == reflect.Struct && !leaf(v.Type()) {
			all, _ := fieldsOf(v)
			return all[slices.IndexFunc(all, func(f field) bool { return f.name == key })].value.Interface()
		}
		return v.Interface()
	}
	for i := 0; key != "" && i < list.Len(); i++ {
		if value := part(one); value != "" && reflect.DeepEqual(part(list.Index(i)), value) {
			return strings.Replace(cmp.Or(tag.Get("twice"), "is there twice"), "%s", plain(fmt.Sprint(value)), 1)
		}
	}
	return ""
}

// mapping reads entries whose keys the file chooses. Structs are called by them.
func (d *decoder) mapping(n *yaml.Node, path string, v reflect.Value, tag reflect.StructTag) {
	v.SetZero()
	d.entries(n, path, func(key string, n *yaml.Node, path string) {
		before := len(d.errs.Mistakes)
		one := reflect.New(v.Type().Elem()).Elem()
		if problem := checks[tag.Get("keys")]; problem != nil && problem(key) != "" {
			d.mistake(n, path, "%s", problem(key))
			return
		}
		if one.Kind() == reflect.Struct {
			setDefaults(one)
			one.FieldByName("Name").SetString(key)
			d.structure(n, path, one)
		} else if d.value(n, path, one, tag); len(d.errs.Mistakes) > before {
			return
		}
		if v.IsNil() {
			v.Set(reflect.MakeMap(v.Type()))
		}
		v.SetMapIndex(reflect.ValueOf(key), one)
	})
}
