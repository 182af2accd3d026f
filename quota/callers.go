package quota

import "strings"

const browsersOnly = "/browsers"

// OfBrowsers is the scope of a rule that counts and refuses events of browsers alone. It has a bucket of its own, so that other
// events of the same subject take none of its places. [Validate] takes the scope without it: which callers there are, the
// program that calls the limiter knows.
func (s Scope) OfBrowsers() Scope { return s.Base() + browsersOnly }

// Browsers reports whether the scope is one of OfBrowsers.
func (s Scope) Browsers() bool { return strings.HasSuffix(string(s), browsersOnly) }

// Base is the scope without the restriction to browsers.
func (s Scope) Base() Scope { return Scope(strings.TrimSuffix(string(s), browsersOnly)) }
