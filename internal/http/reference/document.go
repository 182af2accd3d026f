package reference

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// document has the parts of an OpenAPI 3.1 document that the page shows. A part that has a Ref has
// no other fields.
type document struct {
	Info       struct{ Title, Version, Description string }
	Paths      orderedMapping[orderedMapping[operation]]
	Webhooks   orderedMapping[orderedMapping[operation]]
	Components struct {
		Schemas         orderedMapping[schema]
		Parameters      map[string]parameter
		RequestBodies   map[string]requestBody `yaml:"requestBodies"`
		Responses       map[string]response
		Headers         map[string]header
		SecuritySchemes orderedMapping[struct{ Description string }] `yaml:"securitySchemes"`
	}
}

// orderedMapping is a mapping whose entries keep the order of the document.
type orderedMapping[T any] []struct {
	Name  string
	Value T
}

// UnmarshalYAML implements yaml.Unmarshaler.
func (o *orderedMapping[T]) UnmarshalYAML(node *yaml.Node) error {
	*o = make(orderedMapping[T], len(node.Content)/2)
	for i := range *o {
		(*o)[i].Name = node.Content[2*i].Value
		if err := node.Content[2*i+1].Decode(&(*o)[i].Value); err != nil {
			return err
		}
	}
	return nil
}

type operation struct {
	ID                   string `yaml:"operationId"`
	Summary, Description string
	Parameters           []parameter
	RequestBody          *requestBody `yaml:"requestBody"`
	Responses            orderedMapping[response]
	Security             *[]map[string]any // nil: the document's default, which is a key
}

// Credential returns the variable that has the key or token in the example; "" if the request needs
// none.
func (o operation) Credential() string {
	switch {
	case o.Security != nil && len(*o.Security) == 0:
		return ""
	case o.Security != nil && (*o.Security)[0]["admin"] != nil:
		return "CODES_ADMIN_TOKEN"
	}
	return "CODES_KEY"
}

type parameter struct {
	Ref         string `yaml:"$ref"`
	Name, In    string
	Required    bool
	Description string
	Schema      schema
}

type requestBody struct {
	Ref     string `yaml:"$ref"`
	Content orderedMapping[mediaType]
}

type response struct {
	Ref         string `yaml:"$ref"`
	Description string
	Headers     orderedMapping[header]
	Content     orderedMapping[mediaType]
}

type header struct {
	Ref         string `yaml:"$ref"`
	Description string
	Schema      schema
}

type mediaType struct {
	Schema  schema
	Example any
}

// ExampleJSON returns the example as JSON; "" if there is none.
func (m mediaType) ExampleJSON() (string, error) {
	if m.Example == nil {
		return "", nil
	}
	text, err := json.MarshalIndent(m.Example, "", "  ")
	return string(text), err
}

// resolve returns the component that ref names, or x if ref is empty.
func resolve[T any](x T, ref string, all map[string]T) T {
	if ref == "" {
		return x
	}
	return all[lastSegment(ref)]
}

// schema is a JSON Schema, with the keywords that the document uses.
type schema struct {
	Ref                          string `yaml:"$ref"`
	Type                         stringOrList
	Format, Pattern, Description string
	Enum, Required               []string
	Const, Default, Example      any
	Properties                   orderedMapping[schema]
	Items                        *schema
	AllOf                        []schema `yaml:"allOf"`
	OneOf                        []schema `yaml:"oneOf"`
	AnyOf                        []schema `yaml:"anyOf"`
	Minimum, Maximum             *int
	MinLength                    *int `yaml:"minLength"`
	MaxLength                    *int `yaml:"maxLength"`
	MinItems                     *int `yaml:"minItems"`
	MaxItems                     *int `yaml:"maxItems"`
	MaxProperties                *int `yaml:"maxProperties"`
}

// stringOrList is one word or a list of words.
type stringOrList []string

// UnmarshalYAML implements yaml.Unmarshaler.
func (s *stringOrList) UnmarshalYAML(node *yaml.Node) error {
	if node.Kind == yaml.ScalarNode {
		*s = stringOrList{node.Value}
		return nil
	}
	return node.Decode((*[]string)(s))
}

// Alternatives returns the schemas of oneOf and anyOf.
func (s schema) Alternatives() []schema { return append(s.OneOf, s.AnyOf...) }

// Requires reports whether an object must have this member.
func (s schema) Requires(name string) bool { return slices.Contains(s.Required, name) }

// Summary returns a description of the allowed values. The text marks code with backticks: "string
// or null, one of `email`, `sms`".
func (s schema) Summary() string {
	var all []string
	add := func(format string, values ...any) { all = append(all, fmt.Sprintf(format, values...)) }
	kind := strings.Join(s.Type, " or ")
	switch {
	case s.Items != nil && len(s.Items.Type) > 0 && s.Items.Ref == "":
		kind = strings.Replace(kind, "array", "list of "+strings.Join(s.Items.Type, " or "), 1)
	case s.Items != nil:
		kind = strings.Replace(kind, "array", "list", 1)
	}
	if s.Format != "" {
		kind += " (" + s.Format + ")"
	}
	if kind != "" {
		add("%s", kind)
	}
	if s.Const != nil {
		add("`%v`", s.Const)
	}
	if len(s.Enum) > 0 {
		add("one of `%s`", strings.Join(s.Enum, "`, `"))
	}
	bounds := func(unit string, least, most *int) {
		switch {
		case least != nil && most != nil:
			add("%d to %d%s", *least, *most, unit)
		case most != nil:
			add("at most %d%s", *most, unit)
		case least != nil && *least > 0:
			add("at least %d%s", *least, unit)
		}
	}
	bounds("", s.Minimum, s.Maximum)
	bounds(" characters", s.MinLength, s.MaxLength)
	bounds(" items", s.MinItems, s.MaxItems)
	bounds(" members", nil, s.MaxProperties)
	if s.Pattern != "" {
		add("matches `%s`", s.Pattern)
	}
	if s.Default != nil {
		add("else `%v`", s.Default)
	}
	if example := s.Example; example != nil && len(s.Properties) == 0 {
		text, _ := json.Marshal(example) // values from YAML always encode
		add("such as `%s`", strings.Trim(string(text), `"`))
	}
	return strings.Join(all, ", ")
}
