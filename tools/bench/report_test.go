//go:build nightly

package bench

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/procfs"
)

// section is a part of a document that a run replaces. A section without a file is only printed.
type section struct{ file, title, text string }

// publish prints a section. With -perf.write, it also writes the section into its file.
func (ri *rig) publish(s section) {
	fmt.Printf("## %s\n\n%s\n", s.title, s.text)
	if *write && s.file != "" {
		page, err := os.ReadFile(s.file)
		ri.must(err)
		before, rest, found := strings.Cut(string(page), "\n## "+s.title+"\n")
		if !found {
			ri.Fatalf("%s has no section %s", s.file, s.title)
		}
		text := before + "\n## " + s.title + "\n\n" + s.text
		if _, after, more := strings.Cut(rest, "\n## "); more {
			text += "\n## " + after
		}
		ri.must(os.WriteFile(s.file, []byte(text), 0o644))
	}
}

// shown is the number of figures in the documents. The run prints all figures.
const shown = memory + 1

func (ri *rig) report(callers []int) []section {
	own := func(at cell, figure int) (list []float64) {
		if at.contender == ours {
			list = ri.each(at, figure)
		}
		return list
	}
	ratios := func(at cell, figure int) (list []float64) {
		if at.contender != ours {
			list = ri.ratios(at, figure)
		}
		return list
	}
	return []section{
		{performance, "What you will notice", ri.noticed(callers)},
		{performance, "What one machine does", ri.when() + "\n" + ri.figures(callers, figureNames[:shown], own) +
			"\nThe callers and the mail server use the same processors.\n"},
		{performance, "Unit costs", fmt.Sprintf("What one request costs with %d callers, in the same run.\n\n%s", unitCallers, ri.unitCosts())},
		{"RESULTS.md", "Goals", ri.goals()},
		{"RESULTS.md", "Ratios", "Each figure of this build is divided by the figure of the other program in the same round. The\n" +
			"table has the medians, and the quartiles in brackets.\n\n" +
			ri.figures(callers, []string{"a second", "p50", "p99", "processor", "memory"}, ratios)},
		{"", "Figures", ri.when() + "\n" + ri.figures(callers, figureNames[:], ri.each)},
	}
}

// when returns the sentence that names the machine, the programs and the day of the run.
func (ri *rig) when() string {
	model := runtime.GOARCH
	if fs, err := procfs.NewDefaultFS(); err == nil {
		if cpus, err := fs.CPUInfo(); err == nil && len(cpus) > 0 && cpus[0].ModelName != "" {
			model = cpus[0].ModelName
		}
	}
	var version string
	ri.must(ri.admin.QueryRow(ri.Context(), "SELECT split_part(current_setting('server_version'), ' ', 1)").Scan(&version))
	commit, err := exec.Command("git", "describe", "--always", "--abbrev=10", "--dirty", "--exclude=*").Output()
	ri.must(err)
	return fmt.Sprintf("Measured %s at commit %s on %d processors (%s), with Postgres %s (fsync on). Medians (quartiles) "+
		"of %d rounds of %v for each. Compare ratios only: other runs and machines give other figures.\n",
		time.Now().UTC().Format(time.DateOnly), strings.TrimSpace(string(commit)), runtime.NumCPU(), model, version, *rounds, *length)
}

// spread formats a median with its quartiles.
func spread(list []float64) string {
	if median := quantile(list, .5); math.IsNaN(median) {
		return number(median)
	}
	return fmt.Sprintf("%s (%s–%s)", number(quantile(list, .5)), number(quantile(list, .25)), number(quantile(list, .75)))
}

// figures returns a table of the named figures, for all measured cells for which of returns a
// value.
func (ri *rig) figures(callers []int, names []string, of func(at cell, figure int) []float64) string {
	rows := [][]string{append([]string{"callers, workload, program"}, names...)}
	for _, n := range callers {
		for _, w := range workloads {
			for _, c := range ri.contenders {
				at := cell{c.name, w, n}
				if len(of(at, rate)) == 0 {
					continue
				}
				row := []string{fmt.Sprintf("%d, %s, %s", n, w, c.name)}
				for i := range names {
					row = append(row, spread(of(at, i)))
				}
				rows = append(rows, row)
			}
		}
	}
	return table(rows)
}

var whatPeopleDo = map[string]string{
	send:      "asks for a code, and gets a 202",
	flood:     "asks too early, and gets a 429; all ask for one recipient",
	wideFlood: "asks too early, and gets a 429; each asks for another recipient",
	look:      "asks how long to wait",
	check:     "enters the right code",
}

// noticedCallers has the numbers of callers in the table of noticed, if they were measured.
var noticedCallers = []int{1, unitCallers, 256}

// noticed returns a table of how long people wait for our answers.
func (ri *rig) noticed(callers []int) string {
	text, rule := "The table says how many milliseconds an answer takes: the median and, in brackets, the slowest of a\n"+
		"hundred.\n\n| a person |", "\n|---|"
	var columns []cell
	for _, n := range noticedCallers {
		if slices.Contains(callers, n) {
			columns = append(columns, cell{ours, "", n})
			text += fmt.Sprintf(" %d at once |", n)
			rule += "---|"
		}
	}
	text += rule + "\n"
	for _, w := range workloads {
		text += fmt.Sprintf("| %s |", whatPeopleDo[w])
		for _, at := range columns {
			at.workload = w
			median := number(quantile(ri.each(at, p50), .5))
			if slow := quantile(ri.each(at, p99), .5); !math.IsNaN(slow) {
				median += " (" + number(slow) + ")"
			}
			text += " " + median + " |"
		}
		text += "\n"
	}
	return text
}

// unitCallers is the number of callers with which unit costs and goals are measured.
const unitCallers = 64

// unitCosts returns the table from which operations.md's table of growth follows.
func (ri *rig) unitCosts() string {
	sends, checks := cell{ours, send, unitCallers}, cell{ours, check, unitCallers}
	cost := func(at cell, figure int) float64 { return quantile(ri.each(at, figure), .5) }
	rows := [][]string{{"unit", "measured"}}
	for i, figure := range []int{service, inPostgres, inRedis, walBytes, diskBytes, redisBytes} {
		value := cost(sends, figure)
		if figure <= inPostgres {
			value += cost(checks, figure)
		}
		rows = append(rows, []string{unitNames[i], number(value)})
	}
	return table(rows)
}

// goal bounds a figure for which less is better.
type goal struct {
	workload string
	beside   string // the figure is divided by the figure of this contender; "": it is not divided
	figure   int
	most     float64
}

// The bound of a goal is the first measured value, times 1.02 for allocations, 1.1 for WAL, and 1.5
// for figures that depend on the machine's speed. For the WAL of refusals, of which one row counts
// many, the bound is lower than the cost of a row for each refusal. -perf.older finds smaller
// losses, because it compares two builds on one machine. If a commit raises a bound, it gives the
// reason.
var goals = []goal{
	{send, "", allocations, 306},
	{send, "", statements, 0.3771},
	{send, "", walBytes, 1836},
	{flood, "", allocations, 268},
	{flood, "", statements, 0.3},
	{flood, "", walBytes, 50},
	{look, "", allocations, 264.7},
	{look, "", statements, 0.3717},
	{check, "", allocations, 247.6},
	{check, "", statements, 0.2739},
	{check, "", walBytes, 827.1},
	{send, fairFloor, processor, 3.06},
	{send, fairFloor, p50, 2.604},
	{check, fairFloor, processor, 3.899},
	{check, fairFloor, p50, 3.2},
	{send, otpgateway, processor, 1.638},
	{send, otpgateway, p50, 1.359},
	{check, otpgateway, processor, 1.305},
	{check, otpgateway, p50, 1.271},
}

func (g goal) name() string {
	name, _, _ := strings.Cut(figureNames[g.figure], ",")
	if g.beside != "" {
		name += " ÷ " + g.beside
	}
	return g.workload + ", " + name
}

// goal returns the measured value of a goal, or unknown.
func (ri *rig) goal(g goal) float64 {
	if g.beside == "" {
		return quantile(ri.each(cell{ours, g.workload, unitCallers}, g.figure), .5)
	}
	return quantile(ri.ratios(cell{g.beside, g.workload, unitCallers}, g.figure), .5)
}

func (ri *rig) goals() string {
	rows := [][]string{{"what", "at most", "measured"}}
	for _, g := range goals {
		rows = append(rows, []string{g.name(), number(g.most), number(ri.goal(g))})
	}
	return table(rows)
}
