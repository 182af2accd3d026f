package quota

import (
	_ "embed"
	"fmt"
	"slices"

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
	before // admitted, and every bucket had counted the ID already
)

// What take.lua is to do; more than these: for how many µs the ID is to stay refunded, if it is refused.
const (
	look   = -1
	commit = 0
)

// answer is a decision, and whether the script has just counted the event.
type answer struct {
	Decision
	counted bool
}

// answer reads what take.lua and peek.lua say.
func (p plan) answer(cmd *redis.Cmd) (answer, error) {
	numbers, err := cmd.Int64Slice()
	if err != nil {
		return answer{}, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	const head, each = 2, 3
	if len(numbers) == head && numbers[0] == elsewhere {
		return answer{Decision: Decision{At: instant(numbers[1])}}, errElsewhere
	}
	if len(numbers) == head && numbers[0] == refunded {
		return answer{}, ErrRefunded
	}
	told := head + each*len(p.rules)
	if len(numbers) != told && len(numbers) != told+p.asked() || !slices.Contains([]int64{refused, admitted, before}, numbers[0]) {
		return answer{}, fmt.Errorf("%w: an answer of %d numbers to %d rules", ErrUnavailable, len(numbers), len(p.rules))
	}
	now := numbers[1]
	d := Decision{Admitted: numbers[0] != refused, At: instant(now), Clock: "redis", Rules: make([]State, len(p.rules))}
	for i, rule := range p.rules {
		n := numbers[head+each*i:]
		d.Rules[i] = tally{used: int(n[0]), oldest: n[1], pivot: n[2]}.state(rule, now)
	}
	if len(numbers) > told {
		d.Incomplete = p.incomplete(numbers[told:])
	}
	return answer{d, numbers[0] == admitted}, nil
}
