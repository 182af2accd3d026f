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
