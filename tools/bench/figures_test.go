//go:build nightly

package bench

import (
	"errors"
	"io"
	"math"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"sendcode/internal/kit/servertest"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/prometheus/procfs"
)

// The figures of one run. Those from service on are of one request, but for memory.
const (
	rate = iota // requests a second, until the last answer and mail were there
	p50
	p99
	service // processor time, as the next two
	inRedis
	inPostgres
	allocations
	allocated // bytes
	statements
	walBytes // without whole pages, which follow upon a checkpoint
	diskBytes
	redisBytes
	memory // resident, of the program, after the run
	figureCount
)

var figureNames = [figureCount]string{
	"a second", "p50, ms", "p99, ms", "program, µs", "Redis, µs", "Postgres, µs",
	"allocations", "allocated, B", "statements", "WAL, B", "disk, B", "Redis, B", "memory, MB",
}

type figures [figureCount]float64

// unknown is a figure that a contender has not.
var unknown = math.NaN()

// processor is the processor time of a request in the program and its servers, in µs.
func processor(f figures) float64 {
	if math.IsNaN(f[inPostgres]) {
		return f[service] + f[inRedis]
	}
	return f[service] + f[inRedis] + f[inPostgres]
}

// figure is one of the figures.
func figure(i int) func(figures) float64 { return func(f figures) float64 { return f[i] } }

// The work that follows a run's last answer, such as outcomes, has ended once the program used less
// than idle of processor time within one interval quiet. At most mostQuiet intervals are waited.
const (
	quiet     = 200 * time.Millisecond
	idle      = 30_000 // µs
	mostQuiet = 50
)

// measure has a contender asked for a time, or until every code of the list was asked about, and
// returns what that cost.
func (ri *rig) measure(c *contender, callers int, workload string) (f figures) {
	counts, position := ri.counts(c)
	spent := ri.spent(c)
	var samples []sample
	if callers == openLoop {
		samples = ri.open(c, ri.half, ri.length)
	} else {
		samples = ri.closed(c, callers, workload, ri.supply(c, workload))
	}
	if len(samples) == 0 {
		ri.Fatalf("%s, %s: nothing was asked", c.name, workload)
	}
	var began, ended time.Time
	var waits []float64
	var list []*opened
	for _, s := range samples {
		if began.IsZero() || s.asked.Before(began) {
			began = s.asked
		}
		last := s.answered
		if workload == send {
			if at := ri.collect(s.opened); at.After(last) {
				last = at
			}
		}
		if last.After(ended) {
			ended = last
		}
		waits = append(waits, float64(s.answered.Sub(s.asked))/float64(time.Millisecond))
		list = append(list, s.opened)
	}
	if callers != openLoop && workload != flood {
		c.list = list[:min(len(list), mostListed)]
	}
	for i, after := range ri.spentAtRest(c) {
		f[service+i] = after - spent[i]
	}
	after, _ := ri.counts(c)
	for i := allocations; i <= redisBytes; i++ {
		f[i] = after[i] - counts[i]
	}
	f[walBytes] = ri.walSince(c, position)
	for i := service; i <= redisBytes; i++ {
		f[i] = max(f[i], 0) / float64(len(samples))
	}
	f[rate] = float64(len(samples)) / ended.Sub(began).Seconds()
	f[p50], f[p99] = quantile(waits, .5), quantile(waits, .99)
	now, most := ri.memoryOf(c)
	if f[memory] = now; c.name == ours {
		ri.most = max(ri.most, most)
	}
	return f
}

// supply returns what is asked about next, nil at the end: recipients of their own, or the list.
func (ri *rig) supply(c *contender, workload string) func() *opened {
	deadline := time.Now().Add(ri.length)
	var asked atomic.Int64
	return func() *opened {
		if time.Now().After(deadline) {
			return nil
		}
		switch n := int(asked.Add(1)) - 1; {
		case workload == send:
			return ri.recipient()
		case workload == flood:
			return c.list[n%min(len(c.list), floodRecipients)]
		case n < len(c.list):
			return c.list[n]
		}
		return nil
	}
}

// spent is the processor time so far of the program, Redis and Postgres, in µs, in steps of the
// kernel's clock (10 ms).
func (ri *rig) spent(c *contender) [3]float64 {
	postgres := []int{ri.postgres.PID()}
	all, err := procfs.AllProcs()
	ri.must(err)
	for _, p := range all {
		if stat, err := p.Stat(); err == nil && stat.PPID == ri.postgres.PID() {
			postgres = append(postgres, p.PID)
		}
	}
	s := [3]float64{processorTime(c.process.PID()), processorTime(ri.redis.PID()), processorTime(postgres...)}
	if c.database == "" {
		s[2] = unknown
	}
	return s
}

// spentAtRest waits until the program is at rest, and returns what was spent by then.
func (ri *rig) spentAtRest(c *contender) (now [3]float64) {
	before := ri.spent(c)
	for range mostQuiet {
		<-time.After(quiet)
		if now = ri.spent(c); now[0]-before[0] < idle {
			return now
		}
		before = now
	}
	ri.Fatalf("%s does not come to rest", c.name)
	return now
}

// processorTime is that of processes, with that of their children that have ended.
func processorTime(pids ...int) (µs float64) {
	const ticks = 1e6 / 100 // of USER_HZ
	for _, pid := range pids {
		if p, err := procfs.NewProc(pid); err == nil {
			if s, err := p.Stat(); err == nil { // else it ended since
				µs += ticks * (float64(s.UTime) + float64(s.STime) + float64(s.CUTime) + float64(s.CSTime))
			}
		}
	}
	return µs
}

// memoryOf is the resident memory of a program, now and at most so far, in MB.
func (ri *rig) memoryOf(c *contender) (now, most float64) {
	p, err := procfs.NewProc(c.process.PID())
	ri.must(err)
	status, err := p.NewStatus()
	ri.must(err)
	return float64(status.VmRSS) / 1e6, float64(status.VmHWM) / 1e6
}

// counts are allocations, statements and bytes so far, and the position of the log of Postgres.
func (ri *rig) counts(c *contender) (f figures, position string) {
	f[allocations], f[allocated] = ri.allocationsOf(c)
	f[statements], f[diskBytes] = unknown, unknown
	if c.database != "" {
		ri.must(ri.admin.QueryRow(ri.Context(), `
SELECT coalesce(sum(calls), 0)::float8, pg_database_size($1::text)::float8, pg_current_wal_flush_lsn()::text
FROM pg_stat_statements WHERE dbid = (SELECT oid FROM pg_database WHERE datname = $1)`, c.database).Scan(
			&f[statements], &f[diskBytes], &position))
	}
	info, err := ri.client.InfoMap(ri.Context(), "memory").Result()
	ri.must(err)
	f[redisBytes], err = strconv.ParseFloat(info["Memory"]["used_memory"], 64)
	ri.must(err)
	return f, position
}

var allocationsTotal = regexp.MustCompile(`(?m)^go_memstats_(?:alloc_bytes|mallocs)_total (\S+)$`)

// allocationsOf are the allocations of a program so far and their bytes, as its metrics say;
// unknown if it has none.
func (ri *rig) allocationsOf(c *contender) (n, bytes float64) {
	request, err := http.NewRequest(http.MethodGet, "http://"+c.base+"/metrics", nil)
	ri.must(err)
	request.Header.Set("Authorization", "Bearer "+servertest.MetricsToken)
	answer, err := http.DefaultClient.Do(request)
	ri.must(err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	ri.must(err)
	found := allocationsTotal.FindAllSubmatch(text, -1) // in the order of their names
	if len(found) != 2 {
		return unknown, unknown
	}
	bytes, errBytes := strconv.ParseFloat(string(found[0][1]), 64)
	n, err = strconv.ParseFloat(string(found[1][1]), 64)
	ri.must(errors.Join(err, errBytes))
	return n, bytes
}

// walSince is what was written to the log of Postgres since a position, without whole pages.
func (ri *rig) walSince(c *contender, position string) (bytes float64) {
	if c.database == "" {
		return unknown
	}
	err := ri.admin.QueryRow(ri.Context(), `
SELECT coalesce(sum(record_size), 0)::float8 FROM pg_get_wal_stats($1::text::pg_lsn, pg_current_wal_flush_lsn())`, position).Scan(&bytes)
	if refused, ok := errors.AsType[*pgconn.PgError](err); ok && nothingWritten.MatchString(refused.Message) {
		return 0
	}
	ri.must(err)
	return bytes
}

// nothingWritten is what Postgres says where no whole record was flushed since a position.
var nothingWritten = regexp.MustCompile(`^(cannot accept future start LSN|could not find a valid record)`)

// quantile of some values; unknown of none, or if one is.
func quantile(list []float64, q float64) float64 {
	if len(list) == 0 || slices.ContainsFunc(list, math.IsNaN) {
		return unknown
	}
	s := slices.Sorted(slices.Values(list))
	at := q * float64(len(s)-1)
	low := int(at)
	return s[low] + (at-float64(low))*(s[min(low+1, len(s)-1)]-s[low])
}

// median is that of a figure over the rounds.
func (ri *rig) median(at cell, of func(figures) float64) float64 {
	return quantile(each(ri.results[at], of), .5)
}

func each(runs []figures, of func(figures) float64) (list []float64) {
	for _, f := range runs {
		list = append(list, of(f))
	}
	return list
}

// ratios divides a figure of this build by that of another contender, round by round: what
// disturbed one run most likely disturbed its neighbor.
func (ri *rig) ratios(at cell, of func(figures) float64) (list []float64) {
	own := each(ri.results[cell{ours, at.workload, at.callers}], of)
	for i, v := range each(ri.results[at], of) {
		if i < len(own) && v > 0 {
			list = append(list, own[i]/v)
		}
	}
	return list
}
