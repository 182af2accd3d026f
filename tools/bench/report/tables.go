package report

import (
	"fmt"
	"strings"
	"time"
)

func (r Results) goals() string {
	if len(r.Board) == 0 {
		return ""
	}
	return goals(r.Goals()...)
}

func goals(all ...Goal) string {
	g := newGrid("what", "goal", "measured", "")
	for _, goal := range all {
		value := "–"
		if goal.Known {
			value = number(goal.Value) + goal.Unit
		}
		g.add(goal.Name, goal.bound(), value, goal.verdict())
	}
	return g.String()
}

func (r Results) sends() string {
	if len(r.Board) == 0 {
		return ""
	}
	g := newGrid("callers", "program", "sends/s", "202 p50, ms", "202 p99, ms", "mail p50, ms", "mail p99, ms")
	for _, n := range r.Board.Callers() {
		for _, name := range Contenders {
			if (name == Plain || name == Bare) && n != 64 {
				continue
			}
			row := func(of func(Run) float64) string { return r.Board.Over(name, n, of).String() }
			median := func(of func(Run) float64) string { return number(r.Board.Over(name, n, of).Median) }
			mail50, mail99 := "–", "–"
			if name != Bare {
				mail50, mail99 = median(wait(.5, mails)), median(wait(.99, mails))
			}
			g.add(fmt.Sprint(n), name, row(Run.Rate), row(wait(.5, answers)), median(wait(.99, answers)), mail50, mail99)
		}
	}
	return g.String() + "\nMail: from the 202 to the final dot at the mail server; 0 if the mail was first.\n"
}

func (r Results) costs() string {
	if len(r.Board) == 0 {
		return ""
	}
	cpu := newGrid("callers", "program", "the program, µs", "Postgres", "Redis", "mail server", "callers", "sum", "allocations")
	work := newGrid("callers", "program", "WAL, bytes", "index entries", "commits", "trips: Postgres", "Redis")
	for _, n := range r.Board.Callers() {
		for _, name := range []string{Ours, Fair} {
			value := func(of func(Run) float64) string { return number(r.Board.Over(name, n, of).Median) }
			each := func(of func(Run) float64) string { return value(func(r Run) float64 { return r.each(of(r)) }) }
			cells := []string{fmt.Sprint(n), name}
			for _, process := range Processes {
				cells = append(cells, value(func(r Run) float64 { return float64(r.CPUEach(process)) / float64(time.Microsecond) }))
			}
			cells = append(cells, value(func(r Run) float64 { return float64(r.CPUEach()) / float64(time.Microsecond) }))
			cpu.add(append(cells, each(func(r Run) float64 { return r.Mallocs }))...)
			trips := r.Trips[Key{name, n}]
			work.add(fmt.Sprint(n), name, each(func(r Run) float64 { return r.WAL.Bytes }), each(func(r Run) float64 { return r.WAL.Entries }),
				each(func(r Run) float64 { return r.WAL.Commits }), number(trips.Postgres), number(trips.Redis))
		}
	}
	return "Processor time (by the kernel's scheduler) and allocations of a send:\n\n" + cpu.String() +
		"\nWhat a send writes, without images of whole pages, and its round trips:\n\n" + work.String()
}

func (r Results) half() string {
	if len(r.Half) == 0 {
		return ""
	}
	g := newGrid("program", "202 p50, ms", "202 p99, ms", "mail p50, ms", "mail p99, ms")
	for _, name := range []string{Ours, Fair} {
		if p, ok := r.Half[name]; ok {
			row := func(of func(Run) float64) string { return number(p.over(of).Median) }
			g.add(name, row(wait(.5, answers)), row(wait(.99, answers)), row(wait(.5, mails)), row(wait(.99, mails)))
		}
	}
	return fmt.Sprintf("%s requests a second arrive at random, answered or not.\n\n", number(r.Half[Ours].Rate)) + g.String()
}

func (r Results) others() string {
	if len(r.Others) == 0 {
		return ""
	}
	g := newGrid("request", "callers", "requests/s", "p50, ms", "p99, ms", "the program, µs", "Postgres", "Redis")
	for _, o := range r.Others {
		row := func(of func(Run) float64) string { return over(o.Runs, of).String() }
		g.add(o.Name, fmt.Sprint(o.Callers), row(Run.Rate), row(wait(.5, answers)), row(wait(.99, answers)), micros(o.CPU(Service)),
			micros(o.CPU(Postgres)), micros(o.CPU(Redis)))
	}
	return g.String()
}

func (r Results) memory() string {
	if len(r.Started) == 0 {
		return ""
	}
	var starts []float64
	for _, d := range r.Started {
		starts = append(starts, ms(d))
	}
	return fmt.Sprintf("%s resident after the start, %s at most in all runs. %s ms from the start to the first 202.\n",
		size(r.Memory.Start), size(r.Memory.Most), SpreadOf(starts))
}

func (r Results) profile() string {
	if len(r.Profile) == 0 {
		return ""
	}
	g := newGrid("part", "share")
	for _, s := range r.Profile {
		g.add(strings.Repeat("· ", s.Depth)+s.Part, s.Percent)
	}
	return "At 64 callers, each part with all that it calls.\n\n" + g.String()
}
