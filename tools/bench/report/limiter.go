package report

import (
	"regexp"
	"strconv"
	"strings"
)

// Limiter is what the benchmarks of package quota print.
type Limiter []Rival

// Rival is one way to decide, at one number of callers.
type Rival struct {
	Outcome string // admitted or refused; or by what the others differ
	Callers int
	Name    string
	Rate    float64 // decisions a second
	Redis   float64 // µs of Redis for each
	Bare    float64 // rate ÷ that of a script that does nothing: median of the rounds
}

// The names that the benchmark gives.
const (
	bareScript   = "a script that returns 1"
	ourLimiter   = "the policy, coalesced"
	rivalLimiter = "three calls of redis_rate"
)

// ParseRivals reads the benchmark's output: a title for each outcome and number of callers, then a line for each rival.
func ParseRivals(text string) (l Limiter) {
	title := regexp.MustCompile(`^Benchmark(?:Rivals/(admitted|refused)/(\d+)|TakeBy(Limit|Recipients))(?:-\d+)?\s`)
	line := regexp.MustCompile(`^\s+(\S.*?)\s+(\d+)/s\s+([\d.]+) µs of Redis,\s+([\d.]+) of the bare script`)
	var outcome string
	var callers int
	for text := range strings.Lines(text) {
		if m := title.FindStringSubmatch(text); m != nil {
			outcome = m[1] + strings.ToLower(m[3])
			callers, _ = strconv.Atoi(m[2]) // digits, or none
			callers = max(1, callers)
		}
		if m := line.FindStringSubmatch(text); m != nil {
			l = append(l, Rival{Outcome: outcome, Callers: callers, Name: m[1], Rate: float(m[2]), Redis: float(m[3]), Bare: float(m[4])})
		}
	}
	return l
}

// float reads digits that a pattern has found.
func float(digits string) float64 {
	f, _ := strconv.ParseFloat(digits, 64)
	return f
}

func (l Limiter) find(outcome string, callers int, name string) Rival {
	for _, r := range l {
		if r.Outcome == outcome && r.Callers == callers && r.Name == name {
			return r
		}
	}
	return Rival{}
}

// ratios compare the service's limiter with redis_rate and with the bare script; 0 is not known. Both were compared with the bare
// script round by round, which the median rates were not.
func (l Limiter) ratios(outcome string, callers int) (out struct{ rival, bare float64 }) {
	ours, rival := l.find(outcome, callers, ourLimiter), l.find(outcome, callers, rivalLimiter)
	if rival.Bare > 0 {
		out.rival = ours.Bare / rival.Bare
	}
	out.bare = ours.Bare
	return out
}
