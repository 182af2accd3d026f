// Package policy has the settings that can change while the service runs: purposes with their
// rules, the lists of recipients that get no codes, pauses, bounds of failed checks, and how long
// rows are kept. Set is one snapshot of these settings; CurrentSet holds the current one.
//
// The package decides nothing. Package buckets names the buckets in which a request is counted.
// Package quota evaluates the rules. Packages gates and store count events. Packages verification,
// outbox, jobs and support read the settings. The function completePolicies of package run/config
// makes the built-in policy.
//
// # A new scope of rules
//
// The scope of a rule says what the rule counts together, for example the sends to one recipient.
// For a new scope, here "device", change the following files. If a bucket, a setting, a text or a
// row of SECURITY.md is missing, a test fails and names it.
//
//	quota/quota.go                             the constant; Counted, if Take does not count the scope's events
//	internal/codes/policy/rules.go             RuleScopes; recipientScopes, if it counts the sends to one recipient; CountsByClient, if it
//	                                           counts by a property of the client that a back end may leave out: then its rules do not
//	                                           apply to requests without the property, have no reserve by default, and cause a warning;
//	                                           RulesFor, if recipients of one channel have none
//	internal/limit/buckets/buckets.go          Subject and its bucket; planFor (verification/parse_ask.go) fills it
//	internal/verify/verification               the field of the request, if it has one: "A new field of a send" in package store
//	internal/run/config/policies.go            the tag and comments of policyRule; then go test ./internal/run/config -update
//	internal/base/texts/en.json, zh-Hans.json  scope.device, wide.device, next.wide.device
//	internal/run/app/strangers_test.go         whatRefuses; with -update it writes SECURITY.md
//	internal/codes/policy/policy_test.go, verification/buckets_test.go, limit/refusals/refusals_test.go, explain/verdicts_test.go
//	                                           a test case in each
//	web/widget/code.js                         wide and spent, if it is not like a network (then go generate ./web);
//	                                           answer.refused.shared.device in all languages
//	docs/policies.md, several-installations.md its row, its reserve, whether two installations count it together
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

// Purpose is the reason for which an app requests a code. The purpose decides the policy, and the
// life and form of codes. Package config reads the fields with yaml tags from the settings file.
// The comments of these fields are also the reference documentation of the settings.
type Purpose struct {
	Name   string
	Policy quota.Policy
	// Reserve maps the name of a rule of the policy to the part of that rule's Limit that strangers
	// may not use; see IsStrangerInScope.
	Reserve        map[string]int
	BuiltIn        bool     // the policy is the built-in one; its reserve applies only in apps that strangers reach
	PolicyPurposes []string // all purposes with the same policy and its buckets, including this purpose; sorted
	CodeLength     int      // characters, 6 to 10
	Alphabet       code.Alphabet
	Titles         message.PurposeTitles // use of the codes, in words for messages

	// Life of a code, `30s` to `10m`, or up to `24h` with `kind: confirm`. A code in a text message
	// has at most `10m`. A resend does not prolong the life.
	TTL time.Duration `yaml:"ttl" default:"10m" range:"30s 24h: a code may not live longer than a day"` // see Life
	// `glance`: the code in subject and preview, or `private`: only in the mail, which is the
	// default with `kind: confirm`.
	Notify message.NotifyMode `yaml:"notify" default:"glance" oneof:"private glance"`
}

// DefaultPurpose is the purpose of requests that name none.
const DefaultPurpose = "default"

// Set is one snapshot of the settings. A request or an attempt to deliver gets one snapshot at its
// start, and uses the same snapshot until its end. Never change a Set.
type Set struct {
	Purposes    map[string]Purpose
	Apps        map[string]App
	Blocks      BlockLists       // recipients that get no codes
	Checks      FailedCheckRules // bounds of failed checks
	Breaker     quota.Rule       // bounds all sends together; see BreakerScope. Zero: no bound
	Pauses      []Pause          // channels and purposes that send nothing for now
	SuppressFor time.Duration    // how long a bounce or a complaint suppresses its recipient; 0: no suppression
	Numbers     ServedNumbers    // phone numbers to which codes are sent
	Retention   time.Duration    // of rows in the database; 0: for ever
	// BreakerReserve is how many last places of the breaker strangers may not use.
	BreakerReserve int
	// Reports has the channels whose providers report receipts, bounces or complaints.
	Reports map[recipient.Channel]bool
	// TestRecipients have a configured code, and nothing is sent to them.
	TestRecipients TestCodes
	// Subscriptions are the events that each app receives, by app.
	Subscriptions subscriptions

	former map[string][]string // former results of SharedBucketName for each purpose; such buckets may still count its sends
}

// SharedBucketName returns the name of the bucket in which a recipient's sends for the purpose are
// counted. All purposes with the same policy share the bucket, and its name contains the policy and
// these purposes. So the name changes if a purpose gets another policy. The sends of that purpose
// then no longer count in the old bucket.
func (p Purpose) SharedBucketName() string {
	return p.Policy.Name + store.PurposeSeparator + strings.Join(p.PolicyPurposes, store.PurposeSeparator)
}

// Purpose returns a purpose by name; "" is the default purpose.
func (s Set) Purpose(name string) (Purpose, bool) {
	if name == "" {
		name = DefaultPurpose
	}
	p, ok := s.Purposes[name]
	return p, ok
}

// App says how messages present an app, and which callers can reach it.
type App struct {
	Title       string // the app's name in messages; empty: the app's own name
	Sender      string // From of the app's mails, "Name <addr>"; empty: the service's sender
	Brand       message.Brand
	Site        string            // host where users enter codes from text messages that a back end requests; empty if not known
	AndroidHash string            // hash of the app's Android app, for text messages
	Watch       store.PrefixWatch // the app's own MinSends and MinApprovedPercent; MinSends 0: those of all apps

	ReachedByStrangers bool // the app has a public key, or a page on an address that is not loopback
}

// subscriptions are the types of events that each app receives, by app.
type subscriptions map[string][]string

// To returns the apps that receive events of a type.
func (s subscriptions) To(event string) (apps []string) {
	for app, events := range s {
		if slices.Contains(events, event) {
			apps = append(apps, app)
		}
	}
	return apps
}

// HasApp reports whether an app of this name is configured.
func (s Set) HasApp(name string) bool {
	_, known := s.Apps[name]
	return known
}

// CurrentAndFormerBucketNames returns the current SharedBucketName of a purpose, and up to 16
// former names that this process knows. A send may be counted under any of these names. If the
// purpose was removed, CurrentAndFormerBucketNames returns only the former names.
func (s Set) CurrentAndFormerBucketNames(purpose string) []string {
	names := slices.Clone(s.former[purpose])
	if p, ok := s.Purposes[purpose]; ok && !slices.Contains(names, p.SharedBucketName()) {
		names = append(names, p.SharedBucketName())
	}
	return names
}

// LongestFailureWindow returns the longest window of all rules on failures; 0 if there is no such
// rule.
func (s Set) LongestFailureWindow() time.Duration { return s.longestWindow(quota.Failures) }

// LongestRecipientWindow returns the longest window of all rules on recipients; 0 if there is no
// such rule.
func (s Set) LongestRecipientWindow() time.Duration { return s.longestWindow(quota.Recipient) }

func (s Set) longestWindow(scope quota.Scope) (d time.Duration) {
	for _, p := range s.Purposes {
		d = max(d, quota.LongestKeep(quota.OfScope(p.Policy.Rules, scope)))
	}
	return d
}

// ErasedHashRetention returns how long the keyed hash of a recipient must be kept after the
// recipient's data were erased. The result is the longest window of all rules and limits on
// recipients, plus one day. So a person cannot evade a rule or limit by an erasure.
func (s Set) ErasedHashRetention() time.Duration {
	return max(s.LongestRecipientWindow(), s.LongestFailureWindow(), rowrules.ConsecutiveFailedCheckWindow+store.MaxCodeLife) + 24*time.Hour
}

// LongestCodeLife returns the longest life of a code of any purpose.
func (s Set) LongestCodeLife() (d time.Duration) {
	for _, p := range s.Purposes {
		d = max(d, p.TTL)
	}
	return d
}

// LongestRecipientWindow returns the longest window of the purpose's rules on recipients; 0 if it
// has no such rule.
func (p Purpose) LongestRecipientWindow() time.Duration {
	return quota.LongestKeep(quota.OfScope(p.Policy.Rules, quota.Recipient))
}

// MaxTextLife is the longest life of a code in a text message (NIST SP 800-63A, confirmation
// codes). It is also the longest life of a code for signing in (SP 800-63B, out-of-band secrets).
const MaxTextLife = 10 * time.Minute

// Life returns the life of the purpose's codes on a channel. In a text message, a code lives at
// most MaxTextLife.
func (p Purpose) Life(ch recipient.Channel) time.Duration {
	if ch == recipient.SMS {
		return min(p.TTL, MaxTextLife)
	}
	return p.TTL
}

// CurrentSet holds the current Set, which a reload replaces. Safe for concurrent use.
type CurrentSet struct {
	set atomic.Pointer[Set]
	now func() time.Time
}

// NewCurrentSet makes a CurrentSet that holds s.
func NewCurrentSet(s Set, now func() time.Time) *CurrentSet {
	f := &CurrentSet{now: now}
	s.Pauses = withPauseStarts(nil, s.Pauses, now())
	f.set.Store(&s)
	return f
}

// Get returns the current set.
func (c *CurrentSet) Get() Set { return *c.set.Load() }

// Change replaces the current set. The new rules apply at once, also to events counted before. The
// caller must not change the set's maps afterwards.
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

// appendFormer appends a name if the list does not have the name. It keeps only the 16 newest
// names. Events under a removed name can no longer be refunded.
func appendFormer(names []string, name string) []string {
	const most = 16
	if slices.Contains(names, name) {
		return names
	}
	names = append(slices.Clone(names), name)
	return names[max(0, len(names)-most):]
}
