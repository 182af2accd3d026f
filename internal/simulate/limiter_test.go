package simulate

import (
	"context"

	"sendcode/quota"
)

// clockName names the limiter's clock.
const clockName = "redis"

// reach lets a call of the limiter through at its turn. What happened and was not heard is ErrUnavailable to its caller.
func (r *Replica) reach(ctx context.Context, name string, call func() error) error {
	w := r.world
	f := r.turn(ctx, "limiter "+name, w.wrong(LimiterSlow))
	away, deaf := w.wrong(LimiterAway), w.wrong(LimiterDeaf)
	switch {
	case f == cut, away:
		w.count("limiter away: " + name)
		return quota.ErrUnavailable
	case f == tooLate && r.sourceOf(ctx, "late").IntN(2) == 0:
		w.count("limiter too late: " + name)
		return quota.ErrUnavailable
	}
	w.note("%s limiter %s", r.name, name)
	err := call()
	if f != onTime || deaf {
		w.count("limiter unheard: " + name)
		return quota.ErrUnavailable
	}
	return err
}
