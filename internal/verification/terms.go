package verification

import (
	"maps"
	"slices"
	"time"

	"sendcode/internal/recipient"
	"sendcode/quota"
)

// Terms are what may change while the service runs. Whoever works by them takes them once: a request, or an attempt to
// deliver, goes to its end by those that held when it began.
type Terms struct {
	Purposes    map[string]Purpose
	Titles      map[string]string // what each app is called in messages; the app's name where it has none
	Blocks      Blocks            // who gets no codes
	Checks      Checks            // bounds of failed checks; zero: DefaultChecks
	Breaker     quota.Rule        // bounds all sends together; zero: nothing does
	Spellings   quota.Rule        // bounds what browsers ask for, for all spellings of one mailbox together; zero: nothing does
	Pauses      []Pause           // what sends nothing at the moment
	SuppressFor time.Duration     // how long a bounce or a complaint keeps mail from its recipient; 0: not at all
	Numbers     Numbers           // which phone numbers are sent to
	Retention   time.Duration     // of rows in the log; 0: for ever
	// TestRecipients have codes that are known; by the hash of their very address.
	TestRecipients map[recipient.Hash]TestRecipient
	// Tells are the events that each app is told of; see tell.
	Tells map[string][]string
}

// inForce is Terms with what this process must remember of those before.
type inForce struct {
	Terms
	former map[string][]string // policies, other than the present one, that a purpose had: sends under way count there
}

// Terms are those that hold now. They must not be written to.
func (s *Service) Terms() Terms { return s.terms.Load().Terms }

// Change puts other terms in force, at once and for what was counted before (QUOTA-17). The maps belong to the service from
// then on. It reports whether a rule can now need sends that the limiter may not hold: a window became longer, or a
// purpose came to another policy. The log decides right all the same; Rebuild tells the limiter.
func (s *Service) Change(t Terms) (wider bool) {
	for {
		before := s.terms.Load()
		t.Pauses = since(before.Pauses, t.Pauses, s.Now())
		after := &inForce{t, maps.Clone(before.former)}
		if after.former == nil {
			after.former = map[string][]string{}
		}
		for name, was := range before.Purposes {
			if t.Purposes[name].Policy.Name != was.Policy.Name { // or the purpose is gone
				after.former[name] = remembered(after.former[name], was.Policy.Name)
			}
		}
		if s.terms.CompareAndSwap(before, after) {
			return widened(before.Terms, t)
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

func widened(before, after Terms) bool {
	if before.memory() < after.memory() {
		return true
	}
	for name, is := range after.Purposes {
		was := before.Purposes[name] // a new one has another policy than none
		if was.Policy.Name != is.Policy.Name || was.keep() < is.keep() || !slices.Equal(was.Shares, is.Shares) {
			return true
		}
	}
	return false
}

// keep is for how long the purpose's rules need a recipient's sends.
func (p Purpose) keep() time.Duration {
	return quota.Longest(quota.OfScope(p.Policy.Rules, quota.Recipient))
}

// counted names every policy in whose bucket a send of the purpose may have been counted by this process.
func (t *inForce) counted(purpose string) []string {
	policies := slices.Clone(t.former[purpose])
	if p, ok := t.Purposes[purpose]; ok && !slices.Contains(policies, p.Policy.Name) {
		policies = append(policies, p.Policy.Name)
	}
	return policies
}
