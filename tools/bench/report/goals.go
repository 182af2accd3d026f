package report

import (
	"fmt"
	"time"
)

// Goal is one bound that is asked for.
type Goal struct {
	Name  string
	Bound float64
	Least bool // Bound is the least; else it is the most
	Unit  string
	Value float64
	Known bool // it was measured
}

// Met says whether the bound holds.
func (g Goal) Met() bool {
	if g.Least {
		return g.Value >= g.Bound
	}
	return g.Value <= g.Bound
}

func (g Goal) verdict() string {
	switch {
	case !g.Known:
		return "not measured"
	case g.Met():
		return "met"
	default:
		return "missed"
	}
}

func (g Goal) bound() string {
	sign := "≤"
	if g.Least {
		sign = "≥"
	}
	return sign + " " + number(g.Bound) + g.Unit
}

// Goals are the bounds and what came out.
func (r Results) Goals() []Goal {
	var all []Goal
	add := func(g Goal, known bool) { g.Known = known; all = append(all, g) }
	perSend := func(r Run) float64 { return float64(r.CPUEach()) }
	postgres := func(r Run) float64 { return float64(r.CPUEach(Postgres)) / float64(time.Microsecond) }
	bytes := func(r Run) float64 { return r.each(r.WAL.Bytes) }
	for _, n := range []int{64, 256} {
		add(Goal{Name: fmt.Sprintf("sends/s ÷ fair floor, %d callers", n), Bound: .95, Least: true,
			Value: r.Board.Ratio(Ours, Fair, n, Run.Rate).Median}, r.Board.has(n))
		add(Goal{Name: fmt.Sprintf("processor time ÷ fair floor, %d callers", n), Bound: 1.2,
			Value: r.Board.Ratio(Ours, Fair, n, perSend).Median}, r.Board.has(n))
	}
	add(Goal{Name: "202 of one caller, p50 ÷ fair floor", Bound: 1.5, Value: r.Board.Ratio(Ours, Fair, 1, wait(.5, answers)).Median},
		r.Board.has(1))
	add(Goal{Name: "Postgres for a send, 64 callers", Bound: 130, Unit: " µs", Value: r.Board.Over(Ours, 64, postgres).Median},
		r.Board.has(64))
	add(Goal{Name: "WAL for a send, 64 callers", Bound: 1700, Unit: " B", Value: r.Board.Over(Ours, 64, bytes).Median}, r.Board.has(64))
	add(Goal{Name: "Postgres for a send of the fair floor, 64 callers", Bound: 300, Unit: " µs",
		Value: r.Board.Over(Fair, 64, postgres).Median}, r.Board.has(64))
	half, ok := r.Half[Ours]
	add(Goal{Name: "202 to end of mail at half the highest rate, p50", Bound: 5, Unit: " ms", Value: half.over(wait(.5, mails)).Median}, ok)
	return append(all, r.otherGoals()...)
}

func (r Results) otherGoals() (all []Goal) {
	add := func(g Goal, known bool) { g.Known = known; all = append(all, g) }
	limiter := r.Limiter.ratios("admitted", 64)
	add(Goal{Name: "limiter ÷ redis_rate ×3, 64 callers admitted", Bound: 3.5, Least: true, Value: limiter.rival}, limiter.rival > 0)
	add(Goal{Name: "limiter ÷ bare script, 64 callers admitted", Bound: .8, Least: true, Value: limiter.bare}, limiter.bare > 0)
	add(Goal{Name: "last 4 s ÷ first 4 s of a minute, sends/s", Bound: .9, Least: true, Value: r.Level.Ratio()},
		len(r.Level.Sends) > 0)
	add(Goal{Name: "last 4 s ÷ first 4 s of a minute, processor time", Bound: 1.1, Value: r.Level.CostRatio()}, r.Level.CostRatio() > 0)
	add(Goal{Name: "honest requests refused beside an attack", Bound: 0, Value: float64(r.Attack.Refused)}, r.Attack.known())
	add(Goal{Name: "honest p99 beside an attack ÷ quiet", Bound: 2, Value: r.Attack.Ratio(.99)}, r.Attack.known())
	return all
}

// rowsGoal stands with the rows, which are measured in a run of their own.
func (r Results) rowsGoal() Goal {
	return Goal{Name: "processor time of a send with the most rows ÷ with the fewest", Bound: 1.15, Value: r.Rows.Ratio(),
		Known: len(r.Rows) > 1}
}

// takesGoal stands with the limits, which may be measured in a run of their own.
func (r Results) takesGoal(callers int) Goal {
	return Goal{Name: fmt.Sprintf("takes/s ÷ bare HTTP, %d callers", callers), Bound: .5, Least: true, Known: true,
		Value: r.Takes.Ratio(Ours, Bare, callers, Run.Rate).Median}
}

func (b Board) has(callers int) bool {
	return len(b[Key{Ours, callers}]) > 0 && len(b[Key{Fair, callers}]) > 0
}
