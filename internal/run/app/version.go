package app

import "runtime/debug"

// nextVersion is the version of the next release (Semantic Versioning 2.0.0), whose tag is "v" and
// nextVersion.
const nextVersion = "0.1.0"

// The linker sets version (see the Makefile): to nextVersion at its tag, and otherwise to
// nextVersion, "-dev+" and the commit.
var version string

// Version returns, for example, "0.1.0" at a tag, and "0.1.0-dev+" and the commit between tags. If
// the build doesn't know the commit, it returns "0.1.0-dev".
func Version() string {
	if version != "" {
		return version
	}
	between := nextVersion + "-dev"
	if info, found := debug.ReadBuildInfo(); found {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" && len(s.Value) >= 12 {
				return between + "+" + s.Value[:12]
			}
		}
	}
	return between
}
