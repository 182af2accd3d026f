package app

import "runtime/debug"

// nextVersion is the version of the next release (Semantic Versioning 2.0.0). The tag of that
// release is "v" and nextVersion.
const nextVersion = "0.1.0"

// The linker sets version (see the Makefile). If the commit has the tag of nextVersion, version is
// equal to nextVersion. Otherwise version is nextVersion followed by "-dev+" and the commit.
var version string

// Version returns the program's version. At a tag it is "0.1.0", for example. Between tags it is
// "0.1.0-dev+" and the commit. If the build does not know the commit, it is "0.1.0-dev".
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
