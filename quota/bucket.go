package quota

import "strings"

// Two lists of parts never make the same bucket, whatever is in them.
var escape = strings.NewReplacer("%", "%25", ":", "%3A")

// Bucket names a bucket after its parts, at least one: app, channel, policy, scope and subject. Different parts make
// different buckets, also where a part is empty or holds the separator.
func Bucket(parts ...string) string {
	var b strings.Builder
	size := len(parts)
	for _, part := range parts {
		size += len(part)
	}
	b.Grow(size)
	for i, part := range parts {
		if i > 0 {
			b.WriteByte(':')
		}
		b.WriteString(escape.Replace(part))
	}
	return b.String()
}

const browsersOnly = "/browsers"

// OfBrowsers is the scope of a rule that counts and refuses events of browsers alone. It has a bucket of its own, so that other
// events of the same subject take none of its places. [Validate] takes the scope without it: which callers there are, the
// program that calls the limiter knows.
func (s Scope) OfBrowsers() Scope { return s.Base() + browsersOnly }

// Browsers reports whether the scope is one of OfBrowsers.
func (s Scope) Browsers() bool { return strings.HasSuffix(string(s), browsersOnly) }

// Base is the scope without the restriction to browsers.
func (s Scope) Base() Scope { return Scope(strings.TrimSuffix(string(s), browsersOnly)) }
