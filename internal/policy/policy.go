// Package policy is what the service goes by and may be changed while it runs: purposes with their rules, the lists of recipients
// that get no codes, pauses, bounds of failed checks, retention. Set is one snapshot; InForce holds the one in force.
//
// It decides nothing about time and counts nothing: package quota evaluates the rules, gates and the store count. Packages
// verification, outbox, jobs and support read it.
package policy

import (
	"cmp"
	"slices"
	"time"

	"sendcode/internal/brand"
	"sendcode/internal/code"
	"sendcode/internal/message"
	"sendcode/internal/recipient"
	"sendcode/internal/store/gate"
	"sendcode/quota"
)

// Purpose is what a code is for: its policy, its life and its looks.
type Purpose struct {
	Name       string
	Policy     quota.Policy
	Shares     []string      // every purpose with the same policy, this one too: they share its buckets
	TTL        time.Duration // of a code, at most 10 min
	CodeLength int           // characters, 6 to 10
	Alphabet   code.Alphabet
	Notify     message.Notify
}

// DefaultPurpose is the one of requests that name none.
const DefaultPurpose = "default"

// Set is one snapshot. A request, or an attempt to deliver, takes it once and goes to its end by it. It must not be written to.
type Set struct {
	Purposes    map[string]Purpose
	Apps        map[string]App
	Blocks      Blocks        // recipients that get no codes
	Checks      Checks        // bounds of failed checks; zero: DefaultChecks
	Breaker     quota.Rule    // bounds all sends together; zero: nothing does
	Spellings   quota.Rule    // bounds what browsers ask for, for all spellings of one mailbox together; zero: nothing does
	Pauses      []Pause       // what sends nothing at the moment
	SuppressFor time.Duration // how long a bounce or a complaint suppresses its recipient; 0: not at all
	Numbers     Numbers       // phone numbers that are sent to
	Retention   time.Duration // of rows in the log; 0: for ever
	// TestRecipients have codes that are known; by the hash of their very address.
	TestRecipients map[recipient.Hash]TestRecipient
	// Subscriptions are the events that each app receives; see Events.
	Subscriptions map[string][]string

	former map[string][]string // policies, other than the present one, that a purpose had: sends under way count there
}

// Purpose is the one of a name, "" for the default one.
func (s Set) Purpose(name string) (Purpose, bool) {
	if name == "" {
		name = DefaultPurpose
	}
	p, ok := s.Purposes[name]
	return p, ok
}

// App is how an app shows itself.
type App struct {
	Title  string // what messages call it; empty: its name
	Sender string // of its mails, Name <addr>; empty: the service's
	Brand  brand.Brand
}

// Message is what messages say of an app.
func (s Set) Message(app string) message.Data {
	a := s.Apps[app]
	return message.Data{
		App: cmp.Or(a.Title, app), Home: a.Brand.Home, Accent: a.Brand.Light.Accent, DarkAccent: a.Brand.Dark.Accent,
	}
}

// HasApp reports whether there is an app of that name.
func (s Set) HasApp(name string) bool {
	_, known := s.Apps[name]
	return known
}

// CountedUnder names every policy in whose bucket a send of the purpose may have been counted by this process.
func (s Set) CountedUnder(purpose string) []string {
	policies := slices.Clone(s.former[purpose])
	if p, ok := s.Purposes[purpose]; ok && !slices.Contains(policies, p.Policy.Name) {
		policies = append(policies, p.Policy.Name)
	}
	return policies
}

// FailureWindow is how long any rule on failed sends looks back; 0 where there is none.
func (s Set) FailureWindow() time.Duration {
	var longest time.Duration
	for _, p := range s.Purposes {
		longest = max(longest, quota.Longest(quota.OfScope(p.Policy.Rules, quota.Failures)))
	}
	return longest
}

// LongestWindow is how long any rule on recipients looks back.
func (s Set) LongestWindow() time.Duration {
	var d time.Duration
	for _, p := range s.Purposes {
		d = max(d, p.Window())
	}
	return d
}

// NeedsRecipientFor is how long any rule or bound can need to know a recipient.
func (s Set) NeedsRecipientFor() time.Duration {
	const ttl = 10 * time.Minute // of a code, at most: failures count from its end
	return max(s.LongestWindow(), s.FailureWindow(), gate.RowWindow+ttl, gate.FailureWindow+ttl) + 24*time.Hour
}

// Window is for how long the purpose's rules need a recipient's sends.
func (p Purpose) Window() time.Duration {
	return quota.Longest(quota.OfScope(p.Policy.Rules, quota.Recipient))
}

// On is the purpose as it is for a channel: mails belong to no country, so rules on countries and prefixes do not apply, and phone
// numbers have one spelling.
func (p Purpose) On(ch recipient.Channel) Purpose {
	others := ByArea
	if ch == recipient.SMS {
		others = func(r quota.Rule) bool { return r.Scope == Spellings }
	}
	p.Policy.Rules = without(p.Policy.Rules, others)
	return p
}

// without are the rules but for some. Where there are none of these, which is usual, the rules are not copied.
func without(rules []quota.Rule, some func(quota.Rule) bool) []quota.Rule {
	if !slices.ContainsFunc(rules, some) {
		return rules
	}
	return slices.DeleteFunc(slices.Clone(rules), some)
}

// ByArea reports whether a rule counts by the country or the prefix of a number.
func ByArea(r quota.Rule) bool {
	return r.Scope.Base() == quota.Country || r.Scope.Base() == quota.Prefix
}
