//go:build nightly

package bench

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/procfs"
)

const titleGoals = "Goals"

// section is a part of a document that a run writes anew, or only prints if it has no file.
type section struct{ file, title, text string }

// publish prints a section, and writes it into its file if -perf.write says so.
func (ri *rig) publish(s section) {
	fmt.Printf("## %s\n\n%s\n", s.title, s.text)
	if *write && s.file != "" {
		page, err := os.ReadFile(s.file)
		ri.must(err)
		ri.must(os.WriteFile(s.file, []byte(withSection(string(page), s.title, s.text)), 0o644))
	}
}

// report returns the sections.
func (ri *rig) report(callers []int, goals []goal) []section {
	n := unitCallers(callers)
	when := ri.when()
	least := fmt.Sprintf("\nThe callers and the mail server use the same processors. Memory: %s MB resident with %d callers, "+
		"%.0f MB at most in all runs.\n", number(ri.median(cell{ours, send, callers[len(callers)-1]}, figure(memory))),
		callers[len(callers)-1], ri.most)
	return []section{
		{performance, "What one machine does", when + "\n" + ri.summary(callers[0], n) + least},
		{performance, "Unit costs", fmt.Sprintf("Of %d callers, in the same run.\n\n%s", n, ri.unitCosts(n))},
		{"RESULTS.md", titleGoals, tableOf(goals)},
		{"RESULTS.md", "Ratios", "This build's, divided by the other's of the same round: medians (quartiles).\n\n" + ri.beside([]int{n})},
		{"", "Figures", when + ri.skipped + "\n" + ri.all(callers)},
	}
}

// when says what was measured, and on what.
func (ri *rig) when() string {
	model, gigabytes := runtime.GOARCH, 0.
	if fs, err := procfs.NewDefaultFS(); err == nil {
		if cpus, err := fs.CPUInfo(); err == nil && len(cpus) > 0 && cpus[0].ModelName != "" {
			model = cpus[0].ModelName
		}
		if m, err := fs.Meminfo(); err == nil && m.MemTotalBytes != nil {
			gigabytes = float64(*m.MemTotalBytes) / (1 << 30)
		}
	}
	var version, fsync string
	ri.must(ri.admin.QueryRow(ri.Context(),
		"SELECT split_part(current_setting('server_version'), ' ', 1), current_setting('fsync')").Scan(&version, &fsync))
	said, err := exec.Command("git", "describe", "--always", "--abbrev=10", "--dirty", "--exclude=*").Output()
	commit := strings.TrimSpace(string(said))
	if err != nil {
		commit = "unknown"
	}
	return fmt.Sprintf("Measured %s at commit %s on %d processors (%s) with %.0f GB of memory, with Postgres %s (fsync %s). "+
		"Medians of %d rounds of %v for each; rates also have their quartiles. Compare ratios only: other runs and machines give other figures.\n",
		time.Now().UTC().Format(time.DateOnly), commit, runtime.NumCPU(), model, gigabytes, version, fsync, ri.rounds, ri.length)
}

// spread is a median with its quartiles.
func spread(list []float64) string {
	return fmt.Sprintf("%s (%s–%s)", number(quantile(list, .5)), number(quantile(list, .25)), number(quantile(list, .75)))
}

func named(callers int) string {
	if callers == openLoop {
		return "half load"
	}
	return whole(float64(callers))
}

// cells calls do for all that was measured, in the order of the tables.
func (ri *rig) cells(callers []int, do func(cell)) {
	for _, n := range append(callers, openLoop) {
		for _, w := range workloads {
			for _, c := range ri.contenders {
				if at := (cell{c.name, w, n}); len(ri.results[at]) > 0 {
					do(at)
				}
			}
		}
	}
}

// summary is what this build does with few callers, with many, and at half load.
func (ri *rig) summary(few, many int) string {
	rows := [][]string{{"what", "callers", "a second", "p50, ms", "p99, ms"}}
	ri.cells(slices.Compact([]int{few, many}), func(at cell) {
		if at.contender == ours {
			rows = append(rows, []string{
				at.workload, named(at.callers), spread(each(ri.results[at], figure(rate))),
				number(ri.median(at, figure(p50))), number(ri.median(at, figure(p99))),
			})
		}
	})
	return table(rows)
}

func (ri *rig) unitCosts(callers int) units {
	sends, checks := cell{ours, send, callers}, cell{ours, check, callers}
	cost := func(i int) float64 { return ri.median(sends, figure(i)) + ri.median(checks, figure(i)) }
	return units{
		program: cost(service), postgres: cost(inPostgres), redis: cost(inRedis), wal: ri.median(sends, figure(walBytes)),
		row: ri.median(sends, figure(diskBytes)), key: ri.median(sends, figure(redisBytes)),
	}
}

// all is a table of all figures.
func (ri *rig) all(callers []int) string {
	rows := [][]string{append([]string{"callers, workload, program"}, figureNames[:]...)}
	ri.cells(callers, func(at cell) {
		row := []string{named(at.callers) + ", " + at.workload + ", " + at.contender, spread(each(ri.results[at], figure(rate)))}
		for i := p50; i < figureCount; i++ {
			row = append(row, number(ri.median(at, figure(i))))
		}
		rows = append(rows, row)
	})
	return table(rows)
}

// beside is a table of the ratios to the others.
func (ri *rig) beside(callers []int) string {
	rows := [][]string{{"callers, workload, beside", "a second", "p50", "p99", "processor time"}}
	ri.cells(callers, func(at cell) {
		if at.contender != ours {
			rows = append(rows, []string{
				named(at.callers) + ", " + at.workload + ", " + at.contender,
				spread(ri.ratios(at, figure(rate))), spread(ri.ratios(at, figure(p50))), spread(ri.ratios(at, figure(p99))),
				spread(ri.ratios(at, processor)),
			})
		}
	})
	return table(rows)
}

// goal bounds a figure of which less is better. RESULTS.md keeps what was recorded and the bound,
// until a person takes the line out or changes it; a new goal is recorded as measured.
type goal struct {
	name                      string
	factor                    float64 // the bound of a new goal ÷ what was measured
	recorded, bound, measured float64
}

func (g goal) missed() bool { return g.measured > g.bound }

// machineFactor is the factor of what follows from how fast the machine is: how many requests share
// a statement, and ratios to another program in the same run. -perf.older finds smaller losses: it
// compares two builds on one machine.
const machineFactor = 1.5

// walFactor is the factor of WAL, of which a batch has some once.
const walFactor = 1.1

// noisyFactor is the factor of what differs between two runs of the same build: the WAL of
// refusals, whose rows gather some and are written again at each flush, and the slowest of a
// hundred sends.
const noisyFactor = 2.5

// goals are those of this run: what a request does, and ratios to the floor and the peer.
func (ri *rig) goals(n int) (all []goal) {
	add := func(name string, factor, measured float64) {
		if !math.IsNaN(measured) {
			all = append(all, goal{name: name, factor: factor, measured: measured})
		}
	}
	for _, w := range workloads {
		for _, of := range []struct {
			figure int
			factor float64
		}{{allocations, 1.02}, {statements, machineFactor}, {walBytes, walFactor}} {
			if of.figure == walBytes {
				switch w {
				case look:
					continue // looks write nothing: the WAL is of jobs
				case flood:
					of.factor = noisyFactor
				}
			}
			add(w+", "+strings.TrimSuffix(figureNames[of.figure], ", B"), of.factor, ri.median(cell{ours, w, n}, figure(of.figure)))
		}
	}
	for _, other := range []string{fairFloor, otpgateway} {
		ratio := func(name string, factor float64, at cell, of func(figures) float64) {
			add(fmt.Sprintf("%s, %s ÷ %s", at.workload, name, other), max(factor, machineFactor), quantile(ri.ratios(at, of), .5))
		}
		for _, w := range []string{send, check} {
			ratio("processor time", 1, cell{other, w, n}, processor)
			ratio("time of one", 1, cell{other, w, n}, func(f figures) float64 { return 1 / f[rate] })
		}
		ratio("p50 at half load", 1, cell{other, send, openLoop}, figure(p50))
		ratio("p99 at half load", noisyFactor, cell{other, send, openLoop}, figure(p99))
	}
	return all
}

// precise has four digits that count: a goal is within a fiftieth.
func precise(f float64) string {
	if math.IsNaN(f) || math.Abs(f) >= 1000 {
		return number(f)
	}
	return strconv.FormatFloat(f, 'f', max(0, 3-int(math.Floor(math.Log10(max(math.Abs(f), .001))))), 64)
}

func tableOf(goals []goal) string {
	rows := [][]string{{"what", "recorded", "at most", "measured", "result"}}
	for _, g := range goals {
		result := "met"
		if g.missed() {
			result = "missed"
		} else if math.IsNaN(g.measured) {
			result = "not measured"
		}
		rows = append(rows, []string{g.name, precise(g.recorded), precise(g.bound), precise(g.measured), result})
	}
	return table(rows)
}

// goalsIn has the goals that were measured, with what a page has recorded of them, then its others.
func goalsIn(page string, measured []goal) (all []goal) {
	kept := map[string]goal{}
	var order []string
	_, section, _ := strings.Cut(page, "## "+titleGoals+"\n")
	section, _, _ = strings.Cut(section, "\n## ")
	for line := range strings.Lines(section) {
		cells := regexp.MustCompile(` {2,}`).Split(strings.TrimSpace(line), -1)
		if len(cells) != 5 || cells[0] == "what" {
			continue
		}
		recorded, err := strconv.ParseFloat(strings.ReplaceAll(cells[1], ",", ""), 64)
		bound, errBound := strconv.ParseFloat(strings.ReplaceAll(cells[2], ",", ""), 64)
		if err == nil && errBound == nil {
			kept[cells[0]] = goal{name: cells[0], recorded: recorded, bound: bound, measured: unknown}
			order = append(order, cells[0])
		}
	}
	for _, g := range measured {
		g.recorded, g.bound = g.measured, g.measured*g.factor
		if old, ok := kept[g.name]; ok {
			g.recorded, g.bound = old.recorded, old.bound
			delete(kept, g.name)
		}
		all = append(all, g)
	}
	for _, name := range order {
		if g, ok := kept[name]; ok {
			all = append(all, g)
		}
	}
	return all
}

// withSection is a page with another text in a section, or with it at the end.
func withSection(page, title, text string) string {
	before, rest, found := strings.Cut(page, "\n## "+title+"\n")
	_, after, more := strings.Cut(rest, "\n## ")
	page = strings.TrimRight(before, "\n") + "\n\n## " + title + "\n\n" + strings.TrimSpace(text) + "\n"
	if found && more {
		page += "\n## " + after
	}
	return page
}
