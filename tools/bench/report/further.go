package report

import (
	"fmt"
	"time"
)

func (r Results) level() string {
	l := r.Level
	if len(l.Sends) == 0 {
		return ""
	}
	vacuum := "off"
	if l.Vacuum {
		vacuum = "on"
	}
	n := len(l.Sends)
	g := newGrid("seconds", "sends/s", "processor time of a send, µs")
	step := max(1, n/12)
	for first := 0; first+step <= n; first += step {
		sum := 0
		for _, sends := range l.Sends[first : first+step] {
			sum += sends
		}
		g.add(fmt.Sprintf("%d–%d", first, first+step), number(float64(sum)/float64(step)), micros(l.cost(first, first+step)))
	}
	return fmt.Sprintf("%d callers for %d s, autovacuum %s. The last %d s against the first: %s times the sends, %s times the processor "+
		"time for each in the program, "+
		"Postgres and Redis.\n\n", l.Callers, n, vacuum, edge, number(l.Ratio()), number(l.CostRatio())) + g.String()
}

func (r Results) takes() string {
	if len(r.Takes) == 0 {
		return ""
	}
	g := newGrid("callers", "program", "answers/s", "200 p50, ms", "200 p99, ms", "the program, µs")
	var all []Goal
	for _, n := range r.Takes.Callers() {
		for _, name := range []string{Ours, Bare} {
			cell := func(of func(Run) float64) string { return r.Takes.Over(name, n, of).String() }
			g.add(fmt.Sprint(n), name, cell(Run.Rate), cell(wait(.5, answers)), cell(wait(.99, answers)),
				cell(func(r Run) float64 { return float64(r.CPUEach(Service)) / float64(time.Microsecond) }))
		}
		all = append(all, r.takesGoal(n))
	}
	return "`POST /v1/limits/{limit}/take` of a rule over one key, decided in Redis, for 10,000 keys, beside bare HTTP, by turns.\n" +
		foreign(r.Takes) + "\n" + g.String() + "\n" + goals(all...)
}

func (r Results) attack() string {
	a := r.Attack
	if !a.known() {
		return ""
	}
	g := newGrid("honest 202", "quiet, ms", "attacked, ms", "ratio")
	for _, q := range []float64{.5, .99} {
		g.add(fmt.Sprintf("p%.0f", q*100), millis(Quantile(q, a.Quiet)), millis(Quantile(q, a.Beside)), number(a.Ratio(q)))
	}
	return fmt.Sprintf("%d honest requests a second, each for another recipient, beside %d callers that ask for one recipient as often "+
		"as they are answered (%s requests/s, in a "+
		"process on one processor). %d honest requests were refused.\n\n", a.Honest, a.Attackers, number(a.Rate), a.Refused) + g.String()
}

func (r Results) limiter() string {
	if len(r.Limiter) == 0 {
		return ""
	}
	g := newGrid("outcome, or what differs", "callers", "way", "decisions/s", "Redis, µs", "÷ bare script")
	for _, rival := range r.Limiter {
		g.add(rival.Outcome, fmt.Sprint(rival.Callers), rival.Name, number(rival.Rate), number(rival.Redis), number(rival.Bare))
	}
	out := "The default policy decided in several ways by turns, without HTTP and Postgres (`go test -run='^$' -bench='Rivals|TakeBy' " +
		"./quota`).\n\n" + g.String()
	ratios := newGrid("outcome", "callers", "ours ÷ redis_rate three times", "ours ÷ bare script")
	for _, rival := range r.Limiter {
		if rival.Name == ourLimiter {
			x := r.Limiter.ratios(rival.Outcome, rival.Callers)
			ratios.add(rival.Outcome, fmt.Sprint(rival.Callers), number(x.rival), number(x.bare))
		}
	}
	return out + "\n" + ratios.String()
}

func (r Results) rows() string {
	if len(r.Rows) == 0 {
		return ""
	}
	g := newGrid("rows", "sends/s", "the program, µs", "Postgres", "Redis", "WAL, bytes", "all three ÷ first")
	for _, row := range r.Rows {
		cell := func(of func(Run) float64) string { return over(row.Runs, of).String() }
		cpu := func(process string) string {
			return cell(func(r Run) float64 { return float64(r.CPUEach(process)) / float64(time.Microsecond) })
		}
		g.add(thousands(float64(row.Rows)), cell(Run.Rate), cpu(Service), cpu(Postgres), cpu(Redis),
			cell(func(r Run) float64 { return r.each(r.WAL.Bytes) }), number(float64(row.CPU())/float64(r.Rows[0].CPU())))
	}
	return "Sends of 64 callers on databases that hold so many rows of the last 90 days, by turns (`make bench-rows`).\n\n" + g.String() +
		"\n" + goals(r.rowsGoal())
}

// needs are the arithmetic: unit costs, assumptions, results.
func (r Results) needs() string {
	u := r.Units
	if u.Service == 0 {
		return ""
	}
	units := newGrid("unit", "measured")
	units.add("processor time of a send and one check: the program", micros(u.Service)+" µs")
	units.add("… Postgres", micros(u.Postgres)+" µs")
	units.add("… Redis", micros(u.Redis)+" µs")
	units.add("WAL of a send, without whole pages", size(u.WAL))
	units.add("tables and indexes of a send", size(u.Row))
	units.add("memory of Redis for a recipient", size(u.Key))
	small, large := Need(u, 10e6), Need(u, 100e6)
	g := newGrid("need", "10M sends a day", "100M sends a day")
	add := func(name string, of func(Needs) string) { g.add(name, of(small), of(large)) }
	add("sends a second, mean", func(n Needs) string { return number(n.Mean) })
	add("sends a second, peak", func(n Needs) string { return number(n.Peak) })
	add("processors for the program", func(n Needs) string { return number(n.Service) })
	add("replicas", func(n Needs) string { return thousands(float64(n.Replicas)) })
	add("processors for Postgres", func(n Needs) string { return number(n.Postgres) })
	add("processors for Redis", func(n Needs) string { return number(n.Redis) })
	add("WAL a day", func(n Needs) string { return size(n.WALDay) })
	add("WAL a second, peak", func(n Needs) string { return size(n.WALPeak) })
	add("whole pages in the WAL a day, at most", func(n Needs) string { return size(n.Pages) })
	add("disk for the log", func(n Needs) string { return size(n.Disk) })
	add("connections to Postgres", func(n Needs) string { return thousands(float64(n.Connections)) })
	add("connections to mail servers, peak", func(n Needs) string { return thousands(float64(n.Mail)) })
	add("memory of Redis", func(n Needs) string { return size(n.Memory) })
	return "The unit costs, at 64 callers on this machine:\n\n" + units.String() + fmt.Sprintf(`
What the arithmetic takes for granted: each code is sent once and checked once; the busiest second has %d times the mean; no processor is more than %.0f %% busy
then; rows are kept for %d days; a replica has %d processors and %d connections to Postgres; a mail server takes %.1f s for a mail; every send is for another recipient, whose
events Redis keeps for a day; %d index entries of a send are in no order of time (its recipient, and the key of its verification).

`, PeakFactor, Busy*100, Retention, PerReplica, Pool, MailTime, Scattered) + g.String() + `
- Processors: sends a second at the peak × processor time ÷ how busy a processor may be. Redis runs scripts in one thread: beyond one processor it has to be a Redis Cluster.
- WAL: sends × bytes. After a checkpoint the first change of each page writes the page as a whole. Entries in the order of time share few pages; of the others each
  may meet a page of its own, so the bound is sends × such entries × 8 kB. Longer between checkpoints and ` + "`wal_compression`" + ` make it less.
- Disk: sends × days × bytes of tables and indexes; the room between vacuums is in the measured bytes only as far as it was made while measuring.
- Connections: replicas × those of one; mail: sends a second at the peak × time of a mail.
- Redis: recipients a day × bytes.
- One Postgres takes all writes. Where the table asks for more processors than one machine has, apps have to be divided among several installations.
`
}
