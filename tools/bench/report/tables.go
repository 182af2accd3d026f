package report

import (
	"fmt"
	"slices"
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
	g := newGrid("what", "goal", "measured", "result")
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
			median := func(of func(Run) float64) string { return number(r.Board.Over(name, n, of).Median) }
			mail50, mail99 := "–", "–"
			if name != Bare {
				mail50, mail99 = median(wait(.5, mails)), median(wait(.99, mails))
			}
			rate := r.Board.Over(name, n, Run.Rate).String()
			g.add(fmt.Sprint(n), name, rate, median(wait(.5, answers)), median(wait(.99, answers)), mail50, mail99)
		}
	}
	return g.String() + "\nMail: from the 202 to the end of the mail at the mail server; 0 if the mail was first.\n"
}

// costs of a send beside the fair floor, with 64 callers if they were measured.
func (r Results) costs() string {
	if len(r.Board) == 0 {
		return ""
	}
	n := 64
	if !r.Board.has(n) {
		n = slices.Max(r.Board.Callers())
	}
	g := newGrid(fmt.Sprintf("%d callers", n), Ours, Fair)
	add := func(name string, of func(contender string) float64) { g.add(name, number(of(Ours)), number(of(Fair))) }
	each := func(name string, sum func(Run) float64) {
		add(name, func(c string) float64 {
			return r.Board.Over(c, n, func(run Run) float64 { return run.each(sum(run)) }).Median
		})
	}
	processor := func(name string, processes ...string) {
		add("processor time, µs: "+name, func(c string) float64 {
			return r.Board.Over(c, n, func(run Run) float64 { return float64(run.CPUEach(processes...)) / float64(time.Microsecond) }).Median
		})
	}
	for _, process := range []string{Service, Postgres, Redis} {
		processor(process, process)
	}
	processor("all, with mail server and callers")
	each("allocations", func(run Run) float64 { return run.Mallocs })
	each("WAL without whole pages, bytes", func(run Run) float64 { return run.WAL.Bytes })
	each("index entries", func(run Run) float64 { return run.WAL.Entries })
	each("commits", func(run Run) float64 { return run.WAL.Commits })
	add("round trips to Postgres", func(c string) float64 { return r.Trips[Key{c, n}].Postgres })
	add("round trips to Redis", func(c string) float64 { return r.Trips[Key{c, n}].Redis })
	return g.String()
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
	return fmt.Sprintf("%s requests a second at random times.\n\n", number(r.Half[Ours].Rate)) + g.String()
}

func (r Results) others() string {
	if len(r.Others) == 0 {
		return ""
	}
	g := newGrid("request", "callers", "requests/s", "p50, ms", "p99, ms", "the program, µs", "Postgres", "Redis")
	for _, o := range r.Others {
		median := func(of func(Run) float64) string { return number(over(o.Runs, of).Median) }
		g.add(o.Name, fmt.Sprint(o.Callers), over(o.Runs, Run.Rate).String(), median(wait(.5, answers)), median(wait(.99, answers)), micros(o.CPU(Service)),
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
	return "64 callers; each part includes what it calls.\n\n" + g.String()
}
