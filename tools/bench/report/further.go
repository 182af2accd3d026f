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
	n := len(l.Sends)
	text := fmt.Sprintf("%d callers for %d s. The last %d s against the first: %s times the sends, %s times the processor time of a send.\n", l.Callers, n,
		l.edge(), number(l.Ratio()), number(l.CostRatio()))
	if !l.Vacuum {
		return text
	}
	g := newGrid("seconds", "sends/s", "processor time of a send, µs")
	step := l.edge()
	for first := 0; first+step <= n; first += step {
		sum := 0
		for _, sends := range l.Sends[first : first+step] {
			sum += sends
		}
		g.add(fmt.Sprintf("%d–%d", first, first+step), number(float64(sum)/float64(step)), micros(l.cost(first, first+step)))
	}
	return text + "\n" + g.String()
}

func (r Results) takes() string {
	if len(r.Takes) == 0 {
		return ""
	}
	g := newGrid("callers", "program", "answers/s", "200 p50, ms", "200 p99, ms", "the program, µs")
	var all []Goal
	for _, n := range r.Takes.Callers() {
		for _, name := range []string{Ours, Bare} {
			cell := func(of func(Run) float64) string { return number(r.Takes.Over(name, n, of).Median) }
			g.add(fmt.Sprint(n), name, r.Takes.Over(name, n, Run.Rate).String(), cell(wait(.5, answers)), cell(wait(.99, answers)),
				cell(func(r Run) float64 { return float64(r.CPUEach(Service)) / float64(time.Microsecond) }))
		}
		all = append(all, r.takesGoal(n))
	}
	return "`POST /v1/limits/{limit}/take` of one rule, with 10,000 keys in Redis.\n\n" + g.String() + "\n" +
		goals(all...)
}

func (r Results) attack() string {
	a := r.Attack
	if !a.known() {
		return ""
	}
	waits := func(q float64) string {
		return fmt.Sprintf("p%.0f %s ms quiet and %s ms attacked", q*100, millis(Quantile(q, a.Quiet)), millis(Quantile(q, a.Beside)))
	}
	return fmt.Sprintf("%d honest requests a second for different recipients, beside %d callers that request codes for one recipient without "+
		"pause (%s requests/s). %d honest requests were refused. Their 202: %s, %s.\n", a.Honest, a.Attackers, number(a.Rate), a.Refused,
		waits(.5), waits(.99))
}

func (r Results) limiter() string {
	if len(r.Limiter) == 0 {
		return ""
	}
	ours, rate := r.Limiter.find("admitted", 64, ourLimiter), func(name string) string { return number(r.Limiter.find("admitted", 64, name).Rate) }
	return fmt.Sprintf("The default policy without HTTP and Postgres, 64 callers: %s decisions/s at %s µs of Redis each; three calls of redis_rate make "+
		"%s, a script that returns 1 makes %s ([more](../quota/README.md#how-fast)).\n", number(ours.Rate), number(ours.Redis), rate(rivalLimiter), rate(bareScript))
}

func (r Results) rows() string {
	if len(r.Rows) == 0 {
		return ""
	}
	g := newGrid("rows", "sends/s", "the program, µs", "Postgres", "Redis", "WAL, bytes", "all three ÷ first")
	for _, row := range r.Rows {
		cell := func(of func(Run) float64) string { return number(over(row.Runs, of).Median) }
		cpu := func(process string) string {
			return cell(func(r Run) float64 { return float64(r.CPUEach(process)) / float64(time.Microsecond) })
		}
		g.add(thousands(float64(row.Rows)), over(row.Runs, Run.Rate).String(), cpu(Service), cpu(Postgres), cpu(Redis),
			cell(func(r Run) float64 { return r.each(r.WAL.Bytes) }), number(float64(row.CPU())/float64(r.Rows[0].CPU())))
	}
	return "Sends of 64 callers on databases with rows of the last 90 days (`make bench-rows`).\n\n" + g.String() +
		"\n" + goals(r.rowsGoal())
}

func (r Results) admin() string {
	if len(r.Admin) == 0 {
		return ""
	}
	head := []string{"question"}
	for _, a := range r.Admin {
		head = append(head, thousands(float64(a.Rows))+" rows: p50, ms", "p99, ms")
	}
	g := newGrid(head...)
	for i, first := range r.Admin[0].Waits {
		row := []string{first.Name}
		for _, a := range r.Admin {
			row = append(row, millis(Quantile(.5, a.Waits[i].Took)), millis(Quantile(.99, a.Waits[i].Took)))
		}
		g.add(row...)
	}
	return g.String()
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
	add("sends a second, peak", func(n Needs) string { return number(n.Peak) })
	add("processors for the program", func(n Needs) string { return number(n.Service) })
	add("replicas", func(n Needs) string { return thousands(float64(n.Replicas)) })
	add("processors for Postgres", func(n Needs) string { return number(n.Postgres) })
	add("processors for Redis", func(n Needs) string { return number(n.Redis) })
	add("WAL a day", func(n Needs) string { return size(n.WALDay) })
	add("whole pages in the WAL a day, at most", func(n Needs) string { return size(n.Pages) })
	add("disk for the log", func(n Needs) string { return size(n.Disk) })
	add("connections to Postgres", func(n Needs) string { return thousands(float64(n.Connections)) })
	add("connections to mail servers, peak", func(n Needs) string { return thousands(float64(n.Mail)) })
	add("memory of Redis", func(n Needs) string { return size(n.Memory) })
	return "Unit costs at 64 callers:\n\n" + units.String() + fmt.Sprintf(`
Assumptions: one check for each send; the busiest second has %d times the mean; processors are at most %.0f %% busy then; rows are kept for %d
days; a replica has %d processors and %d connections to Postgres; a mail takes %.1f s; Redis keeps a recipient for a day.

`, PeakFactor, Busy*100, Retention, PerReplica, Pool, MailTime) + g.String() + fmt.Sprintf(`
- If Redis needs more than one processor, use a Cluster. If Postgres needs more than one machine, divide the apps among installations.
- Postgres writes a whole page at its first change after a checkpoint: at most %d pages of 8 kB a send. Rarer checkpoints and
  `+"`wal_compression`"+` reduce it.
`, Scattered)
}
