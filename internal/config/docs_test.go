package config

import (
	"os"
	"regexp"
	"slices"
	"testing"
)

// What the pages on settings show loads.
func TestDocumentedFilesLoad(t *testing.T) {
	for _, block := range slices.Concat(yamlBlocks(t, "configuration"), yamlBlocks(t, "../README"), yamlBlocks(t, "../README.zh-CN")) {
		must(t, block, without(without(reachable, "SENDCODE_ADDR"), "SENDCODE_API_KEY")...)
	}
	for _, part := range slices.Concat(yamlBlocks(t, "sms"), yamlBlocks(t, "quickstart"), []string{read(t, "../../deploy/provider-events.yaml"), read(t, "../../deploy/http-carriers.yaml")}) {
		var secrets []string
		for _, named := range regexp.MustCompile(`secret_env: (\w+)`).FindAllStringSubmatch(part, -1) {
			secrets = append(secrets, named[1]+"="+hiddenSecret)
		}
		must(t, part, secrets...)
	}
}

// yamlBlocks are the examples of a page.
func yamlBlocks(t *testing.T, page string) (blocks []string) {
	t.Helper()
	for _, found := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(read(t, "../../docs/"+page+".md"), -1) {
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
			if len(c.PurposesWithPolicy(name)) == 0 {
				t.Errorf("no purpose uses the policy %s:\n%s", name, block)
			}
		}
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
