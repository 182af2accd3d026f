package quota

import (
	_ "embed"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
)

var (
	//go:embed clock.lua
	clockScript string
	//go:embed common.lua
	commonScript string
	//go:embed take.lua
	takeScript string
	//go:embed refund.lua
	refundScript string
	//go:embed record.lua
	recordScript string
	//go:embed reset.lua
	resetScript string
	//go:embed probe.lua
	probeScript string
)

// A script looks at what a take would do, or takes.
const (
	look = "look"
	take = "take"
)

// args are those of take.lua. tombstone is for how long a refused ID stays refunded, and near is whereabouts the script's
// clock is: of the periods of a calendar rule around it, the script finds the one that its clock is in.
func (p plan) args(id, mode string, tombstone time.Duration, near time.Time) []any {
	numbers := make([]int64, 0, 1+3*len(p.keeps)+10*len(p.rules))
	numbers = append(numbers, tombstone.Microseconds())
	for i, keep := range p.keeps {
		numbers = append(numbers, keep.Microseconds(), int64(Seconds(p.asks[i].need)), int64(sourceNumber(p.asks[i].source)))
	}
	for i, rule := range p.rules {
		bucket := int64(p.of[i] + 1)
		if rule.Observe {
			bucket = -bucket
		}
		numbers = append(numbers, bucket, int64(rule.Limit))
		numbers = rule.appendCutoffs(numbers, near)
	}
	args := append(make([]any, 0, 2+len(numbers)), id, mode)
	for i := range numbers {
		args = append(args, &numbers[i]) // a number itself would be copied to a place of its own
	}
	return args
}

// byDates stands where a rule of the script has its window, if the cutoffs are not the turns.
const byDates = -1

// appendCutoffs appends that from which the script finds the rule's cutoff by its own clock.
func (r Rule) appendCutoffs(numbers []int64, near time.Time) []int64 {
	if !r.Calendar() {
		return append(numbers, r.Window.Microseconds())
	}
	turns := r.Turns(near)
	if r.Days > 0 {
		numbers = append(numbers, byDates)
	} else {
		numbers = append(numbers, 0)
	}
	for _, turn := range turns {
		numbers = append(numbers, turn.UnixMicro())
	}
	if r.Days > 0 {
		for _, turn := range turns[:3] {
			start, _ := r.Period(turn)
			numbers = append(numbers, start.UnixMicro())
		}
	}
	return numbers
}

// The codes that take.lua answers first.
const (
	refused = iota
	admitted
	refunded
	outside   // the clock is in none of the periods of a calendar rule that the script was given
	unchanged // admitted, and no bucket had anything to add
)

// answer is a decision, and whether the script has just added the ID to a bucket.
type answer struct {
	Decision
	added bool
}

// answer reads what take.lua answers.
func (p plan) answer(cmd *redis.Cmd) (answer, error) {
	numbers, err := cmd.Int64Slice()
	if err != nil {
		return answer{}, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	const head, each = 2, 3
	if len(numbers) == head && numbers[0] == outside {
		return answer{Decision: Decision{At: instant(numbers[1])}}, errOutside
	}
	if len(numbers) == head && numbers[0] == refunded {
		return answer{}, ErrRefunded
	}
	states := head + each*len(p.rules)
	if len(numbers) != states && len(numbers) != states+p.asked() || !slices.Contains([]int64{refused, admitted, unchanged}, numbers[0]) {
		return answer{}, fmt.Errorf("%w: an answer of %d numbers to %d rules", ErrUnavailable, len(numbers), len(p.rules))
	}
	now := numbers[1]
	d := Decision{Admitted: numbers[0] != refused, At: instant(now), Clock: "redis", Rules: make([]State, len(p.rules))}
	for i, rule := range p.rules {
		n := numbers[head+each*i:]
		d.Rules[i] = tally{used: int(n[0]), oldest: n[1], pivot: n[2]}.state(rule, now)
	}
	if len(numbers) > states {
		d.Incomplete = p.incomplete(numbers[states:])
	}
	return answer{d, numbers[0] == admitted}, nil
}
