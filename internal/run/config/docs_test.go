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

	"sendcode/internal/codes/policy"
	"sendcode/internal/kit/servertest"
	"sendcode/quota"
)

// Every example of a settings file in the documents can be loaded, after the test has replaced the
// placeholders of hashes and set the variables that the example names. An example with addr also
// gets the variables in reachable.
func TestDocumentedFilesLoad(t *testing.T) {
	parts := []string{read(t, "../../../deploy/provider-events.yaml"), read(t, "../../../deploy/http-carriers.yaml")}
	for _, pattern := range []string{"../../../*.md", "../../../docs/*.md", "../../../docs/decisions/*.md"} {
		pages, err := filepath.Glob(pattern)
		if err != nil || len(pages) == 0 {
			t.Fatalf("no %s: %v", pattern, err)
		}
		for _, page := range pages {
			if strings.Contains(read(t, page), "```yaml\n") {
				name, _ := filepath.Rel("../../../docs", strings.TrimSuffix(page, ".md"))
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

func yamlBlocks(t *testing.T, page string) []string {
	t.Helper()
	return servertest.Blocks(t, read(t, "../../../docs/"+page+".md"), "yaml")
}

// documentedPolicies has an entry for each YAML block of docs/policies.md: what the heading above
// the block contains, and the rules and limits in the block.
var documentedPolicies = []struct{ headingPart, rules string }{
	{
		"1 per 60 seconds, 5 per hour and 10 per 24 hours for an address",
		"recipient 1 in 1m0s, recipient 5 in 1h0m0s, recipient 10 in 24h0m0s; ",
	},
	{"at most 1 per calendar day and 3 per 7 days for a user", "recipient 1 a day, recipient 3 in 7 days; "},
	{"Bounds on all recipients, numbers and countries", "recipient 10 in 24h0m0s, network 1000 in 1h0m0s, " +
		"app 1000 in 1s, global 50000 a month, prefix 10 in 1h0m0s, country 500 in 24h0m0s; "},
	{"A stricter rule, tried first", "recipient 5 in 1h0m0s, recipient 3 in 1h0m0s (observe); "},
	{"When to say", "; "},
	{"Human checks", "; "},
	{"Private", "; "},
}

// In docs/policies.md, each YAML block has the rules that its heading announces, and a purpose uses
// each policy in the block.
func TestThePageOfPolicies(t *testing.T) {
	blocks := yamlBlocks(t, "policies")
	page := read(t, "../../../docs/policies.md")
	if len(blocks) != len(documentedPolicies) {
		t.Fatalf("%d blocks", len(blocks))
	}
	for i, block := range blocks {
		c, want := must(t, block), documentedPolicies[i]
		before, _, _ := strings.Cut(page, block)
		if heading := before[strings.LastIndex(before, "\n## "):]; !strings.Contains(heading, want.headingPart) {
			t.Errorf("%s\nis below %s, want %s", block, heading, want.headingPart)
		}
		var rules, limits []string
		for name := range c.Policies {
			if len(c.purposesWithPolicy(name)) == 0 {
				t.Errorf("no purpose uses the policy %s:\n%s", name, block)
			}
			if strings.Contains(block, "\n  "+name+":\n") {
				for _, r := range c.policy(name).Rules {
					if r.Scope != policy.FailuresScope { // the service adds this rule, so the page does not list it
						rules = append(rules, string(r.Scope)+" "+admits(r))
					}
				}
			}
		}
		for _, limit := range c.Limits {
			for _, r := range limit {
				limits = append(limits, admits(r.QuotaRule()))
			}
		}
		if got := strings.Join(rules, ", ") + "; " + strings.Join(limits, ", "); got != want.rules {
			t.Errorf("%s\n got %s\nwant %s", want.headingPart, got, want.rules)
		}
	}
}

// admits says how many events a rule admits in what time.
func admits(r quota.Rule) string {
	s := fmt.Sprintf("%d in %s", r.Limit, r.Window)
	switch {
	case r.Per != "":
		s = fmt.Sprintf("%d a %s", r.Limit, r.Per)
	case r.Days > 0:
		s = fmt.Sprintf("%d in %d days", r.Limit, r.Days)
	}
	if r.Observe {
		s += " (observe)"
	}
	return s
}

// The documents name no variable that the service does not know. They don't tell clients to use a
// variable of the service, because a client should have variables of its own.
func TestDocumentsNameVariables(t *testing.T) {
	asked := map[string]bool{}
	for _, pattern := range []string{"*.md", "compose*.yaml", "docs/*.*", "docs/*/*.*", "deploy/*.*", "deploy/*/*.*"} {
		pages, err := filepath.Glob("../../../" + pattern)
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
	servertest.OK(t, err)
	return string(content)
}
