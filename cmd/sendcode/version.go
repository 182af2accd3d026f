package main

import (
	"runtime/debug"
	"strings"
)

type version struct{}

func (version) Run(p program) error {
	info, _ := debug.ReadBuildInfo()
	return p.print(describe(info))
}

// describe names the module's version, the commit that it was built from, and the compiler, as far as the build has
// recorded them.
func describe(info *debug.BuildInfo) string {
	if info == nil {
		return "sendcode (version unknown)"
	}
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	words := []string{"sendcode", info.Main.Version}
	if revision := settings["vcs.revision"]; revision != "" {
		words = append(words, "commit", revision[:min(12, len(revision))])
		if settings["vcs.modified"] == "true" {
			words = append(words, "with changes")
		}
	}
	return strings.Join(append(words, info.GoVersion), " ")
}
