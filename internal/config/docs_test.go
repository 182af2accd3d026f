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
