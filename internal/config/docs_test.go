package config

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Every example of a file loads, with a hash and a secret where it names none: whole files with
// what production gives, parts of one alone.
func TestDocumentedFilesLoad(t *testing.T) {
	parts := []string{read(t, "../../deploy/provider-events.yaml"), read(t, "../../deploy/http-carriers.yaml")}
	for _, pattern := range []string{"../../*.md", "../../docs/*.md", "../../docs/decisions/*.md"} {
		pages, err := filepath.Glob(pattern)
		if err != nil || len(pages) == 0 {
			t.Fatalf("no %s: %v", pattern, err)
		}
		for _, page := range pages {
			if strings.Contains(read(t, page), "```yaml\n") {
				name, _ := filepath.Rel("../../docs", strings.TrimSuffix(page, ".md"))
				parts = append(parts, yamlBlocks(t, name)...)
			}
		}
	}
	for _, part := range parts {
		part = regexp.MustCompile(`sha256: "<[^>]*>"`).ReplaceAllString(part,
			"sha256: "+fmt.Sprintf("%x", sumOf("sk_x")))
		var environ []string
		if strings.Contains(part, "webhook: {") {
			environ = append(environ, "SENDCODE_WEBHOOK_SECRETS=shop:whsec_Q2hlZXIgdXAsIGl0IGlzIGEgdGVzdCBzZWNyZXQh")
		}
		for _, named := range regexp.MustCompile(`secret_env: (\w+)`).FindAllStringSubmatch(part, -1) {
			secret := hiddenSecret
			switch {
			case strings.Contains(part, "\nhooks:"), strings.HasPrefix(part, "hooks:"):
				secret = twoHookSecrets
			case strings.HasSuffix(named[1], "_WEBHOOK_SECRET"):
				secret = "whsec_" + standardSecret
			}
			environ = append(environ, named[1]+"="+secret)
		}
		if regexp.MustCompile(`(?m)^addr:`).MatchString(part) {
			environ = append(environ, without(reachable, "SENDCODE_ADDR")...)
		}
		must(t, part, environ...)
	}
	if len(parts) < 20 {
		t.Errorf("%d examples were found", len(parts))
	}
}

// yamlBlocks are the examples of a page.
func yamlBlocks(t *testing.T, page string) (blocks []string) {
	t.Helper()
	for _, found := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(read(t,
		"../../docs/"+page+".md"), -1) {
		blocks = append(blocks, found[1])
	}
	if len(blocks) == 0 {
		t.Fatalf("%s shows nothing", page)
	}
	return blocks
}

// Of docs/policies.md, each YAML block declares a policy that a purpose uses.
func TestThePageOfPolicies(t *testing.T) {
	for _, block := range yamlBlocks(t, "policies") {
		c := must(t, block)
		for name := range c.Policies {
			if len(c.purposesWithPolicy(name)) == 0 {
				t.Errorf("no purpose uses the policy %s:\n%s", name, block)
			}
		}
	}
}

// The documents name no variable that the service does not know, and give clients none of the
// service's: in a shell with one of either kind the service ends.
func TestDocumentsNameVariables(t *testing.T) {
	asked := map[string]bool{}
	for _, pattern := range []string{"*.md", "compose.yaml", "docs/*.*", "docs/*/*.*", "deploy/*.*", "deploy/*/*.*"} {
		pages, err := filepath.Glob("../../" + pattern)
		if err != nil || len(pages) == 0 {
			t.Fatalf("no %s: %v", pattern, err)
		}
		for _, page := range pages {
			text := read(t, page)
			for _, line := range regexp.MustCompile(`.*Bearer.*SENDCODE_.*`).FindAllString(text, -1) {
				t.Errorf("%s: a client uses a setting of the service: %s", page, line)
			}
			for _, name := range regexp.MustCompile(`\bSENDCODE_[A-Z_]*[A-Z]\b`).FindAllString(text, -1) {
				if asked[name] {
					continue
				}
				asked[name] = true
				if _, err := Load([]string{name + "=x"}, files{}.read); err != nil &&
					strings.Contains(err.Error(), "there is no such variable") {
					t.Errorf("%s: %v", page, err)
				}
			}
		}
	}
	if !asked["SENDCODE_API_KEY"] || len(asked) < 20 {
		t.Errorf("found only %v", slices.Sorted(maps.Keys(asked)))
	}
}

func read(t testing.TB, name string) string {
	t.Helper()
	content, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}
