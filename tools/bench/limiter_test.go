package bench

import (
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
)

// rival is one way to decide, as the benchmark of package quota prints it: decisions a second, µs of Redis for each, and the rate divided by
// that of a script that does nothing.
type rival struct{ rate, redis, bare float64 }

// measureLimiter runs that benchmark, which has its own rivals and rounds.
func (b *rig) measureLimiter() string {
	cmd := exec.CommandContext(b.Context(), "go", "test", "-run=^$", "-bench=Rivals/^admitted$/^64$", "-timeout=10m", "sendcode/quota")
	said, err := cmd.CombinedOutput()
	all := rivals(string(said))
	ours, rateLimit, bare := all["the policy, coalesced"], all["three calls of redis_rate"], all["a script that returns 1"]
	if err != nil || ours.rate == 0 || rateLimit.bare == 0 || bare.rate == 0 {
		b.Fatalf("the benchmark of the limiter: %v: %s", err, said)
	}
	// It was compared with the bare script round by round, which the median rates were not.
	b.goals.least("limiter ÷ bare script, 64 callers admitted", .5, ours.bare)
	return fmt.Sprintf("The default policy without HTTP and Postgres, 64 callers: %s decisions/s at %s µs of Redis each; three calls of "+
		"redis_rate make %s, a script that returns 1 makes %s ([more](../quota/README.md#how-fast)).\n",
		number(ours.rate), number(ours.redis), number(rateLimit.rate), number(bare.rate))
}

var rivalLine = regexp.MustCompile(`(?m)^\s+(\S.*?)\s+(\d+)/s\s+([\d.]+) µs of Redis,\s+([\d.]+) of the bare script`)

// rivals reads the benchmark's output, by the names that it gives them.
func rivals(text string) map[string]rival {
	all := map[string]rival{}
	for _, m := range rivalLine.FindAllStringSubmatch(text, -1) {
		var f [3]float64
		for i := range f {
			f[i], _ = strconv.ParseFloat(m[2+i], 64) // digits, as the pattern has found them
		}
		all[m[1]] = rival{f[0], f[1], f[2]}
	}
	return all
}
