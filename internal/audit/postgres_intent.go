package audit

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"sendcode/quota"
)

// keys are sorted, so that two replicas that lock the same recipients do not wait for each other in a circle.
func keys(batch []*call) []int64 {
	list := make([]int64, len(batch))
	for i, x := range batch {
		list[i] = x.key
	}
	slices.Sort(list)
	return list
}

// column makes one parameter out of one part of every call.
func column[T any](batch []*call, part func(*Intent) T) []T {
	list := make([]T, len(batch))
	for i, x := range batch {
		list[i] = part(&x.in)
	}
	return list
}

// parameters are those of postgres_begin.sql, in its order. The log's clock is somewhere near the instant given.
func parameters(batch []*call, near time.Time) []any {
	text := func(part func(*Intent) string) []string { return column(batch, part) }
	µs := func(part func(*Intent) time.Duration) []int64 {
		return column(batch, func(in *Intent) int64 { return part(in).Microseconds() })
	}
	return append(append([]any{
		column(batch, func(in *Intent) [16]byte { return in.Send.ID }),
		text(func(in *Intent) string { return in.Send.App }),
		text(func(in *Intent) string { return string(in.Send.Channel) }),
		text(func(in *Intent) string { return in.Send.Purpose }),
		column(batch, func(in *Intent) []byte { return in.Send.Recipient[:] }),
		text(func(in *Intent) string { return in.Send.To }),
		text(func(in *Intent) string { return in.Send.Locale }),
		text(func(in *Intent) string { return in.Send.Reference }),
		text(func(in *Intent) string { return in.Send.IP }),
		column(batch, func(in *Intent) *time.Time { return known(in.Send.TakenAt) }),
		text(func(in *Intent) string { return in.Send.Clock }),
		µs(func(in *Intent) time.Duration { return in.Lease }),
		text(func(in *Intent) string { return strings.Join(in.Purposes, separator) }),
		text(func(in *Intent) string { return list(in.Rules, func(r quota.Rule) int64 { return int64(r.Limit) }) }),
		text(func(in *Intent) string {
			return list(in.Rules, func(r quota.Rule) int64 { return width(r, in).Microseconds() })
		}),
		text(func(in *Intent) string { return turns(in, near) }),
		µs(func(in *Intent) time.Duration { return quota.Longest(in.Rules) }),
		text(func(in *Intent) string { return in.Join }),
		µs(func(in *Intent) time.Duration { return in.MinLife }),
		text(func(in *Intent) string { return in.Verification.ID }),
		column(batch, func(in *Intent) []byte { return in.Verification.Sealed }),
		text(func(in *Intent) string { return in.Verification.Holder }),
		column(batch, func(in *Intent) []byte { return nonNil(in.Verification.Nonce) }),
		text(func(in *Intent) string { return in.Verification.KeyID }),
		column(batch, func(in *Intent) int32 { return int32(in.Verification.CodeLength) }),
		µs(func(in *Intent) time.Duration { return in.Life }),
		column(batch, func(in *Intent) int32 { return int32(in.Verification.MaxAttempts) }),
		text(func(in *Intent) string { return strings.Join(in.Send.Observed, comma) }),
		column(batch, func(in *Intent) int32 { return int32(in.Rejections.Limit) }),
		µs(func(in *Intent) time.Duration { return in.Rejections.Window }),
		text(func(in *Intent) string { return in.Verification.Alphabet }),
		column(batch, func(in *Intent) []byte { return in.Address[:] }),
		text(func(in *Intent) string { return in.Send.Country }),
		text(func(in *Intent) string { return in.Send.Prefix }),
	}, bounds(batch, near)...), column(batch, func(in *Intent) bool { return in.Verification.ByBrowser }))
}

// bounds leave out the partitions that a batch does not need, where the log's clock is found near the instant given: not much
// before it, and up to a day after. Rows of the log's future count, where its clock went back: by a month, here.
func bounds(batch []*call, near time.Time) []any {
	from, to := near.Add(-clockStep), near.Add(24*time.Hour)
	var longest time.Duration
	for _, x := range batch {
		longest = max(longest, quota.Longest(x.in.Rules), x.in.Rejections.Window)
	}
	first, last := span(column(batch, func(in *Intent) [16]byte { return in.Send.ID }))
	return []any{from, to, lowestID(from.Add(-longest - stale - maxDrift)), lowestID(to.Add(clockBack + maxDrift)), first, last}
}

// clockBack is as far as the log's clock may be set back with what was logged before still counting.
const clockBack = 31 * 24 * time.Hour

// list writes a number of each rule as an array of Postgres: arrays of arrays would have to be of one length.
func list(rules []quota.Rule, number func(quota.Rule) int64) string {
	var numbers []int64
	for _, r := range rules {
		numbers = append(numbers, number(r))
	}
	return array(numbers)
}

func array(numbers []int64) string {
	b := []byte{'{'}
	for i, n := range numbers {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, n, 10)
	}
	return string(append(b, '}'))
}

// width is how old an event must be so as not to count, at the instant of the Take; 0 where the log's clock says that one.
func width(r quota.Rule, in *Intent) time.Duration {
	switch {
	case !r.Calendar():
		return r.Window
	case in.Send.Clock == LogClock:
		return 0
	}
	return in.Send.TakenAt.Sub(quota.Cutoffs([]quota.Rule{r}, in.Send.TakenAt)[0])
}

// turns are, of each calendar rule, the four turns of its periods near an instant; of the others four zeros.
func turns(in *Intent, near time.Time) string {
	var all []int64
	for _, r := range in.Rules {
		var four [4]int64
		if r.Calendar() {
			for i, turn := range r.Turns(near) {
				four[i] = turn.UnixMicro()
			}
		}
		all = append(all, four[:]...)
	}
	return array(all)
}

// known is nil for the zero time, which is NULL.
func known(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}
