// Package report turns the runs of a bench into docs/PERFORMANCE.md: medians with their spread, ratios of runs that were neighbours,
// and what so many sends a day need. It measures nothing, so that all of it can be tested.
package report

import (
	"slices"
	"time"
)

// The contenders.
const (
	Ours  = "ours"
	Fair  = "fair floor"
	Plain = "plain floor"
	Bare  = "bare HTTP"
)

// Contenders in the order of the tables.
var Contenders = []string{Ours, Fair, Plain, Bare}

// The processes that a send costs time of.
const (
	Service  = "program"
	Postgres = "Postgres"
	Redis    = "Redis"
	Receiver = "mail server"
	Callers  = "callers"
)

// Run is one run of one contender.
type Run struct {
	Sends   int
	Took    time.Duration            // until the last mail, or answer, was there
	Answers []time.Duration          // from request to 202
	Mails   []time.Duration          // from the 202 to the final dot of the mail; 0: the mail was there before
	CPU     map[string]time.Duration // by process
	WAL     WAL
	Mallocs float64
	Foreign float64 // share of the machine's processors that other programs had meanwhile
}

// WAL is what a run added to the write-ahead log of Postgres.
type WAL struct {
	Bytes, Images float64 // Images: of whole pages, which follow upon a checkpoint; not in Bytes
	Entries       float64 // records that add an entry to a B-tree
	Commits       float64
}

// Rate is sends a second.
func (r Run) Rate() float64 {
	if r.Took <= 0 {
		return 0
	}
	return float64(r.Sends) / r.Took.Seconds()
}

// each is a share of one send.
func (r Run) each(sum float64) float64 { return sum / float64(max(1, r.Sends)) }

// CPUEach is processor time for each send; of all processes if none is named.
func (r Run) CPUEach(processes ...string) time.Duration {
	var sum time.Duration
	for name, spent := range r.CPU {
		if len(processes) == 0 || slices.Contains(processes, name) {
			sum += spent
		}
	}
	return time.Duration(r.each(float64(sum)))
}

// Board has the runs of each contender at each number of callers, in the order of the rounds.
type Board map[Key][]Run

// Key names a row of the board.
type Key struct {
	Contender string
	Callers   int
}

// Add adds a run.
func (b Board) Add(contender string, callers int, r Run) {
	k := Key{contender, callers}
	b[k] = append(b[k], r)
}

// Callers are the numbers of callers that were measured.
func (b Board) Callers() (list []int) {
	for k := range b {
		list = append(list, k.Callers)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// Spread is a value over the rounds.
type Spread struct{ Median, Low, High float64 }

// SpreadOf sums a list up.
func SpreadOf(list []float64) Spread {
	if len(list) == 0 {
		return Spread{}
	}
	s := slices.Sorted(slices.Values(list))
	n := len(s)
	return Spread{Median: (s[(n-1)/2] + s[n/2]) / 2, Low: s[0], High: s[n-1]}
}

// Over is a value of each run of a row.
func (b Board) Over(contender string, callers int, value func(Run) float64) Spread {
	return over(b[Key{contender, callers}], value)
}

func over(runs []Run, value func(Run) float64) Spread {
	var list []float64
	for _, r := range runs {
		list = append(list, value(r))
	}
	return SpreadOf(list)
}

// Ratio compares two contenders round by round: what disturbed one run most likely disturbed its neighbour.
func (b Board) Ratio(one, other string, callers int, value func(Run) float64) Spread {
	var list []float64
	left, right := b[Key{one, callers}], b[Key{other, callers}]
	for i := range min(len(left), len(right)) {
		if v := value(right[i]); v > 0 {
			list = append(list, value(left[i])/v)
		}
	}
	return SpreadOf(list)
}

// Highest is the highest median of sends a second.
func (b Board) Highest(contender string) (rate float64) {
	for _, n := range b.Callers() {
		rate = max(rate, b.Over(contender, n, Run.Rate).Median)
	}
	return rate
}

// Quantile of some waits; 0 of none.
func Quantile(q float64, waits ...[]time.Duration) time.Duration {
	all := slices.Concat(waits...)
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[min(len(all)-1, int(q*float64(len(all))))]
}

// wait is a quantile of the waits of one run, in ms.
func wait(q float64, of func(Run) []time.Duration) func(Run) float64 {
	return func(r Run) float64 { return ms(Quantile(q, of(r))) }
}

func answers(r Run) []time.Duration { return r.Answers }
func mails(r Run) []time.Duration   { return r.Mails }

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
