package verification

import (
	"net/netip"
	"slices"
	"sync"
	"time"

	"sendcode/quota"
)

// Anybody can take a public key from a page, or press the page's own button, for one recipient after the other. So what
// comes from browsers is limited by where it comes from, whatever the policy says of recipients. The limits leave room for
// an office or a mobile network behind one address; a policy with rules of its own for the scope goes by those alone.
var browserRules = []quota.Rule{
	{Name: "client", Scope: quota.IP, Limit: 100, Window: time.Hour},
	{Name: "network", Scope: quota.Network, Limit: 1000, Window: time.Hour},
}

// purposeFor is what a caller's requests for a purpose go by.
func (s *Service) purposeFor(c Caller, name string) (Purpose, error) {
	terms := s.Terms()
	p, err := terms.purpose(name)
	if err != nil {
		return p, err
	}
	if c.Kind == Browser {
		p.Policy.Rules = forBrowsers(p.Policy.Rules, terms.Spellings)
	} else {
		p.Policy.Rules = forBackEnds(p.Policy.Rules, c.IP)
	}
	if b := terms.Breaker; b.Limit > 0 {
		p.Policy.Rules = append(slices.Clip(p.Policy.Rules), b)
	}
	return p, nil
}

// Everything is the scope of the breaker: all sends of all apps, policies and channels. Whatever goes wrong elsewhere, a key
// that was lost or a loop in somebody's program, no more leave here.
const Everything quota.Scope = "everything"

// BreakerName is the breaker's among the rules of an answer.
const BreakerName = "breaker"

// alarm tells the log that the breaker refuses, once in a while: it is a matter for people.
type alarm struct {
	mu   sync.Mutex
	last time.Time
}

const alarmEvery = time.Minute

func (s *Service) alarmed(rule quota.State) {
	if rule.Scope != Everything {
		return
	}
	s.alarm.mu.Lock()
	defer s.alarm.mu.Unlock()
	if now := s.Now(); now.Sub(s.alarm.last) >= alarmEvery {
		s.alarm.last = now
		s.Logger.Error("the breaker refuses: more codes are asked for in all than are let through", "limit", rule.Limit, "window", rule.Window.String())
	}
}

// forBackEnds are the rules that hold for a back end: none for browsers alone, and without its client's address none on
// addresses, for its own is the same for all of its clients and says nothing of any one.
func forBackEnds(rules []quota.Rule, client netip.Addr) []quota.Rule {
	return slices.DeleteFunc(slices.Clone(rules), func(r quota.Rule) bool {
		return r.Scope.Browsers() || !client.IsValid() && (r.Scope == quota.IP || r.Scope == quota.Network)
	})
}

func forBrowsers(rules []quota.Rule, spellings quota.Rule) []quota.Rule {
	all := slices.Clip(rules)
	for _, r := range browserRules {
		if slices.ContainsFunc(rules, func(own quota.Rule) bool { return own.Scope.Base() == r.Scope }) {
			continue
		}
		all = append(all, unlike(rules, r))
	}
	if spellings.Limit > 0 {
		all = append(all, unlike(rules, spellings))
	}
	return all
}

// unlike has a name that no rule of the policy has: answers name each rule once.
func unlike(rules []quota.Rule, r quota.Rule) quota.Rule {
	for slices.ContainsFunc(rules, func(own quota.Rule) bool { return own.Name == r.Name }) {
		r.Name += "_"
	}
	return r
}
