package config

import (
	"bytes"
	"encoding"
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"sendcode/internal/base/document"
	"sendcode/internal/kit/golden"
	"sendcode/internal/kit/servertest"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"
)

type object = map[string]any

// The schema with which editors complete the file is made from the structs, as the reference is. It
// accepts the printed settings, and refuses an unknown key.
func TestSchema(t *testing.T) {
	whole := schemaOf(t, reflect.TypeFor[Config](), "")
	whole["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	var b bytes.Buffer
	out := json.NewEncoder(&b)
	out.SetEscapeHTML(false)
	servertest.OK(t, out.Encode(whole))
	golden.File(t, "schema.json", strings.ReplaceAll(b.String(), `},"`, "},\n\""))
	compiler := jsonschema.NewCompiler()
	parsed, err := jsonschema.UnmarshalJSON(&b)
	if err != nil || compiler.AddResource("schema.json", parsed) != nil {
		t.Fatal(err)
	}
	schema := compiler.MustCompile("schema.json")
	for file, right := range map[string]bool{
		read(t, "testdata/full.yaml"): true, Example: true, "page: {ap: shop}": false,
		"sms: {carriers: [{name: a, type: twilio, sender: x}]}": false,
		"purposes: {a: {ttl: [1]}}":                             false, "sms: {watch: off}": false,
		"sms: {unwatched: +}": true,
		"apps: [{title: x}]":  false,
		"retention: 0s\nrequests_per_minute: 0\nbreaker: {limit: 5, window: 1m}\ntrusted_proxies: 10.0.0.0/8": true,
		"breaker: {limit: 0}": false,
	} {
		var value any
		servertest.OK(t, yaml.Unmarshal([]byte(file), &value))
		if err := schema.Validate(value); (err == nil) != right {
			t.Errorf("%s\n%v", file, err)
		}
	}
}

// schemaOf returns the schema of a field of the given type and tag.
func schemaOf(t *testing.T, of reflect.Type, tag reflect.StructTag) object {
	t.Helper()
	_, parses := reflect.New(of).Interface().(encoding.TextUnmarshaler)
	switch words := strings.Fields(tag.Get("oneof")); {
	case of.Kind() == reflect.Int64 && of != reflect.TypeFor[time.Duration](): // an amount
		return object{"type": []string{"string", "number"}}
	case of.Kind() == reflect.Bool && !parses:
		return object{"type": "boolean"}
	case of.Kind() == reflect.Int && !parses:
		s := object{"type": "integer"}
		for i, text := range strings.Fields(tag.Get("range")) {
			if n, err := strconv.Atoi(strings.TrimSuffix(text, ",")); err == nil {
				s[[]string{"minimum", "maximum", "", "minimum"}[i]] = n // the range may be "1 100, or 0"
			}
		}
		return s
	case document.IsScalar(of) && len(words) > 0:
		return object{"enum": words}
	case document.IsScalar(of):
		return object{"type": "string"}
	case of.Kind() == reflect.Slice && document.IsScalar(of.Elem()):
		one := schemaOf(t, of.Elem(), tag)
		return object{"oneOf": []object{one, {"type": "array", "items": one, "uniqueItems": tag.Get("unique") != ""}}}
	case of.Kind() == reflect.Slice:
		return object{"type": "array", "items": schemaOf(t, of.Elem(), tag)}
	case of.Kind() == reflect.Map:
		return object{"type": "object", "additionalProperties": schemaOf(t, of.Elem(), tag)}
	case of == reflect.TypeFor[SMSCarrier]():
		var types []object
		for _, c := range carrierTypes {
			properties, required := propertiesOf(t, of)
			own, _ := propertiesOf(t, reflect.TypeOf(c.settings()).Elem())
			for key, s := range own {
				properties[key] = s
			}
			properties["type"] = object{"const": c.name}
			types = append(types, object{"properties": properties, "required": required, "additionalProperties": false})
		}
		return object{"type": "object", "oneOf": types}
	}
	s := object{"type": "object", "additionalProperties": false}
	if properties, required := propertiesOf(t, of); len(required) > 0 {
		s["properties"], s["required"] = properties, required
	} else {
		s["properties"] = properties
	}
	if parses {
		return object{"oneOf": []object{s, {"const": "off"}}}
	}
	return s
}

func propertiesOf(t *testing.T, of reflect.Type) (properties object, required []string) {
	t.Helper()
	properties = object{}
	for _, d := range describe(t, of, "", false) {
		if d.field.Type == reflect.TypeFor[Secret]() {
			continue
		}
		one := schemaOf(t, d.field.Type, d.field.Tag)
		one["description"] = link.ReplaceAllString(d.meaning, "$1")
		if given := d.field.Tag.Get("default"); given != "" {
			var value any
			servertest.OK(t, yaml.Unmarshal([]byte(given), &value))
			one["default"] = value
		}
		if d.field.Tag.Get("required") != "" {
			required = append(required, d.key)
		}
		properties[d.key] = one
	}
	return properties, required
}
