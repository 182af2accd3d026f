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

// These are the modes of take.lua: look only decides, and take also counts.
const (
	modeLook = "look"
	modeTake = "take"
)

// scriptArgs returns the arguments of take.lua; tombstone is as in runTake. near is an estimate of
// the server's time. Calendar rules send only the periods around near, and the script finds the
// current one among them.
func (p requestPlan) scriptArgs(id, mode string, tombstone time.Duration, near time.Time) []any {
	numbers := make([]int64, 0, 1+len(p.keeps)+10*len(p.rules))
	numbers = append(numbers, tombstone.Microseconds())
	for _, keep := range p.keeps {
		numbers = append(numbers, keep.Microseconds())
	}
	for i, rule := range p.rules {
		bucket := int64(p.bucketOf[i] + 1)
		if rule.Observe || i >= p.deciding {
			bucket = -bucket
		}
		numbers = append(numbers, bucket, int64(rule.Limit))
		numbers = rule.appendCutoffs(numbers, near)
	}
	args := append(make([]any, 0, 2+len(numbers)), id, mode)
	for i := range numbers {
		args = append(args, &numbers[i]) // a pointer saves one allocation for each number
	}
	return args
}

// datesMarker stands in place of the window of a rule with Days. Other calendar rules have 0 there.
const datesMarker = -1

// appendCutoffs appends what the script needs to compute the rule's cutoff by its own clock: the
// window; or 0 and the starts of the periods around near; or datesMarker, the starts of dates, and
// for each of the first three the first instant that counts.
func (r Rule) appendCutoffs(numbers []int64, near time.Time) []int64 {
	if !r.Calendar() {
		return append(numbers, r.Window.Microseconds())
	}
	turns := r.periodStarts(near)
	if r.Days > 0 {
		numbers = append(numbers, datesMarker)
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

// These are the values of the first number in take.lua's answer.
const (
	codeRefused = iota
	codeAdmitted
	codeRefunded
	codeOutside        // the clock is in none of the given periods of a calendar rule
	codeAdmittedBefore // admitted, and all buckets had the ID already
)

// scriptAnswer is a decision. In the mode take, added says that this call added the ID to a bucket.
// If added is false, an admitted ID was in all buckets already.
type scriptAnswer struct {
	Decision
	added bool
}

// parseAnswer returns ErrRefunded, ErrUnavailable, or errOutsidePeriods with the server's time in
// At.
func (p requestPlan) parseAnswer(cmd *redis.Cmd) (scriptAnswer, error) {
	numbers, err := cmd.Int64Slice()
	if err != nil {
		return scriptAnswer{}, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	const head, each = 2, 3
	if len(numbers) == head && numbers[0] == codeOutside {
		return scriptAnswer{Decision: Decision{At: microsToTime(numbers[1])}}, errOutsidePeriods
	}
	if len(numbers) == head && numbers[0] == codeRefunded {
		return scriptAnswer{}, ErrRefunded
	}
	if len(numbers) != head+each*len(p.rules) || !slices.Contains([]int64{codeRefused, codeAdmitted, codeAdmittedBefore}, numbers[0]) {
		return scriptAnswer{}, fmt.Errorf("%w: the script answered %d numbers for %d rules", ErrUnavailable, len(numbers),
			len(p.rules))
	}
	now := numbers[1]
	d := Decision{Admitted: numbers[0] != codeRefused, At: microsToTime(now), Rules: make([]State, len(p.rules))}
	for i, rule := range p.rules {
		n := numbers[head+each*i:]
		d.Rules[i] = tally{used: int(n[0]), oldest: n[1], pivot: n[2]}.state(rule, now)
	}
	return scriptAnswer{d, numbers[0] == codeAdmitted}, nil
}
