package app

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"sendcode/internal/base/texts"
)

// conditions are the conditions that /readyz, the console's status line, the alerts, the log and
// the runbooks mention. The places that mention a condition use the same words.
var conditions = []struct {
	words   []string // values of server.HealthReason.Word; /readyz and the status line have the same sentence for each
	state   string   // the state of the part in the status line; empty: the line has no such part
	section string   // a heading in the runbooks
	alert   string   // the name of the alert; empty: there is none
	summary string   // what the alert's summary contains; empty: the sentence of the first word
	file    string   // the source file with the log line
	line    string   // the message of the log line; empty: the log has none
}{
	{
		[]string{
			"database_away", "database_full", "database_read_only", "database_schema", "database_no_partition", "database_no_permission",
			"database_standby_away",
		},
		"away", "Database away", "SendcodeDatabaseAway",
		"The database is away: no row can be written within 5 s, so no code is sent. /readyz says why",
		"readiness.go", `"database away: nothing is sent"`,
	},
	{[]string{"database_slow"}, "slow", "Database slow", "SendcodeDatabaseSlow", "", "readiness.go", `"database slow: look`},
	{
		[]string{"redis_away", "redis_part_away", "redis_no_permission", "redis_cluster_node", "redis_sentinel"},
		"away", "Redis", "SendcodeRedisAway", "",
		"../../limit/gates/gates.go", `"Redis away: the database decides for recipients`,
	},
	{
		[]string{"mail_servers_suspended"},
		"suspended", "Sends wait", "SendcodeAllServersSuspended", "All mail servers or all carriers are suspended after failures",
		"stores.go", `" suspended after failures"`,
	},
	{
		[]string{"carriers_suspended"},
		"suspended", "Sends wait", "SendcodeServerSuspended", "has been suspended after failures",
		"stores.go", `" suspended after failures"`,
	},
	{[]string{"mails_slow", "texts_slow"}, "", "Sends wait", "SendcodeDeliverySlow", "messages go out too slowly", "", ""},
	{[]string{"mails_refused", "texts_refused"}, "", "Sends fail", "SendcodeSendsRefused", "refuses over 80 % of what is sent", "", ""},
	{[]string{"clock_off"}, "", "Clock", "SendcodeClockOff", "is more than 5 s off the clock of the database", "clock.go", `"clock off: let NTP run"`},
	{[]string{"suppressions_held"}, "", "Bursts", "SendcodeSuppressionsHeld", "addresses within minutes with", "", ""},
	{[]string{"key_missing", "other_keys"}, "", "Keys", "", "", "", ""},
	{[]string{"held"}, "", "Database away", "", "", "probes.go", `"sends held: `},
}

// Each condition has one name in /readyz, the status line, the alerts, the log and the runbooks.
func TestHealthConditionsHaveOneName(t *testing.T) {
	listed := map[string]bool{"other_replica": true} // its sentence only follows another reason's
	english := texts.ConsoleLanguages()[0]
	operations, alerts, runbooks := readText(t, "../../../docs/operations.md"), readText(t, "../../../docs/alerts.yaml"),
		readText(t, "../../../docs/runbooks.md")
	for _, c := range conditions {
		section := between(runbooks, "\n## "+c.section+"\n", "\n## ")
		for _, word := range c.words {
			listed[word] = true
			if !strings.Contains(operations, "`"+word+"`") {
				t.Errorf("operations.md does not list %s", word)
			}
			if !strings.Contains(section, "`"+word+"`") {
				t.Errorf("the runbook %q does not name %s", c.section, word)
			}
			for _, w := range texts.ConsoleLanguages() {
				if !w.Has("ready."+word) || c.state != "" && !w.Has("health."+c.state) {
					t.Errorf("no sentence for %s in %s", word, w.Lang())
				}
			}
		}
		if text := english.Get("health." + c.state); c.state != "" && text != c.state {
			t.Errorf("the status line says %q of what is %s", text, c.state)
		}
		if c.line != "" && !strings.Contains(readText(t, c.file), c.line) {
			t.Errorf("%s logs no line %s", c.file, c.line)
		}
		if c.alert == "" {
			continue
		}
		rule := between(alerts, "alert: "+c.alert+"\n", "- alert:")
		summary := c.summary
		if summary == "" {
			summary = strings.TrimSuffix(english.Get("ready."+c.words[0]), ".")
		}
		anchor := "#" + strings.ReplaceAll(strings.ToLower(c.section), " ", "-") + `"`
		if !strings.Contains(rule, summary) || !strings.Contains(rule, anchor) || !strings.HasSuffix(strings.ToLower(c.alert), c.state) {
			t.Errorf("%s has another name, sentence or runbook than %s: %s", c.alert, c.words[0], rule)
		}
	}
	for _, word := range wordsOfReadiness(t) {
		if !listed[word] {
			t.Errorf("/readyz can say %s, which has no condition here", word)
		}
		delete(listed, word)
	}
	for word := range listed {
		t.Errorf("/readyz never says %s", word)
	}
}

// wordsOfReadiness returns the words of all reasons in this package's source.
func wordsOfReadiness(t *testing.T) (words []string) {
	t.Helper()
	for _, file := range []string{"clock.go", "keys.go", "probes.go", "readiness.go"} {
		for _, m := range regexp.MustCompile(
			`(?:Word: |Word = |Unready = |reasonDatabaseAway = |reasonDatabaseSlow = |Also = true, )"([a-z_]+)"`).
			FindAllStringSubmatch(readText(t, file), -1) {
			words = append(words, m[1])
		}
	}
	slices.Sort(words)
	return slices.Compact(words)
}

// between returns the text between before and after. It returns "" if the text does not contain
// before.
func between(text, before, after string) string {
	_, text, _ = strings.Cut(text, before)
	text, _, _ = strings.Cut(text, after)
	return text
}
