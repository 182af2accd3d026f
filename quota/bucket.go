package quota

import "strings"

var separatorEscaper = strings.NewReplacer("%", "%25", ":", "%3A")

// Bucket joins parts, such as app, channel, policy, scope and subject, into a bucket's name.
// Different parts give different names, even if one is empty or contains the separator.
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
		b.WriteString(separatorEscaper.Replace(part))
	}
	return b.String()
}
