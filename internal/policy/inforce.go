package policy

import (
	"maps"
	"slices"
	"sync/atomic"
	"time"
)

// InForce holds the Set in force. Safe for concurrent use.
type InForce struct {
	set atomic.Pointer[Set]
	now func() time.Time
}

// NewInForce puts the first set in force.
func NewInForce(s Set, now func() time.Time) *InForce {
	f := &InForce{now: now}
	s.Pauses = since(nil, s.Pauses, now())
	f.set.Store(&s)
	return f
}

// Get is the set in force.
func (f *InForce) Get() Set { return *f.set.Load() }

// Change puts another set in force, at once and for what was counted before. Its maps belong to InForce from then on. It reports
// whether a rule can now need sends that the limiter may not hold: a window became longer, or a purpose came to another policy. The
// log decides right all the same; gates.Gate.Rebuild fills the limiter.
func (f *InForce) Change(s Set) (wider bool) {
	for {
		before := f.set.Load()
		after := s
		after.Pauses = since(before.Pauses, s.Pauses, f.now())
		after.former = maps.Clone(before.former)
		if after.former == nil {
			after.former = map[string][]string{}
		}
		for name, was := range before.Purposes {
			if s.Purposes[name].Policy.Name != was.Policy.Name { // or the purpose is gone
				after.former[name] = remembered(after.former[name], was.Policy.Name)
			}
		}
		if f.set.CompareAndSwap(before, &after) {
			return widened(*before, after)
		}
	}
}

// remembered adds a policy; the oldest of many goes, and a place that counts there goes with its window.
func remembered(policies []string, policy string) []string {
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
		was := before.Purposes[name] // a new one has another policy than none
		if was.Policy.Name != is.Policy.Name || was.Window() < is.Window() || !slices.Equal(was.Shares, is.Shares) {
			return true
		}
	}
	return false
}
