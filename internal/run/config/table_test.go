package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"sendcode/internal/base/document"
	"sendcode/internal/kit/golden"
	"sendcode/internal/kit/servertest"
)

// TestLoad compares the output of Load for each part of testdata/load.txt with the expected text
// there. The output never contains a secret; each secret there contains "hidden".
func TestLoad(t *testing.T) {
	soon, later := time.Now().AddDate(0, 0, 13), time.Now().AddDate(0, 0, 15)
	expand := strings.NewReplacer("{{ring}}", goodRing, "{{other ring}}", otherRing, "{{index}}", goodIndex,
		"{{key}}", goodKey, "{{sum of key}}", fmt.Sprintf("%x", sumOf(goodKey)), "{{sum}}", strings.Repeat("ab", 32),
		"{{hash}}", goodHash, "{{hook secrets}}", twoHookSecrets, "{{account}}", "AC00000000000000000000000000000001",
		"{{in 13 days}}", soon.UTC().Format(time.RFC3339), "{{in 15 days}}", later.UTC().Format(time.RFC3339))
	var parts []string
	for part := range strings.SplitSeq(strings.TrimSpace(read(t, "testdata/load.txt")), "\n\n") {
		var given, yaml string
		var shown []string
		environ, loads := []string{"SENDCODE_CONFIG="}, false
		for line := range strings.Lines(part + "\n") {
			kind, text := line[:2], strings.TrimSpace(line[2:])
			if kind == "=>" || kind == "~>" || kind == "=:" || kind == "ok" {
				continue
			}
			given, loads = given+line, loads || kind != "# "
			switch kind {
			case "# ":
			case "? ":
				shown = append(shown, text)
			case "+ ":
				environ = append(environ, reachable...)
			case "- ":
				environ = without(environ, text)
			case "| ":
				environ, yaml = without(environ, "SENDCODE_CONFIG"), yaml+expand.Replace(line[2:])
			default:
				environ = append(environ, expand.Replace(strings.TrimSuffix(line, "\n")))
			}
		}
		if loads {
			said := whatLoadSays(yaml, environ)
			if strings.Contains(said, "hidden") {
				t.Errorf("%s\nshows a secret:\n%s", given, said)
			}
			said += printed(t, shown, yaml, environ)
			given += strings.ReplaceAll(said, soon.UTC().Format(time.RFC3339), "{{in 13 days}}")
		}
		parts = append(parts, given)
	}
	golden.File(t, "testdata/load.txt", strings.Join(parts, "\n"))
}

// printed returns the lines of a printed configuration that begin with one of the keys, and whether
// other machines can reach the service. The printed configuration must print the same after it is
// read.
func printed(t *testing.T, keys []string, yaml string, environ []string) (lines string) {
	t.Helper()
	if len(keys) == 0 {
		return ""
	}
	c, err := loadYAML(yaml, environ...)
	servertest.OK(t, err)
	if !slices.Contains(environ, reachable[0]) { // the secrets in reachable are not printed
		readBack(t, c)
	}
	for line := range strings.Lines(c.YAML()) {
		if line = strings.TrimSpace(line); slices.ContainsFunc(keys, func(key string) bool { return strings.HasPrefix(line, key) }) {
			lines += "=: " + line + "\n"
		}
	}
	return lines + fmt.Sprint("=: others reach it: ", !c.Loopback(), "\n")
}

// whatLoadSays returns a line for each mistake or warning, or the line "ok".
func whatLoadSays(yaml string, environ []string) (lines string) {
	c, err := loadYAML(yaml, environ...)
	for _, m := range mistakes(err) {
		lines += "=> " + strings.ReplaceAll(m, "\n", "\n=> ") + "\n"
	}
	for _, w := range c.Warnings {
		lines += "~> " + w + "\n"
	}
	if lines == "" {
		return "ok\n"
	}
	return lines
}

// These files and values are too long for the table, or are not UTF-8.
func TestLoadRefusesLongFilesAndValues(t *testing.T) {
	long := "SENDCODE_DATA_DIR=" + strings.Repeat("x", document.MaxValueSize+1)
	_, err := Load([]string{long}, nil)
	wantEqual(t, "value", fmt.Sprint(err), "the configuration has a mistake:\n  - SENDCODE_DATA_DIR: is longer than 65536 bytes")
	wantEqual(t, "bytes", whatLoadSays("", []string{"SENDCODE_DATA_DIR=\xff"}), "=> SENDCODE_DATA_DIR: is not UTF-8 text\n")
	wantEqual(t, "file", whatLoadSays(strings.Repeat("#", document.MaxSize+1), nil), "=> c.yaml: is larger than 262144 bytes\n")
}

// The checks that tags name accept and refuse the values in testdata/checks.txt. No message repeats
// "hidden". The lines that begin with maskURL have its output for an address.
func TestChecks(t *testing.T) {
	var lines strings.Builder
	for line := range strings.Lines(read(t, "testdata/checks.txt")) {
		name, rest, _ := strings.Cut(line, " ")
		quoted, err := strconv.QuotedPrefix(rest)
		if err != nil {
			t.Fatalf("%s%v", line, err)
		}
		text, _ := strconv.Unquote(quoted)
		check := checksByName[name]
		if name == "maskURL" {
			check = maskURL
		}
		problem := check(text)
		if strings.Contains(problem, "hidden") || strings.Contains(problem, hookOne[6:]) {
			t.Errorf("%s of %q: %q", name, text, problem)
		}
		if problem != "" {
			problem = " " + problem
		}
		fmt.Fprintf(&lines, "%s %s%s\n", name, quoted, problem)
	}
	golden.File(t, "testdata/checks.txt", lines.String())
}
