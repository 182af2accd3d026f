package app

import "runtime/debug"

// nextVersion is the version of the next release of this tree (Semantic Versioning 2.0.0); it
// becomes the tag v0.1.0.
const nextVersion = "0.1.0"

// version is set by the linker (see the Makefile). At the tag of nextVersion it is nextVersion,
// otherwise nextVersion with "-dev+" and the commit.
var version string

// Version returns the program's version: "0.1.0" or, between tags, "0.1.0-dev+" with the commit if
// the build knows it.
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
