package quota

import (
	"context"
	"fmt"
)

// Ping reports whether a Take could be decided now: unlike the command PING it also fails on a replica and where Redis
// may not write (out of memory, failing disk). It writes nothing. Errors: ErrUnavailable.
func (r *Redis) Ping(ctx context.Context) error {
	_, err := r.run(ctx, r.probe, nil, nil)
	return err
}

// Warnings tells in whole sentences which settings of Redis put the quota at risk, none if all is well (OPS-5).
func (r *Redis) Warnings(ctx context.Context) []string {
	ctx, cancel := context.WithTimeout(ctx, r.budget)
	defer cancel()
	var warnings []string
	for _, s := range []struct{ name, want, else_ string }{
		{"maxmemory-policy", "noeviction", "Redis may forget events when its memory is full; set noeviction."},
		{"appendonly", "yes", "A restart of Redis forgets events; turn the append-only file on."},
	} {
		all, err := r.client.ConfigGet(ctx, s.name).Result()
		if got, ok := all[s.name]; err != nil || !ok {
			warnings = append(warnings, fmt.Sprintf("Redis setting %s is unknown, since Redis does not tell it; it should be %s.", s.name, s.want))
		} else if got != s.want {
			warnings = append(warnings, fmt.Sprintf("Redis setting %s is %s. %s", s.name, got, s.else_))
		}
	}
	return warnings
}
