//go:build nightly

package bench

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"
)

const (
	firstShare = .4                     // of the sends a second of 64 callers: where the open loop begins
	rise       = 1.1                    // from one rate to the next
	mostSteps  = 16                     // of the rate
	behind     = 250 * time.Millisecond // a wait of more, at the end of a stretch, is of a program that falls behind
)

// climb raises a rate until it is kept up with neither at the first try nor at the second, and
// returns the last one that was; 0 if none was.
func climb(first float64, kept func(rate float64) bool) (highest float64) {
	once, again := kept, kept
	for step, next := 0, first; step < mostSteps && (once(next) || again(next)); step++ {
		highest, next = next, next*rise
	}
	return highest
}

// keepsUp reports whether requests in the order of their arrival were all answered, and the last of
// them as soon as they should be.
func keepsUp(samples []sample, refused int) bool {
	return refused == 0 && quantile(.5, waitsOf(lastQuarter(samples))) <= float64(behind)/float64(time.Millisecond)
}

func lastQuarter(samples []sample) []sample { return samples[len(samples)*3/4:] }

// waitsOf returns the times from request to answer.
func waitsOf(samples []sample) (all []time.Duration) {
	for _, s := range samples {
		all = append(all, s.answered.Sub(s.asked))
	}
	return all
}

// measureCapacity has sends arrive at random times, whether earlier ones are answered or not, and
// raises their rate until the service falls behind.
func (b *rig) measureCapacity() string {
	service, closed := b.contender(ours), median(runsOf(b.sent, ours, b.unitCallers()), rate)
	g := newGrid("sends/s", "202 p50, ms", "202 p99, ms", "p50 of the last quarter, ms", "refused")
	b.capacity = climb(firstShare*closed, func(rate float64) bool {
		samples, refused := b.paced(service, rate, b.length)
		slices.SortFunc(samples, func(a, b sample) int { return a.asked.Compare(b.asked) })
		if refused == 0 {
			b.arrivals(samples, true) // waits for the mails
		}
		b.mails.forget()
		g.add(number(rate), number(quantile(.5, waitsOf(samples))), number(quantile(.99, waitsOf(samples))),
			number(quantile(.5, waitsOf(lastQuarter(samples)))), fmt.Sprint(refused))
		return keepsUp(samples, refused)
	})
	if b.capacity == 0 {
		b.Fatalf("the service falls behind already at %s sends a second", number(firstShare*closed))
	}
	b.goals.least("sends/s at random times ÷ of 64 callers", 1.26/air, b.capacity/closed)
	return fmt.Sprintf(
		"Sends that arrive at random times, also while others wait; each rate for %v. The service keeps up with %s sends/s: none is refused, and "+
			"half of the last quarter are answered within %v.\n\n%s", b.length, number(b.capacity), behind, g.String())
}

// measureHalf runs those that record what they do at half of the rate that the service keeps up
// with.
func (b *rig) measureHalf() string {
	for _, name := range []string{ours, fairFloor} {
		b.half = append(b.half, &entry{name: name, cells: []string{name}, measure: func() run {
			samples, refused := b.paced(b.contender(name), b.capacity/2, b.length)
			if refused > 0 {
				b.Fatalf("%s: %d refused", name, refused)
			}
			return b.arrivals(samples, true)
		}})
	}
	b.inTurns(b.half)
	own, fair := b.half[0].runs, b.half[1].runs
	b.goals.most("202 at half load, p50 ÷ fair floor", 2.18*air, ratio(own, fair, answered(.5)), "")
	b.goals.most("202 at half load, p99 ÷ fair floor", 3.31*air, ratio(own, fair, answered(.99)), "")
	b.goals.most("202 to end of mail at half load, p99", 8.97*air, median(own, mailed(.99)), " ms")
	shown := table([]string{"program"}, b.half, append(answers("202 "), mails()...)...)
	return number(b.capacity/2) + " requests a second at random times.\n\n" + shown.String()
}

func TestClimb(t *testing.T) {
	tries := map[float64]int{}
	for name, c := range map[string]struct {
		kept func(float64) bool
		want float64
	}{
		"falls behind from 12 on": {func(rate float64) bool { return rate < 12 }, 10 * rise},
		"falls behind once": {func(rate float64) bool { tries[rate]++; return rate < 12 && tries[rate] > 1 },
			10 * rise},
		"falls behind at once":        {func(float64) bool { return false }, 0},
		"answers more than was asked": {func(float64) bool { return true }, 10 * math.Pow(rise, mostSteps-1)},
	} {
		if got := climb(10, c.kept); math.Abs(got-c.want) > 1e-6 {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

func TestKeepsUp(t *testing.T) {
	late := func(last time.Duration) (all []sample) {
		now := time.Unix(0, 0)
		for i := range 8 {
			s := sample{asked: now, answered: now.Add(time.Millisecond)}
			if i >= 6 {
				s.answered = now.Add(last)
			}
			all = append(all, s)
		}
		return all
	}
	if !keepsUp(late(behind), 0) || keepsUp(late(behind+1), 0) || keepsUp(late(0), 1) {
		t.Error("it keeps up while nothing is refused and the last quarter waits no longer than the bound")
	}
}
