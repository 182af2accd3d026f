package house

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"sendcode/internal/http/server"
)

// Generators need a server's address in the specification. They treat a field with a default as
// always present: openapi-typescript makes it required in a caller's request. So no field of a
// request has a default.
func TestSpecificationSuitsGenerators(t *testing.T) {
	var spec struct {
		Servers []struct{ URL string }
		Rest    map[string]yaml.Node `yaml:",inline"`
	}
	if err := yaml.Unmarshal([]byte(readFile(t, "docs/openapi.yaml")), &spec); err != nil {
		t.Fatal(err)
	}
	if len(spec.Servers) != 1 || spec.Servers[0].URL != "/" {
		t.Errorf("servers: %v", spec.Servers)
	}
	seen := map[string]bool{}
	for _, part := range spec.Rest {
		eachProperty(&part, func(name string, schema map[string]yaml.Node) {
			if _, found := schema["default"]; found {
				t.Errorf("the field %s has a default: say it in its description", name)
			}
			seen[name] = true
		})
	}
	for _, name := range []string{"channel", "retry_after", "verification_id"} {
		if !seen[name] {
			t.Errorf("the field %s was not found", name)
		}
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

// The table of problems in the service is the only one: the specification allows only these types,
// and no document mentions another type.
func TestProblemTypesAreThoseOfTheTable(t *testing.T) {
	var slugs []string
	for _, k := range server.ProblemKinds() {
		slugs = append(slugs, k.Slug)
	}
	if all := "/problems/(" + strings.Join(slugs, "|") + ")$"; !strings.Contains(readFile(t, "docs/openapi.yaml"), all) {
		t.Errorf("docs/openapi.yaml: the pattern of a problem's type is not %s", all)
	}
	for _, name := range append(documents(t), "docs/openapi.yaml") {
		for _, named := range regexp.MustCompile(`/problems/([a-z-]+)`).FindAllStringSubmatch(readFile(t, name), -1) {
			if !slices.Contains(slugs, named[1]) {
				t.Errorf("%s names the problem %s, which does not exist", name, named[1])
			}
		}
	}
}
