package quota

import (
	_ "embed"
	"fmt"

	"github.com/redis/go-redis/v9"
)

var (
	//go:embed clock.lua
	clockScript string
	//go:embed common.lua
	commonScript string
	//go:embed take.lua
	takeScript string
	//go:embed peek.lua
	peekScript string
	//go:embed refund.lua
	refundScript string
	//go:embed record.lua
	recordScript string
	//go:embed reset.lua
	resetScript string
)

// args are the bucket (from 1, negative where the rule observes), the limit and the window in µs of each rule; of a
// calendar rule a window of 0 and the turns of its periods around near, of which the script finds the one that its own
// clock is in.
func (p plan) args(near int64) []any {
	args := make([]any, 0, 3*len(p.rules))
	for i, rule := range p.rules {
		bucket := p.of[i] + 1
		if rule.Observe {
			bucket = -bucket
		}
		args = append(args, bucket, rule.Limit, rule.Window.Microseconds())
		if rule.Calendar() {
			for _, turn := range rule.Turns(instant(near)) {
				args = append(args, turn.UnixMicro())
			}
		}
	}
	return args
}

// What a script says first.
const (
	refused = iota
	admitted
	refunded
	elsewhere
)

// decision reads the answer of take.lua and peek.lua.
func (p plan) decision(cmd *redis.Cmd) (Decision, error) {
	numbers, err := cmd.Int64Slice()
	if err != nil {
		return Decision{}, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	const head, each = 2, 3
	if len(numbers) == head && numbers[0] == elsewhere {
		return Decision{At: instant(numbers[1])}, errElsewhere
	}
	if len(numbers) == head && numbers[0] == refunded {
		return Decision{}, ErrRefunded
	}
	if len(numbers) != head+each*len(p.rules) || numbers[0] != refused && numbers[0] != admitted {
		return Decision{}, fmt.Errorf("%w: an answer of %d numbers to %d rules", ErrUnavailable, len(numbers), len(p.rules))
	}
	now := numbers[1]
	d := Decision{Admitted: numbers[0] == admitted, At: instant(now), Clock: "redis", Rules: make([]State, len(p.rules))}
	for i, rule := range p.rules {
		n := numbers[head+each*i:]
		d.Rules[i] = tally{used: int(n[0]), oldest: n[1], pivot: n[2]}.state(rule, now)
	}
	return d, nil
}
