package house

import (
	"cmp"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// Each file keeps the rules that the compiler and staticcheck don't check.
func TestSourcesKeepTheRules(t *testing.T) {
	sleeps, numbered := regexp.MustCompile(`\btime\.Sleep\b`), regexp.MustCompile(`\$[0-9]`)
	methods, receivers := regexp.MustCompile(`(?m)^func \((\w+) \*?(\w+)`), map[string]string{}
	for _, s := range sources(t) {
		if s.pkg == "internal/prove/house" { // this package contains the words that it forbids
			continue
		}
		fakeClock := s.test && (slices.Contains(s.imports, "testing/synctest") || strings.Contains(s.text, "servertest.Bubble(") ||
			s.pkg == bubbles)
		for complaint, broken := range map[string]bool{
			"calls time.Sleep; wait for the condition, or take the waiting as an argument": !fakeClock &&
				sleepers[s.name] == "" && sleeps.MatchString(s.text),
			"calls synctest.Test, which crashes under the race detector; servertest.Bubble does not": s.pkg != bubbles &&
				strings.Contains(s.text, "synctest.Test("),
			"declares func init; do it where main can see it": strings.Contains(s.text, "\nfunc init()"),
			"numbers a statement's parameter; give it a name, as @id": !s.test && numbered.MatchString(s.text) &&
				slices.Contains([]string{"internal/store/postgres", "internal/store/sqldb", "internal/store/sqlgen"}, s.pkg),
		} {
			if broken {
				t.Errorf("%s %s", s.name, complaint)
			}
		}
		// Both the product and a test kit construct each of these types, so a new part of one must
		// be connected in two places.
		for maker, kit := range map[string]string{
			"internal/run/app/core": "internal/verify/verification/verificationtest",
			"internal/http/api":     "internal/verify/verification/verificationtest",
			"internal/http/page":    "internal/http/page/pagetest",
			"internal/run/app":      "internal/run/app/apptest",
		} {
			if !slices.Contains([]string{maker, kit, "internal/run/app"}, s.pkg) && slices.Contains(s.imports, module+maker) &&
				regexp.MustCompile(`\b`+path.Base(maker)+`\.New\(`).MatchString(s.text) {
				t.Errorf("%s calls New of %s; take what %s makes", s.name, maker, kit)
			}
		}
		for _, m := range methods.FindAllStringSubmatch(s.text, -1) {
			receiver, of := m[1], m[2]
			if receiver == "_" {
				continue
			}
			if !matchesType(receiver, of) {
				t.Errorf("%s: the receiver %s of %s must begin a word of the type's name, or be its initials", s.name, receiver, of)
			}
			if other := cmp.Or(receivers[s.pkg+"."+of], receiver); other != receiver {
				t.Errorf("%s: the receiver of %s is both %s and %s", s.name, of, receiver, other)
			}
			receivers[s.pkg+"."+of] = receiver
		}
	}
}

// matchesType reports whether a receiver is the beginning of a word in its type's name, or the
// initials of the words.
func matchesType(receiver, of string) bool {
	initials := ""
	for i, r := range of {
		if i > 0 && !unicode.IsUpper(r) {
			continue
		}
		if strings.HasPrefix(strings.ToLower(of[i:]), receiver) {
			return true
		}
		initials += string(unicode.ToLower(r))
	}
	return receiver == initials
}
