package house

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// Generators need the address of a server, and take a field with a default for one that is always there: openapi-typescript
// makes it required in what a caller has to give.
func TestSpecificationSuitsGenerators(t *testing.T) {
	var spec struct {
		Servers []struct{ URL string }
		Rest    map[string]yaml.Node `yaml:",inline"`
	}
	text, err := os.ReadFile(filepath.Join(root, "docs", "openapi.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, &spec); err != nil {
		t.Fatal(err)
	}
	if len(spec.Servers) != 1 || spec.Servers[0].URL != "/" {
		t.Errorf("servers: %v", spec.Servers)
	}
	seen := 0
	for _, part := range spec.Rest {
		eachProperty(&part, func(name string, schema map[string]yaml.Node) {
			if _, found := schema["default"]; found {
				t.Errorf("the field %s has a default: say it in its description", name)
			}
			seen++
		})
	}
	if seen < 50 {
		t.Errorf("only %d fields were found", seen)
	}
}

// What Redocly's linter finds where npm is (tools/outside): each component is used, each reference leads somewhere, and each
// operation has a name of its own.
func TestSpecificationIsWhole(t *testing.T) {
	text := readFile(t, "docs/openapi.yaml")
	var spec struct {
		Components map[string]map[string]yaml.Node
	}
	if err := yaml.Unmarshal([]byte(text), &spec); err != nil {
		t.Fatal(err)
	}
	named := map[string]bool{}
	for kind, all := range spec.Components {
		for name := range all {
			reference := "#/components/" + kind + "/" + name
			if named[reference] = true; kind != "securitySchemes" && !strings.Contains(text, `"`+reference+`"`) {
				t.Errorf("%s is used nowhere", reference)
			}
		}
	}
	for _, found := range regexp.MustCompile(`\$ref: "([^"]*)"`).FindAllStringSubmatch(text, -1) {
		if !named[found[1]] {
			t.Errorf("%s leads nowhere", found[1])
		}
	}
	operations := map[string]bool{}
	for _, found := range regexp.MustCompile(`operationId: (\S+)`).FindAllStringSubmatch(text, -1) {
		if operations[found[1]] {
			t.Errorf("two operations are called %s", found[1])
		}
		operations[found[1]] = true
	}
	if len(named) < 20 || len(operations) < 20 {
		t.Errorf("only %d components and %d operations were found", len(named), len(operations))
	}
}

// eachProperty calls yield for every field of every object.
func eachProperty(n *yaml.Node, yield func(name string, schema map[string]yaml.Node)) {
	for i, child := range n.Content {
		if n.Kind == yaml.MappingNode && i%2 == 1 && n.Content[i-1].Value == "properties" {
			var fields map[string]map[string]yaml.Node
			if err := child.Decode(&fields); err != nil {
				continue
			}
			for name, schema := range fields {
				yield(name, schema)
			}
		}
		eachProperty(child, yield)
	}
}
