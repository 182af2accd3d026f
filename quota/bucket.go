package quota

import "strings"

// escape makes the separators unambiguous, so that two different lists of parts never give the same bucket.
var escape = strings.NewReplacer("%", "%25", ":", "%3A", familySeparator, "%7C")

// Bucket joins parts, such as app, channel, policy, scope and subject, to the name of a bucket. Different parts give different
// names, even if a part is empty or contains the separator.
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

const familySeparator = "|"

// InFamily returns the name of a bucket of a family, such as one recipient's bucket under one policy. The family has the buckets among
// which callers may divide the same events in different ways; see Request.Logged. On Cluster all of them are on one node.
func InFamily(family, bucket string) string { return family + familySeparator + bucket }

// familyOf returns the name under which a limiter remembers how the events of the bucket's family are divided; empty for a bucket without
// a family.
func familyOf(bucket string) string {
	return bucket[:strings.Index(bucket, familySeparator)+1]
}
