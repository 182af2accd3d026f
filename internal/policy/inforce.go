package policy

import (
	"maps"
	"slices"
	"sync/atomic"
	"time"
)

// InForce holds the current Set, which a reload replaces. Safe for concurrent use.
type InForce struct {
	set atomic.Pointer[Set]
	now func() time.Time
}

// NewInForce makes an InForce with its first set.
func NewInForce(s Set, now func() time.Time) *InForce {
	f := &InForce{now: now}
	s.Pauses = withSince(nil, s.Pauses, now())
	f.set.Store(&s)
	return f
}

// Get returns the current set.
func (f *InForce) Get() Set { return *f.set.Load() }

// Change replaces the current set, whose rules at once apply to events counted before too. The caller must not change the set's maps
// afterwards. It returns true if a rule may now need sends that the limiter has dropped or counted elsewhere: a window became longer,
// or a purpose has another policy. Then call gates.Gate.Rebuild; until then the log still decides correctly.
func (f *InForce) Change(s Set) (wider bool) {
	for {
		before := f.set.Load()
		after := s
		after.Pauses = withSince(before.Pauses, s.Pauses, f.now())
		after.former = maps.Clone(before.former)
		if after.former == nil {
			after.former = map[string][]string{}
		}
		for name, was := range before.Purposes {
			if s.Purposes[name].Policy.Name != was.Policy.Name { // or the purpose is gone
				after.former[name] = appendFormer(after.former[name], was.Policy.Name)
			}
		}
		if f.set.CompareAndSwap(before, &after) {
			return widened(*before, after)
		}
	}
}

// appendFormer appends a policy, unless it is in the list, and drops the oldest beyond 16. Events under a dropped policy are no longer
// refunded.
func appendFormer(policies []string, policy string) []string {
	const most = 16
	if slices.Contains(policies, policy) {
		return policies
	}
	policies = append(slices.Clone(policies), policy)
	return policies[max(0, len(policies)-most):]
}

func widened(before, after Set) bool {
	if before.FailureWindow() < after.FailureWindow() {
		return true
	}
	for name, is := range after.Purposes {
		was := before.Purposes[name] // zero for a new purpose, so its policy differs
		if was.Policy.Name != is.Policy.Name || was.Window() < is.Window() || !slices.Equal(was.Shares, is.Shares) {
			return true
		}
	}
	return false
}
