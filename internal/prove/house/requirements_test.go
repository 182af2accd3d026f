package house

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
)

// requirement is a row of docs/requirements.md.
var requirement = regexp.MustCompile(`(?m)^\| ([A-Z]+)-(\d+) \| (.+) \| (.*) \|$`)

// Each requirement has one row, in order, that says what it demands and names a test. TestDocumentsNameTestsThatExist
// looks for the tests. SECURITY.md says what a code proves.
func TestEveryRequirementHasATest(t *testing.T) {
	last := map[string]int{}
	for _, m := range requirement.FindAllStringSubmatch(readFile(t, "docs/requirements.md"), -1) {
		last[m[1]]++
		if want := fmt.Sprint(last[m[1]]); m[2] != want || len(namesOf(namedTest, m[4])) == 0 {
			t.Errorf("%s-%s follows %s-%d and names the tests %q", m[1], m[2], m[1], last[m[1]]-1, m[4])
		}
	}
	want := map[string]int{"QUOTA": 27, "API": 11, "SEC": 28, "MAIL": 21, "SMS": 10, "UI": 14, "AUDIT": 7, "OPS": 18, "TEST": 7}
	if fmt.Sprint(last) != fmt.Sprint(want) {
		t.Errorf("there are %v, want %v", last, want)
	}
	if !strings.Contains(readFile(t, "SECURITY.md"), "does not accept e-mail as an authenticator") {
		t.Error("SECURITY.md does not say that a code by e-mail is no authenticator")
	}
}
