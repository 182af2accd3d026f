//go:build nightly

package bench

import (
	"fmt"
	"slices"
	"time"
)

// The contenders, as the document names them.
const (
	ours       = "ours"
	embedded   = "embedded"
	fairFloor  = "fair floor"
	plainFloor = "plain floor"
	bareHTTP   = "bare HTTP"
)

// The processes that a send costs time of.
const (
	inProgram  = "program"
	inPostgres = "Postgres"
	inRedis    = "Redis"
	inCallers  = "callers" // and the mail server
)

// run is one run of one contender.
type run struct {
	sends   int
	took    time.Duration            // until the last mail, or answer, was there
	answers []time.Duration          // from request to 202
	mails   []time.Duration          // from the 202 to the final dot of the mail; 0: the mail was there before
	cpu     map[string]time.Duration // by process
	wal     walRecords
	mallocs float64
	foreign float64 // share of the machine's processors that other programs had meanwhile
}

// walRecords are what a run added to the write-ahead log of Postgres.
type walRecords struct {
	bytes, images float64 // images: of whole pages, which follow upon a checkpoint; not in bytes
	entries       float64 // records that add an entry to a B-tree
	commits       float64
}

// figure is a value of one run.
type figure func(run) float64

// rate is sends a second.
func rate(r run) float64 { return float64(r.sends) / max(r.took.Seconds(), 1e-9) }

// each is a sum for one send.
func each(sum figure) figure { return func(r run) float64 { return sum(r) / float64(max(1, r.sends)) } }

// cpu is the processor time of a send in µs; of all processes if none is named.
func cpu(processes ...string) figure {
	return each(func(r run) (sum float64) {
		for name, spent := range r.cpu {
			if len(processes) == 0 || slices.Contains(processes, name) {
				sum += float64(spent) / float64(time.Microsecond)
			}
		}
		return sum
	})
}

var walBytes = each(func(r run) float64 { return r.wal.bytes })

// answered and mailed are quantiles of the waits of a run, in ms.
func answered(q float64) figure { return func(r run) float64 { return quantile(q, r.answers) } }
func mailed(q float64) figure   { return func(r run) float64 { return quantile(q, r.mails) } }

// quantile of some waits, in ms; 0 of none.
func quantile(q float64, waits []time.Duration) float64 {
	if len(waits) == 0 {
		return 0
	}
	all := slices.Sorted(slices.Values(waits))
	return float64(all[min(len(all)-1, int(q*float64(len(all))))]) / float64(time.Millisecond)
}

// spread is a value over the rounds.
type spread struct{ median, low, high float64 }

func spreadOf(list []float64) spread {
	if len(list) == 0 {
		return spread{}
	}
	s := slices.Sorted(slices.Values(list))
	n := len(s)
	return spread{median: (s[(n-1)/2] + s[n/2]) / 2, low: s[0], high: s[n-1]}
}

// String is the median and, in brackets, the lowest and the highest.
func (s spread) String() string {
	if s.low == s.high {
		return number(s.median)
	}
	return fmt.Sprintf("%s (%s–%s)", number(s.median), number(s.low), number(s.high))
}

func over(runs []run, value figure) spread {
	var list []float64
	for _, r := range runs {
		list = append(list, value(r))
	}
	return spreadOf(list)
}

// median is that of a value over the rounds.
func median(runs []run, value figure) float64 { return over(runs, value).median }

// ratio is the median of a value of some runs, each divided by that of the run of others in the
// same round: what disturbed one run most likely disturbed its neighbor.
func ratio(one, other []run, value figure) float64 {
	var list []float64
	for i := range min(len(one), len(other)) {
		if v := value(other[i]); v > 0 {
			list = append(list, value(one[i])/v)
		}
	}
	return spreadOf(list).median
}
