package app

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"sendcode/internal/texts"
)

// Each word of /readyz has a sentence in each language of the console, and what an alert says of
// the same thing is that sentence.
func TestReasonsHaveOneSentence(t *testing.T) {
	words := map[string]bool{}
	for _, file := range []string{"keys.go", "probes.go", "readiness.go"} {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(
			`(?:Word: |Word = |Unready = |unreachable = |Also = true, )"([a-z_]+)"`).FindAllSubmatch(source, -1) {
			words[string(m[1])] = true
		}
	}
	if len(words) < 13 {
		t.Fatalf("the words are %v", words)
	}
	for word := range words {
		for _, w := range texts.ConsoleLanguages() {
			if !w.Has("ready." + word) {
				t.Errorf("no sentence for %s in %s", word, w.Lang())
			}
		}
	}
	alerts, err := os.ReadFile("../../docs/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for alert, word := range map[string]string{
		"SendcodeLimiterAway": "limiter_unreachable", "SendcodeDatabaseSlow": "database_slow",
		"SendcodeAllServersAway": "mail_servers_suspended",
	} {
		_, rule, _ := strings.Cut(string(alerts), "alert: "+alert+"\n")
		rule, _, _ = strings.Cut(rule, "- alert:")
		if said := texts.ConsoleLanguages()[0].Get("ready." + word); said == "" ||
			!strings.Contains(rule, strings.TrimSuffix(said, ".")) {
			t.Errorf("%s does not say %q", alert, said)
		}
	}
}
