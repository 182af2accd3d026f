//go:build nightly

package bench

import (
	"io"
	"math"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"sendcode/internal/kit/servertest"

	"github.com/prometheus/procfs"
)

// These are the figures of one run. The figures from service on are for one request.
const (
	rate = iota // requests a second, until the last answer and mail were there
	p50
	p99
	processor // time of a request in the program and its servers
	memory    // the program's resident memory after the run
	service   // processor time, like the next two
	inRedis
	inPostgres
	allocations
	statements
	walBytes // without the full pages after a checkpoint
	diskBytes
	redisBytes
	figureCount
)

var figureNames = [figureCount]string{
	"a second", "p50, ms", "p99, ms", "processor, µs", "memory, MB", "program, µs", "Redis, µs", "Postgres, µs",
	"allocations", "statements", "WAL, B", "disk, B", "Redis, B",
}

type figures [figureCount]float64

// unknown is a figure that was not measured for a contender.
var unknown = math.NaN()

// The work after a run's last answer, such as outcomes, counts as ended once the program has used
// less processor time than idle within one interval of the length quiet. The bench waits for at
// most mostQuiet intervals.
const (
	quiet     = 200 * time.Millisecond
	idle      = 30_000 // µs
	mostQuiet = 50
)

// measure sends requests to a contender for a time, or until every code of the list is used, and
// returns the figures.
func (ri *rig) measure(c *contender, callers int, workload string) (f figures) {
	counts, spent, began := ri.counts(c), ri.spent(c), time.Now()
	samples := ri.closed(c, callers, workload, ri.supply(c, workload))
	if len(samples) == 0 {
		ri.Fatalf("%s, %s: nothing was asked", c.name, workload)
	}
	var ended time.Time
	var waits []float64
	var list []*opened
	for _, s := range samples {
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
	if workload != flood && workload != wideFlood {
		c.list = list[:min(len(list), mostListed)]
	}
	for i, after := range ri.spentAtRest(c) {
		f[service+i] = after - spent[i]
	}
	after := ri.counts(c)
	for i := allocations; i <= redisBytes; i++ {
		f[i] = after[i] - counts[i]
	}
	for i := service; i <= redisBytes; i++ {
		f[i] = max(f[i], 0) / float64(len(samples))
	}
	f[processor] = f[service] + f[inRedis] + f[inPostgres]
	f[rate] = float64(len(samples)) / ended.Sub(began).Seconds()
	f[p50], f[p99] = quantile(waits, .5), quantile(waits, .99)
	f[memory] = ri.memoryOf(c)
	return f
}

// supply returns a function that returns the next code of a run, or nil at the end. Each code has a
// new recipient, or comes from the list.
func (ri *rig) supply(c *contender, workload string) func() *opened {
	deadline := time.Now().Add(*length)
	var asked atomic.Int64
	return func() *opened {
		if time.Now().After(deadline) {
			return nil
		}
		switch n := int(asked.Add(1)) - 1; {
		case workload == send:
			return ri.recipient()
		case workload == flood:
			return c.list[len(c.list)-1]
		case workload == wideFlood:
			return c.list[n%min(len(c.list), mostFlooded)]
		case n < len(c.list):
			return c.list[n]
		}
		return nil
	}
}

// spent returns the processor time that the program, Redis and Postgres have used so far, in µs. It
// grows in steps of the kernel's clock (10 ms).
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
		s[2] = 0 // other programs use this server, too
	}
	return s
}

// spentAtRest waits until the program is at rest, and returns the processor time until then.
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

// processorTime returns the processor time of processes and of their children that have ended.
func processorTime(pids ...int) (µs float64) {
	const ticks = 1e6 / 100 // µs in a tick of USER_HZ
	for _, pid := range pids {
		if p, err := procfs.NewProc(pid); err == nil {
			if s, err := p.Stat(); err == nil { // otherwise the process has just ended
				µs += ticks * (float64(s.UTime) + float64(s.STime) + float64(s.CUTime) + float64(s.CSTime))
			}
		}
	}
	return µs
}

// memoryOf returns the resident memory of a program, in MB.
func (ri *rig) memoryOf(c *contender) float64 {
	p, err := procfs.NewProc(c.process.PID())
	ri.must(err)
	status, err := p.NewStatus()
	ri.must(err)
	return float64(status.VmRSS) / 1e6
}

// counts returns the allocations, statements and bytes so far.
func (ri *rig) counts(c *contender) (f figures) {
	f[allocations] = ri.allocationsOf(c)
	f[statements], f[diskBytes], f[walBytes] = unknown, unknown, unknown
	if c.database != "" {
		ri.must(ri.admin.QueryRow(ri.Context(), `
SELECT coalesce(sum(calls), 0)::float8, pg_database_size($1::text)::float8, pg_wal_lsn_diff(pg_current_wal_flush_lsn(), '0/0')::float8
FROM pg_stat_statements WHERE dbid = (SELECT oid FROM pg_database WHERE datname = $1)`, c.database).Scan(
			&f[statements], &f[diskBytes], &f[walBytes]))
	}
	info, err := ri.client.InfoMap(ri.Context(), "memory").Result()
	ri.must(err)
	f[redisBytes], err = strconv.ParseFloat(info["Memory"]["used_memory"], 64)
	ri.must(err)
	return f
}

var allocationsTotal = regexp.MustCompile(`(?m)^go_memstats_mallocs_total (\S+)$`)

// allocationsOf returns the allocations of a program so far, by its metrics; unknown if it has
// none.
func (ri *rig) allocationsOf(c *contender) float64 {
	request, err := http.NewRequest(http.MethodGet, "http://"+c.base+"/metrics", nil)
	ri.must(err)
	request.Header.Set("Authorization", "Bearer "+servertest.MetricsToken)
	answer, err := http.DefaultClient.Do(request)
	ri.must(err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	ri.must(err)
	found := allocationsTotal.FindSubmatch(text)
	if found == nil {
		return unknown
	}
	n, err := strconv.ParseFloat(string(found[1]), 64)
	ri.must(err)
	return n
}

// quantile returns a quantile of the values. It is unknown if there are none, or if one is unknown.
func quantile(list []float64, q float64) float64 {
	if len(list) == 0 || slices.ContainsFunc(list, math.IsNaN) {
		return unknown
	}
	s := slices.Sorted(slices.Values(list))
	at := q * float64(len(s)-1)
	low := int(at)
	return s[low] + (at-float64(low))*(s[min(low+1, len(s)-1)]-s[low])
}

// each returns a figure's values in all rounds.
func (ri *rig) each(at cell, figure int) (list []float64) {
	for _, f := range ri.results[at] {
		list = append(list, f[figure])
	}
	return list
}

// ratios divides a figure of this build by that of another contender, round by round, because a
// disturbance most likely affects both runs of a round.
func (ri *rig) ratios(at cell, figure int) []float64 {
	own, others := ri.each(cell{ours, at.workload, at.callers}, figure), ri.each(at, figure)
	for i := range others {
		others[i] = own[i] / others[i]
	}
	return others
}
