package house

import (
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Each file keeps the rules that neither the compiler nor staticcheck knows.
func TestSourcesKeepTheRules(t *testing.T) {
	sleeps := regexp.MustCompile(`\btime\.Sleep\b`)
	for _, s := range sources(t) {
		if s.pkg == "internal/prove/house" { // it names what it forbids
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
		} {
			if broken {
				t.Errorf("%s %s", s.name, complaint)
			}
		}
		// The product and one kit put each of these together, so a new part of it is wired in two places.
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
	}
}
