// Package policy has the settings that can change while the service runs: purposes with their
// rules, recipients that get no codes, pauses, and how long rows are kept. A Set is one snapshot of
// them, and CurrentSet holds the current one. policy.go has the set, rules.go finds the rules for a
// request, lists.go has the recipients that get no codes, and testrecipient.go has the recipients
// with a configured code.
//
// Events are counted elsewhere: package buckets names the buckets, and quota evaluates the rules.
// docs/ARCHITECTURE.md says how to add a scope.
package policy

import (
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"sendcode/internal/base/message"
	"sendcode/internal/base/recipient"
	"sendcode/internal/codes/code"
	"sendcode/internal/store"
	"sendcode/internal/store/rowrules"
	"sendcode/quota"
)

// Purpose is a reason for which an app requests codes, such as login. It decides the policy, and
// the life and form of the codes. Package config reads the fields with yaml tags, and makes their
// reference from these comments.
type Purpose struct {
	Name   string
	Policy quota.Policy
	// Reserve says, by the name of a rule of the policy, how many of the rule's last places
	// strangers may not use; see IsStrangerInScope.
	Reserve        map[string]int
	BuiltIn        bool     // the policy is the built-in one, whose reserve applies only in apps that strangers reach
	PolicyPurposes []string // all purposes with this policy and its buckets, sorted
	CodeLength     int      // characters, 6 to 10
	Alphabet       code.Alphabet
	Titles         message.PurposeTitles // what the codes are for, in words for messages

	// Life of a code, `30s` to `10m`, or up to `24h` with `kind: confirm`. A code in a text message
	// has at most `10m`. A resend does not prolong the life.
	TTL time.Duration `yaml:"ttl" default:"10m" range:"30s 24h: a code may not live longer than a day"` // see Life
	// `glance`: the code in subject and preview, or `private`: only in the mail, which is the
	// default with `kind: confirm`.
	Notify message.NotifyMode `yaml:"notify" default:"glance" oneof:"private glance"`
}

// DefaultPurpose is the purpose of requests that name none.
const DefaultPurpose = "default"

// Set is one snapshot of the settings. A request, or an attempt to deliver, uses the same Set from
// start to end. Never change a Set.
type Set struct {
	Purposes    map[string]Purpose
	Apps        map[string]App
	Blocks      BlockLists
	Checks      FailedCheckRules
	Breaker     quota.Rule    // bounds all sends together; see BreakerScope. Zero: no bound
	Pauses      []Pause       // channels and purposes that send nothing for now
	SuppressFor time.Duration // for how long a bounce, a complaint or an opt-out suppresses its recipient; 0: not at all
	Numbers     ServedNumbers
	Retention   time.Duration // of rows in the database; 0: for ever
	// BreakerReserve is how many of the breaker's last places strangers may not use.
	BreakerReserve int
	// Reports has the channels whose providers report receipts, bounces or complaints.
	Reports        map[recipient.Channel]bool
	TestRecipients TestCodes
	Subscriptions  subscriptions

	former map[string][]string // each purpose's former results of SharedBucketName, whose buckets may still count its sends
}

// SharedBucketName names the bucket of a recipient's sends for the purpose. The name consists of
// the policy and all purposes that share it, so that a purpose with a new policy does not count in
// the bucket of the old one.
func (p Purpose) SharedBucketName() string {
	return p.Policy.Name + store.PurposeSeparator + strings.Join(p.PolicyPurposes, store.PurposeSeparator)
}

// Purpose returns the purpose with that name; "" means the default purpose.
func (s Set) Purpose(name string) (Purpose, bool) {
	if name == "" {
		name = DefaultPurpose
	}
	p, ok := s.Purposes[name]
	return p, ok
}

// App says how messages present an app, and who can reach it.
type App struct {
	Title       string // in messages; empty: the app's own name
	Sender      string // From of its mails, "Name <addr>"; empty: the service's
	Brand       message.Brand
	Site        string            // host where users enter codes from text messages that a back end requests; empty: not known
	AndroidHash string            // of its Android app, for text messages
	Watch       store.PrefixWatch // the app's own MinSends and MinApprovedPercent; if MinSends is 0, the values for all apps apply

	ReachedByStrangers bool // the app has a public key, or a page on an address that is not loopback
}

// subscriptions has the types of events that each app's webhook gets, by app.
type subscriptions map[string][]string

func (s subscriptions) To(event string) (apps []string) {
	for app, events := range s {
		if slices.Contains(events, event) {
			apps = append(apps, app)
		}
	}
	return apps
}

func (s Set) HasApp(name string) bool {
	_, known := s.Apps[name]
	return known
}

// CurrentAndFormerBucketNames returns the purpose's SharedBucketName and up to 16 names that it had
// since this process started. The bucket of any of these names may count its sends. For a removed
// purpose, only the former names are returned.
func (s Set) CurrentAndFormerBucketNames(purpose string) []string {
	names := slices.Clone(s.former[purpose])
	if p, ok := s.Purposes[purpose]; ok && !slices.Contains(names, p.SharedBucketName()) {
		names = append(names, p.SharedBucketName())
	}
	return names
}

func (s Set) LongestFailureWindow() time.Duration { return s.longestWindow(FailuresScope) }

func (s Set) LongestRecipientWindow() time.Duration { return s.longestWindow(quota.Recipient) }

func (s Set) longestWindow(scope quota.Scope) (d time.Duration) {
	for _, p := range s.Purposes {
		d = max(d, quota.LongestKeep(quota.OfScope(p.Policy.Rules, scope)))
	}
	return d
}

// ErasedHashRetention returns how long a recipient's keyed hash must outlive an erasure, so that an
// erasure helps nobody to evade a rule or limit. That is the longest window of all rules and limits
// on a recipient, plus a day.
func (s Set) ErasedHashRetention() time.Duration {
	return max(s.LongestRecipientWindow(), s.LongestFailureWindow(), rowrules.ConsecutiveFailedCheckWindow+store.MaxCodeLife) + 24*time.Hour
}

func (s Set) LongestCodeLife() (d time.Duration) {
	for _, p := range s.Purposes {
		d = max(d, p.TTL)
	}
	return d
}

func (p Purpose) LongestRecipientWindow() time.Duration {
	return quota.LongestKeep(quota.OfScope(p.Policy.Rules, quota.Recipient))
}

// MaxTextLife is the longest life of a code in a text message (NIST SP 800-63A, confirmation codes)
// and of a code for signing in (SP 800-63B, out-of-band secrets).
const MaxTextLife = 10 * time.Minute

func (p Purpose) Life(ch recipient.Channel) time.Duration {
	if ch == recipient.SMS {
		return min(p.TTL, MaxTextLife)
	}
	return p.TTL
}

// CurrentSet holds the current Set. Safe for concurrent use.
type CurrentSet struct {
	set atomic.Pointer[Set]
	now func() time.Time
}

func NewCurrentSet(s Set, now func() time.Time) *CurrentSet {
	f := &CurrentSet{now: now}
	s.Pauses = withPauseStarts(nil, s.Pauses, now())
	f.set.Store(&s)
	return f
}

func (c *CurrentSet) Get() Set { return *c.set.Load() }

// Change replaces the current set, whose maps must not change afterwards. The new rules apply at
// once, to earlier events as well.
func (c *CurrentSet) Change(s Set) {
	for {
		before := c.set.Load()
		after := s
		after.Pauses = withPauseStarts(before.Pauses, s.Pauses, c.now())
		after.former = maps.Clone(before.former)
		if after.former == nil {
			after.former = map[string][]string{}
		}
		for name, was := range before.Purposes {
			if s.Purposes[name].SharedBucketName() != was.SharedBucketName() { // or the purpose is gone
				after.former[name] = appendFormer(after.former[name], was.SharedBucketName())
			}
		}
		if c.set.CompareAndSwap(before, &after) {
			return
		}
	}
}

// appendFormer keeps only the 16 newest names. Sends that were counted under an older name can't be
// refunded any more.
func appendFormer(names []string, name string) []string {
	const maxNames = 16
	if slices.Contains(names, name) {
		return names
	}
	names = append(slices.Clone(names), name)
	return names[max(0, len(names)-maxNames):]
}
