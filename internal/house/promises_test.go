package house

import (
	"regexp"
	"strings"
	"testing"
)

var (
	promise   = regexp.MustCompile(`(?m)^## \d+\. .*$`)
	namedTest = regexp.MustCompile("\\[`((?:Test|Fuzz)\\w+)`\\]\\(\\.\\./([\\w/]+_test\\.go)\\)")
	testName  = regexp.MustCompile("`(?:Test|Fuzz)\\w+`")
)

// docs/PROMISES.md names for each promise the tests that break with it, and each test is there.
func TestPromisesNameTestsThatExist(t *testing.T) {
	page := []byte(readFile(t, "docs/PROMISES.md"))
	heads := promise.FindAllIndex(page, -1)
	if len(heads) != 7 {
		t.Fatalf("%d promises", len(heads))
	}
	linked := namedTest.FindAll(page, -1)
	if all := testName.FindAll(page, -1); len(all) != len(linked) {
		t.Errorf("%d tests are named and %d of them linked", len(all), len(linked))
	}
	for i, head := range heads {
		end := len(page)
		if i+1 < len(heads) {
			end = heads[i+1][0]
		}
		named := namedTest.FindAllSubmatch(page[head[1]:end], -1)
		if len(named) == 0 {
			t.Errorf("%s: no test holds it", page[head[0]:head[1]])
		}
		for _, m := range named {
			if !strings.Contains(readFile(t, string(m[2])), "\nfunc "+string(m[1])+"(") {
				t.Errorf("%s is not in %s", m[1], m[2])
			}
		}
	}
}
