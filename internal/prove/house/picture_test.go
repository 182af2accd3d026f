package house

import (
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The picture of a send in ARCHITECTURE.md is true: a line is an import, a dotted one an interface
// where there must be none.
func TestThePictureOfASendIsTrue(t *testing.T) {
	imports := map[string][]string{}
	for _, s := range sources(t) {
		if !s.test {
			imports[s.pkg] = append(imports[s.pkg], s.imports...)
		}
	}
	place := func(name string) string {
		for pkg := range imports {
			if pkg == name || strings.HasPrefix(pkg, "internal/") && strings.HasSuffix(pkg, "/"+name) {
				return pkg
			}
		}
		t.Fatalf("the picture names %s, which is not there", name)
		return ""
	}
	lines := regexp.MustCompile(`(?m)^ *([\w/, ]+) (──|··)▶ ([\w/, ]+)$`).FindAllStringSubmatch(readFile(t, "docs/ARCHITECTURE.md"), -1)
	for _, m := range lines {
		for a := range strings.SplitSeq(m[1], ", ") {
			for b := range strings.SplitSeq(m[3], ", ") {
				if has := slices.Contains(imports[place(a)], module+place(b)); has != (m[2] == "──") {
					t.Errorf("%s: %s imports %s is %v", m[0], a, b, has)
				}
			}
		}
	}
	if len(lines) < 10 {
		t.Errorf("the picture has %d lines alone", len(lines))
	}
}

// The way of a send, the list of what changes a wait and the walks name functions, types, fields and
// methods that there are: behind the name of a package, of that package.
func TestTheWalksNameFunctions(t *testing.T) {
	_, walks, _ := strings.Cut(readFile(t, "docs/ARCHITECTURE.md"), "## The way of a send")
	walks, _, _ = strings.Cut(walks, "## The packages")
	declares := regexp.MustCompile(`(?m)^(?:func (?:\([^)]*\) )?|type |var |const |\t)(\w+)[ \[(]`)
	declared, packages := map[string]bool{"ttl": true, "config": true}, map[string]bool{} // "Send" and "verification.Send"
	for _, s := range sources(t) {
		name := path.Base(s.pkg)
		packages[name] = true
		for _, m := range declares.FindAllStringSubmatch(s.text, -1) {
			declared[m[1]], declared[name+"."+m[1]] = true, true
		}
	}
	named := regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(walks, -1)
	for _, m := range named {
		name := m[1]
		if strings.Contains(name, "/") { // a file
			continue
		}
		if of, own, qualified := strings.Cut(name, "."); qualified && !packages[of] {
			name = own // of a type
		}
		if !declared[name] {
			t.Errorf("%s is named in a walk and is not there", m[1])
		}
	}
	if len(named) < 75 {
		t.Errorf("the walks name %d functions", len(named))
	}
}
