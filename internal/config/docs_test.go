package config

import (
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"sendcode/quota"
)

// docs/configuration.md names every variable, and what the pages on settings show loads.
func TestDocumentation(t *testing.T) {
	content, err := os.ReadFile("../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	doc := string(content)
	for _, v := range variables {
		name := envName(v.key)
		row := regexp.MustCompile("(?m)^\\| `" + name + "`( [*†]+)? \\| (.*?) \\|").FindStringSubmatch(doc)
		if row == nil {
			t.Errorf("%s has no row", name)
			continue
		}
		if file := strings.Contains(row[1], "*"); file != v.fromFile {
			t.Errorf("%s: the * for …_FILE is wrong", name)
		}
		if secret := strings.Contains(row[1], "†"); secret == v.inFile {
			t.Errorf("%s: the † for the YAML file is wrong", name)
		}
		if v.initial != "" && row[2] != "`"+v.initial+"`" {
			t.Errorf("%s: default is %q", name, row[2])
		}
	}
	blocks := yamlBlocks(t, "configuration")
	if len(blocks) != 1 {
		t.Fatalf("%d examples", len(blocks))
	}
	if _, err := loadYAML(blocks[0], without(without(reachable, "SENDCODE_ADDR"), "SENDCODE_API_KEY")...); err != nil {
		t.Errorf("the example: %v", err)
	}
	for _, part := range slices.Concat(yamlBlocks(t, "sms"), yamlBlocks(t, "provider-events"), yamlBlocks(t, "limits")) {
		if _, err := loadYAML(part, "KANNEL_PASSWORD=x", "TWILIO_TOKEN=x", "ALIYUN_SECRET=x", "TENCENT_SECRET=x",
			"POSTMARK_SECRET=a-secret-of-ours-and-theirs", "SENDGRID_SECRET=a-secret-of-ours-and-theirs", "MAILGUN_SIGNING_KEY=a-secret-of-ours-and-theirs"); err != nil {
			t.Errorf("%s: %v", part, err)
		}
	}
	for _, sentence := range []string{"is not an authenticator", "subject", "locked phone", "logs"} {
		if !strings.Contains(doc, sentence) {
			t.Errorf("nothing about %q", sentence)
		}
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

var fence = regexp.MustCompile("(?s)```(yaml|go)\n(.*?)```")

// Every block of docs/policies.md is true: YAML loads and means what its chapter says, Go stands in an example that runs.
func TestThePageOfPolicies(t *testing.T) {
	page := read(t, "../../docs/policies.md")
	code := lines(read(t, "../../quota/example_policies_test.go") + read(t, "../../quota/echoquota/example_test.go"))
	chapters := strings.Split(page, "\n## ")[1:]
	if len(chapters) != len(promised) {
		t.Fatalf("%d chapters, %d policies", len(chapters), len(promised))
	}
	for i, chapter := range chapters {
		title, body, _ := strings.Cut(chapter, "\n")
		want := promised[i]
		if !strings.HasPrefix(title, want.title) {
			t.Errorf("chapter %q, want %q", title, want.title)
		}
		kinds := ""
		for _, block := range fence.FindAllStringSubmatch(body, -1) {
			kinds += block[1] + " "
			if block[1] == "yaml" {
				sameRules(t, title, block[2], want.policy, want.rules)
			} else if !contains(code, lines(block[2])) {
				t.Errorf("%s: the Go lines are in no example", title)
			}
		}
		if kinds != want.blocks {
			t.Errorf("%s: shows %s", title, kinds)
		}
	}
	for _, other := range []string{"../../README.md", "../../docs/configuration.md", "../../quota/README.md"} {
		if !strings.Contains(read(t, other), "policies.md)") {
			t.Errorf("%s does not lead to the page", other)
		}
	}
}

// promised are the policies of the page, in its order.
var promised = []struct {
	title, blocks, policy string
	rules                 []quota.Rule
}{
	{"Codes: 1 per 60 seconds, 5 per hour and 10 per 24 hours", "yaml go ", "default", []quota.Rule{
		{Name: "minute", Scope: quota.Recipient, Limit: 1, Window: 60 * time.Second},
		{Name: "hour", Scope: quota.Recipient, Limit: 5, Window: time.Hour},
		{Name: "day", Scope: quota.Recipient, Limit: 10, Window: 24 * time.Hour},
	}},
	{"Codes for an app with both kinds of key", "yaml ", "default", []quota.Rule{
		{Name: "hour", Scope: quota.Recipient, Limit: 5, Window: time.Hour},
		{Name: "day", Scope: quota.Recipient, Limit: 10, Window: 24 * time.Hour},
		{Name: "browser_hour", Scope: quota.Recipient.OfBrowsers(), Limit: 3, Window: time.Hour},
		{Name: "browser_day", Scope: quota.Recipient.OfBrowsers(), Limit: 6, Window: 24 * time.Hour},
	}},
	{"Spellings of one mailbox: at most 20 a day from browsers", "yaml ", "default", []quota.Rule{
		{Name: "minute", Scope: quota.Recipient, Limit: 1, Window: 60 * time.Second},
		{Name: "hour", Scope: quota.Recipient, Limit: 5, Window: time.Hour},
		{Name: "day", Scope: quota.Recipient, Limit: 10, Window: 24 * time.Hour},
	}},
	{"A gateway: 1,000 requests per second", "go yaml ", "default", []quota.Rule{
		{Name: "person", Scope: quota.Recipient, Limit: 5, Window: time.Hour},
		{Name: "route", Scope: quota.Purpose, Limit: 1000, Window: time.Second},
	}},
	{"Gifts and notices: at most 1 per calendar day and 3 per 7 days", "yaml go ", "gift", []quota.Rule{
		{Name: "today", Scope: quota.Recipient, Limit: 1, Per: quota.Day, Zone: shanghai()},
		{Name: "week", Scope: quota.Recipient, Limit: 3, Days: 7, Zone: shanghai()},
	}},
	{"A web resource: 100 per 60 seconds", "go yaml ", "download", []quota.Rule{
		{Name: "person", Scope: quota.Recipient, Limit: 10, Window: time.Hour},
		{Name: "address", Scope: quota.IP, Limit: 100, Window: time.Minute},
	}},
	{"Fixed: 3 per clock hour", "yaml go ", "fixed", []quota.Rule{
		{Name: "hour", Scope: quota.Recipient, Limit: 3, Per: quota.Hour, Zone: shanghai()},
	}},
	{"Sliding: 3 in any 60 minutes", "yaml go ", "sliding", []quota.Rule{
		{Name: "hour", Scope: quota.Recipient, Limit: 3, Window: time.Hour},
	}},
	{"A free trial: 3 per user and calendar month", "yaml ", "trial", []quota.Rule{
		{Name: "month", Scope: quota.Recipient, Limit: 3, Per: quota.Month, Zone: time.UTC},
	}},
	{"Bounds on all recipients together", "yaml ", "default", []quota.Rule{
		{Name: "person", Scope: quota.Recipient, Limit: 10, Window: 24 * time.Hour},
		{Name: "provider", Scope: quota.Network, Limit: 1000, Window: time.Hour},
		{Name: "rate", Scope: quota.App, Limit: 1000, Window: time.Second},
		{Name: "bill", Scope: quota.Global, Limit: 50000, Per: quota.Month, Zone: time.UTC},
	}},
	{"Text messages: bounds on numbers and countries", "yaml ", "default", []quota.Rule{
		{Name: "person", Scope: quota.Recipient, Limit: 5, Window: time.Hour},
		{Name: "block", Scope: quota.Prefix, Limit: 10, Window: time.Hour},
		{Name: "country", Scope: quota.Country, Limit: 500, Window: 24 * time.Hour},
	}},
	{"A stricter rule, tried first", "yaml ", "default", []quota.Rule{
		{Name: "hour", Scope: quota.Recipient, Limit: 5, Window: time.Hour},
		{Name: "stricter", Scope: quota.Recipient, Limit: 3, Window: time.Hour, Observe: true},
	}},
}

func shanghai() *time.Location {
	z, err := time.LoadLocation("Asia/Shanghai")
	if err != nil {
		panic(err)
	}
	return z
}

func sameRules(t *testing.T, title, yaml, policy string, want []quota.Rule) {
	t.Helper()
	c, err := loadYAML(yaml)
	if err != nil {
		t.Errorf("%s: %v", title, err)
		return
	}
	want = append(slices.Clone(want), failuresRule()) // as every policy
	if got := c.Policies[policy].Rules; !reflect.DeepEqual(got, want) {
		t.Errorf("%s: the YAML means\n%+v\nand not\n%+v", title, got, want)
	}
	if len(c.PurposesOf(policy)) == 0 {
		t.Errorf("%s: no purpose uses the policy", title)
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// lines are those of a text without their indentation.
func lines(text string) []string {
	all := strings.Split(strings.TrimSpace(text), "\n")
	for i := range all {
		all[i] = strings.TrimSpace(all[i])
	}
	return all
}

func contains(all, part []string) bool {
	for i := 0; i+len(part) <= len(all); i++ {
		if slices.Equal(all[i:i+len(part)], part) {
			return true
		}
	}
	return false
}
