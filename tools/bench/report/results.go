package report

import (
	"slices"
	"time"
)

// Results are all that one bench has measured.
type Results struct {
	Machine  Machine
	Date     time.Time
	Commit   string
	Postgres string // version
	Fsync    string
	Disk     string // file system of the cluster
	Rounds   int
	Length   time.Duration

	Board   Board
	Trips   map[Key]Trips
	Half    map[string]Paced
	Others  []Other
	Takes   Board // of a limit, and bare HTTP
	Memory  Memory
	Started []time.Duration // until the first 202
	Level   Level
	Attack  Attack
	Limiter Limiter
	Rows    Rows
	Admin   []AdminWaits
	Profile Profile
	Units   Units
}

// Machine is what the figures depend on, and nothing that names it.
type Machine struct {
	Processors int
	Model      string
	Memory     int // GiB
}

// Trips are round trips for each send.
type Trips struct{ Postgres, Redis, Mail float64 }

// Paced has runs at a fixed rate.
type Paced struct {
	Rate float64
	Runs []Run
}

func (p Paced) over(of func(Run) float64) Spread { return over(p.Runs, of) }

// Other is a request that sends nothing.
type Other struct {
	Name    string
	Callers int
	Runs    []Run
}

// CPU is the median of processor time for each request.
func (o Other) CPU(processes ...string) time.Duration {
	return time.Duration(over(o.Runs, func(r Run) float64 { return float64(r.CPUEach(processes...)) }).Median)
}

// Memory is the service's resident memory, in bytes.
type Memory struct{ Start, Most float64 }

// Level has the sends of each second, and the processor time of the program, Postgres and Redis in it.
type Level struct {
	Callers int
	Sends   []int
	CPU     []time.Duration
	Vacuum  bool
}

// cost is the processor time of a send in the seconds from first to last, which is not one of them; 0 is not known.
func (l Level) cost(first, last int) time.Duration {
	var spent time.Duration
	sends := 0
	for second := max(first, 0); second < min(last, len(l.Sends), len(l.CPU)); second++ {
		spent, sends = spent+l.CPU[second], sends+l.Sends[second]
	}
	return spent / time.Duration(max(sends, 1))
}

// CostRatio is the cost of a send in the last seconds against that in the first.
func (l Level) CostRatio() float64 {
	n := len(l.Sends)
	k := l.edge()
	first := l.cost(0, k)
	if first == 0 {
		return 0
	}
	return float64(l.cost(n-k, n)) / float64(first)
}

// edge is how many seconds at each end are compared: a twelfth with autovacuum, which comes and goes, else 4.
func (l Level) edge() int {
	if l.Vacuum {
		return max(1, len(l.Sends)/12)
	}
	return min(4, len(l.Sends)/2)
}

// Ratio is the last seconds against the first.
func (l Level) Ratio() float64 {
	n := l.edge()
	first, last := 0, 0
	for i := range n {
		first, last = first+l.Sends[i], last+l.Sends[len(l.Sends)-1-i]
	}
	if first == 0 {
		return 0
	}
	return float64(last) / float64(first)
}

// Attack has the waits of honest requests without and beside attackers.
type Attack struct {
	Attackers, Honest int // Honest: requests a second
	Rate              float64
	Quiet, Beside     []time.Duration
	Refused           int
}

func (a Attack) known() bool { return len(a.Quiet) > 0 && len(a.Beside) > 0 }

// Ratio compares a quantile of the waits.
func (a Attack) Ratio(q float64) float64 {
	if !a.known() {
		return 0
	}
	return float64(Quantile(q, a.Beside)) / float64(Quantile(q, a.Quiet))
}

// Rows has the cost of a send by the number of rows that there are.
type Rows []RowCost

// RowCost is the runs with so many rows.
type RowCost struct {
	Rows int
	Runs []Run
}

// CPU is the median of the processor time of a send in the service and in Postgres.
func (c RowCost) CPU() time.Duration {
	return time.Duration(over(c.Runs, func(r Run) float64 { return float64(r.CPUEach(Service, Postgres, Redis)) }).Median)
}

// Ratio is the cost with the most rows against that with the fewest.
func (rs Rows) Ratio() float64 {
	if len(rs) < 2 {
		return 0
	}
	order := func(a, b RowCost) int { return a.Rows - b.Rows }
	return float64(slices.MaxFunc(rs, order).CPU()) / float64(slices.MinFunc(rs, order).CPU())
}

// Profile is where the service's processor time goes.
type Profile []Share

// Share is one part of it. Depth is how far it is nested in those before.
type Share struct {
	Part, Percent string
	Depth         int
}

// AdminWaits is what an administrator waits for with so many rows.
type AdminWaits struct {
	Rows  int
	Waits []Waits
}

// Waits are how long one question took, each time that it was asked.
type Waits struct {
	Name string
	Took []time.Duration
}
