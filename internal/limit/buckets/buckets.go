// Package buckets names the buckets that count the events of a request. There are buckets of the
// recipient, the network, the app and the other scopes of the rules. The limiter stores events
// under these names. Subject.SendBucket selects the recipient's sends in the database. A Plan says
// which rules the database decides and which rules only a limiter decides.
package buckets

import (
	"net/netip"
	"strconv"
	"strings"

	"sendcode/internal/base/recipient"
	"sendcode/internal/codes/keys"
	"sendcode/internal/codes/policy"
	"sendcode/internal/store"
	"sendcode/quota"
)

// bucket returns the name of the bucket of a scope and subject, for an app, a channel and a policy.
// The name contains the policy and not the purpose, so purposes with the same policy share the
// policy's buckets. The only exception is a bucket whose subject is the purpose itself. If the
// parameter policy is empty, the bucket counts the events under all policies together.
func bucket(app string, ch recipient.Channel, policy string, scope quota.Scope, subject string) string {
	return quota.Bucket(app, string(ch), policy, string(scope), subject)
}

// Recipient returns the bucket of a recipient's sends under one policy.Purpose.SharedBucketName.
func Recipient(app string, ch recipient.Channel, sharedName string, h recipient.Hash) string {
	return bucket(app, ch, sharedName, quota.Recipient, h.String())
}

// Failures returns the bucket of a recipient's sends that failed because of the address. It is the
// same under all policies, since a bad address is bad for every purpose.
func Failures(app string, ch recipient.Channel, h recipient.Hash) string {
	return bucket(app, ch, "", quota.Failures, h.String())
}

// InDatabase reports whether the database's rows of sends also have the events of the bucket with
// this name. It returns true for the names that Recipient and Failures return.
func InDatabase(name string) bool {
	for range 3 {
		_, name, _ = strings.Cut(name, ":")
	}
	scope, _, _ := strings.Cut(name, ":")
	return scope == string(quota.Recipient) || scope == string(quota.Failures)
}

// Backoff returns the bucket of policy.BackoffRule for a recipient and a class of callers, under
// all policies.
func Backoff(app string, ch recipient.Channel, h recipient.Hash, class store.Class) string {
	return quota.Bucket(app, string(ch), "", string(quota.Backoff), string(class), h.String())
}

// AppFailedChecks returns the bucket of an app's failed checks.
func AppFailedChecks(app string, ch recipient.Channel) string {
	return quota.Bucket(app, string(ch), "checks", string(quota.App))
}

// Trial returns a bucket for trials of the limiter. A trial tests whether the limiter works.
func Trial(number int) string { return quota.Bucket("", "", "", "trial", strconv.Itoa(number)) }

// NetworkFailedChecks returns the buckets that count a failed check for the client's networks. If
// the client's address is unknown, NetworkFailedChecks returns no buckets. It does not use the back
// end's own address instead, because that would stand for all users of the back end.
func NetworkFailedChecks(app string, ip netip.Addr, ch recipient.Channel) map[quota.Scope]string {
	all := map[quota.Scope]string{}
	for scope, subject := range map[quota.Scope]string{quota.IP: ClientPrefix(ip), quota.Network: WideNetworkPrefix(ip)} {
		if subject != "" {
			all[scope] = quota.Bucket(app, string(ch), "checks", string(scope), subject)
		}
	}
	return all
}

// RecipientGroups has the groups of a recipient by which some rules count. These are the country
// and the prefix of a phone number. An empty field is unknown. The method Peek of a limiter, which
// only reads the quota, omits the rules that count by an unknown group.
type RecipientGroups struct{ Country, Prefix string }

// GroupsOf returns the groups of a recipient.
func GroupsOf(k keys.Vault, r recipient.Recipient) RecipientGroups {
	if r.Channel() != recipient.SMS {
		return RecipientGroups{}
	}
	return RecipientGroups{Country: r.Country(), Prefix: k.PrefixHash(r)}
}

// Subject has the properties of a request that rules count by.
type Subject struct {
	App       string
	IP        netip.Addr
	Channel   recipient.Channel
	Recipient recipient.Hash
	Groups    RecipientGroups
	Purpose   policy.Purpose
	Class     store.Class // of the request
}

// SendBucket returns the recipient's bucket in the database. The bucket is for all purposes that
// share the policy.
func (s Subject) SendBucket() store.SendBucket {
	return store.SendBucket{App: s.App, Channel: s.Channel, Recipient: s.Recipient, Purposes: s.Purpose.PolicyPurposes}
}

// Plan says how the sends of a subject are counted and decided. The code that parses the request
// makes the Plan. Afterwards the Plan never changes, so no later step omits or rewrites a rule or a
// limit.
type Plan struct {
	Subject
	Rules        []quota.Rule // all, in the order of the response
	SendRules    []quota.Rule // the rules of Rules that the database decides, too, by the recipient's sends
	FailureRules []quota.Rule // the rules on sends that failed because of the address; the database decides them, too
	LimiterRules []quota.Rule // all other rules, which only a limiter decides
	Also         []quota.Rule // quota.Request.Also of a send
	// Buckets has the bucket of each scope of Rules and Also. A scope is missing if the subject has
	// no value for the scope, such as a client address or a country. If a scope is missing, the
	// limiter's method Take fails, and Peek omits the rules of the scope.
	Buckets map[quota.Scope]string
}

// NewPlan makes the plan of a subject with rules from policy.Set.RulesFor.
func NewPlan(s Subject, rules []quota.Rule, also ...quota.Rule) Plan {
	p := Plan{Subject: s, Rules: rules, Also: also, Buckets: make(map[quota.Scope]string, len(rules)+len(also))}
	p.SendRules = make([]quota.Rule, 0, len(rules)) // most are of this kind
	for _, r := range rules {
		switch r.Scope {
		case quota.Recipient:
			p.SendRules = append(p.SendRules, r)
		case quota.Failures:
			p.FailureRules = append(p.FailureRules, r)
		default:
			p.LimiterRules = append(p.LimiterRules, r)
		}
	}
	for _, all := range [][]quota.Rule{rules, also} {
		for _, r := range all {
			if p.Buckets[r.Scope] != "" {
				continue
			}
			if name := s.bucket(r.Scope); name != "" {
				p.Buckets[r.Scope] = name
			}
		}
	}
	return p
}

// globalSubject is the subject of scopes that have only one bucket.
const globalSubject = "all"

// bucket returns the subject's bucket of one scope; empty if the subject has no value for it.
func (s Subject) bucket(scope quota.Scope) string {
	app, subject := s.App, ""
	switch scope {
	case quota.Failures:
		return Failures(s.App, s.Channel, s.Recipient)
	case quota.FailedChecks:
		return AppFailedChecks(s.App, s.Channel)
	case quota.Backoff:
		return Backoff(s.App, s.Channel, s.Recipient, s.Class)
	case policy.UnnamedScope:
		return quota.Bucket(s.App, string(s.Channel), "", string(scope), globalSubject)
	case policy.BreakerScope:
		return quota.Bucket("", "", "", string(policy.BreakerScope), globalSubject)
	case quota.Recipient:
		return Recipient(s.App, s.Channel, s.Purpose.SharedBucketName(), s.Recipient)
	case quota.IP:
		subject = ClientPrefix(s.IP)
	case quota.Network:
		subject = WideNetworkPrefix(s.IP)
	case quota.App:
		subject = s.App
	case quota.Purpose:
		subject = s.Purpose.Name
	case quota.Country:
		subject = s.Groups.Country
	case quota.Prefix:
		subject = s.Groups.Prefix
	case quota.Global:
		app, subject = "", globalSubject // app names are never empty, so this bucket belongs to no app
	}
	if subject == "" {
		return ""
	}
	return bucket(app, s.Channel, s.Purpose.Policy.Name, scope, subject)
}

// OfCountedScopes returns the buckets in which a Take counts events and from which a refund removes
// them. Their order is random. See quota.Scope.Counted.
func OfCountedScopes(buckets map[quota.Scope]string) []string {
	var all []string
	for scope, b := range buckets {
		if scope.Counted() {
			all = append(all, b)
		}
	}
	return all
}

// ClientPrefix returns the address prefix that counts as one client: an IPv4 address or an IPv6
// /64; empty for an invalid address.
func ClientPrefix(ip netip.Addr) string { return addressPrefix(ip, 32, 64) }

// WideNetworkPrefix returns the address prefix of the client's wider network: the /24 of IPv4, the
// /48 of IPv6; empty for an invalid address.
func WideNetworkPrefix(ip netip.Addr) string { return addressPrefix(ip, 24, 48) }

func addressPrefix(ip netip.Addr, v4, v6 int) string {
	ip = ip.Unmap().WithZone("")
	bits := v6
	if ip.Is4() {
		bits = v4
	}
	p, err := ip.Prefix(bits)
	if err != nil || !p.IsValid() {
		return ""
	}
	return p.String()
}
