package config

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// docs/configuration.md names every variable and key, and what it shows loads.
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
	for _, key := range []string{"policies", "limits", "purposes", "apps", "trusted_proxies", "page", "templates", "checks", "breaker", "spellings", "test_recipients", "block", "paused", "suppressions", "retention", "requests_per_minute", "provider_events", "disposable_domains", "folding", "sms", "admin"} {
		if !strings.Contains(doc, "\n### "+key+"\n") {
			t.Errorf("no chapter on %s", key)
		}
	}
	blocks := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(doc, -1)
	if len(blocks) < 3 {
		t.Fatalf("%d examples", len(blocks))
	}
	byDefault, err := Load(nil, files{}.read)
	if err != nil {
		t.Fatal(err)
	}
	if c, err := loadYAML(blocks[0][1]); err != nil || c.YAML() != byDefault.YAML() {
		t.Errorf("the default in full is another one: %v\n%v", err, c)
	}
	if _, err := loadYAML(blocks[1][1], without(without(reachable, "SENDCODE_ADDR"), "SENDCODE_API_KEY")...); err != nil {
		t.Errorf("the example: %v", err)
	}
	for _, part := range blocks[2:] {
		if _, err := loadYAML(part[1], "KANNEL_PASSWORD=x", "TWILIO_TOKEN=x", "ALIYUN_SECRET=x", "TENCENT_SECRET=x",
			"POSTMARK_SECRET=a-secret-of-ours-and-theirs", "SENDGRID_SECRET=a-secret-of-ours-and-theirs", "MAILGUN_SIGNING_KEY=a-secret-of-ours-and-theirs"); err != nil {
			t.Errorf("%s: %v", part[1], err)
		}
	}
	for _, sentence := range []string{"is not an authenticator", "subject", "locked phone", "logs"} {
		if !strings.Contains(doc, sentence) {
			t.Errorf("nothing about %q", sentence)
		}
	}
}
