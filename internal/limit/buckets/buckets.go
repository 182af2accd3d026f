// Package buckets names the buckets in which a request's events are counted: of the recipient, the
// network, the app and the rules' other scopes. A Plan says which rules the database decides (it
// selects rows by SendBucket) and which only a limiter does.
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

// bucket puts the policy into the name, not the purpose, so that purposes with the same policy
// share its buckets, unless the subject is the purpose itself. Without a policy, the bucket counts
// the events under all policies.
func bucket(app string, ch recipient.Channel, policy string, scope quota.Scope, subject string) string {
	return quota.Bucket(app, string(ch), policy, string(scope), subject)
}

// Recipient returns the bucket of a recipient's sends. sharedName is from
// policy.Purpose.SharedBucketName.
func Recipient(app string, ch recipient.Channel, sharedName string, h recipient.Hash) string {
	return bucket(app, ch, sharedName, quota.Recipient, h.String())
}

// Failures returns the bucket of a recipient's sends that failed because of the address, under all
// policies: a bad address is bad for every purpose.
func Failures(app string, ch recipient.Channel, h recipient.Hash) string {
	return bucket(app, ch, "", policy.FailuresScope, h.String())
}

// InDatabase reports whether the database's rows also have the events of a bucket, which is one
// from Recipient or Failures.
func InDatabase(name string) bool {
	for range 3 {
		_, name, _ = strings.Cut(name, ":")
	}
	scope, _, _ := strings.Cut(name, ":")
	return scope == string(quota.Recipient) || scope == string(policy.FailuresScope)
}

// Backoff returns the bucket of policy.BackoffRule for a class of callers, under all policies.
func Backoff(app string, ch recipient.Channel, h recipient.Hash, class store.Class) string {
	return quota.Bucket(app, string(ch), "", string(policy.BackoffScope), string(class), h.String())
}

func AppFailedChecks(app string, ch recipient.Channel) string {
	return quota.Bucket(app, string(ch), "checks", string(quota.App))
}

// Trial returns a bucket for trying out whether the limiter works.
func Trial(number int) string { return quota.Bucket("", "", "", "trial", strconv.Itoa(number)) }

// NetworkFailedChecks returns the buckets of a client's networks for failed checks; none if its
// address is unknown. The back end's own address wouldn't do: it would stand for all of its users.
func NetworkFailedChecks(app string, ip netip.Addr, ch recipient.Channel) map[quota.Scope]string {
	all := map[quota.Scope]string{}
	for scope, subject := range map[quota.Scope]string{quota.IP: ClientPrefix(ip), quota.Network: WideNetworkPrefix(ip)} {
		if subject != "" {
			all[scope] = quota.Bucket(app, string(ch), "checks", string(scope), subject)
		}
	}
	return all
}

// RecipientGroups has the country of a phone number, and the hash of the number's prefix; empty if
// unknown. A limiter's Peek leaves out the rules that count by an unknown one.
type RecipientGroups struct{ Country, Prefix string }

func GroupsOf(k keys.Vault, r recipient.Recipient) RecipientGroups {
	if r.Channel() != recipient.SMS {
		return RecipientGroups{}
	}
	return RecipientGroups{Country: r.Country(), Prefix: k.PrefixHash(r)}
}

// Subject has the values by which rules count a request.
type Subject struct {
	App       string
	IP        netip.Addr
	Channel   recipient.Channel
	Recipient recipient.Hash
	Groups    RecipientGroups
	Purpose   policy.Purpose
	Class     store.Class
}

// SendBucket returns the recipient's bucket in the database, for all purposes that share the
// policy.
func (s Subject) SendBucket() store.SendBucket {
	return store.SendBucket{App: s.App, Channel: s.Channel, Recipient: s.Recipient, Purposes: s.Purpose.PolicyPurposes}
}

// Plan says how the sends of a subject are counted and decided. It is made when the request is
// parsed and never changes after that, so no later step omits or rewrites a rule or a limit.
type Plan struct {
	Subject
	Rules        []quota.Rule // in the order of the response
	SendRules    []quota.Rule // the part of Rules that the database decides, too, by the recipient's sends
	FailureRules []quota.Rule // the part of Rules that the database decides, too, by the sends that failed because of the address
	LimiterRules []quota.Rule // the others, which only a limiter decides
	// DatabaseRules are SendRules, then FailureRules.
	DatabaseRules []quota.Rule
	Also          []quota.Rule // as in quota.Request
	// Buckets has the bucket of each scope of Rules and Also, except where the subject has no
	// value, such as a client address or a country: there a limiter's Take fails, and Peek leaves
	// the rules out.
	Buckets map[quota.Scope]string
}

// NewPlan makes the plan for rules from policy.Set.RulesFor.
func NewPlan(s Subject, rules []quota.Rule, also ...quota.Rule) Plan {
	p := Plan{Subject: s, Rules: rules, Also: also, Buckets: make(map[quota.Scope]string, len(rules)+len(also))}
	divided := make([]quota.Rule, 0, len(rules)) // one allocation for all kinds
	appendThose := func(of func(quota.Scope) bool) []quota.Rule {
		begin := len(divided)
		for _, r := range rules {
			if of(r.Scope) {
				divided = append(divided, r)
			}
		}
		return divided[begin:len(divided):len(divided)]
	}
	p.SendRules = appendThose(func(scope quota.Scope) bool { return scope == quota.Recipient })
	p.FailureRules = appendThose(func(scope quota.Scope) bool { return scope == policy.FailuresScope })
	p.DatabaseRules = divided[:len(divided):len(divided)]
	p.LimiterRules = appendThose(func(scope quota.Scope) bool { return scope != quota.Recipient && scope != policy.FailuresScope })
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

// globalSubject is for scopes that have only one bucket.
const globalSubject = "all"

// bucket returns "" if the subject has no value for the scope.
func (s Subject) bucket(scope quota.Scope) string {
	app, subject := s.App, ""
	switch scope {
	case policy.FailuresScope:
		return Failures(s.App, s.Channel, s.Recipient)
	case policy.FailedChecksScope:
		return AppFailedChecks(s.App, s.Channel)
	case policy.BackoffScope:
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
	case policy.CountryScope:
		subject = s.Groups.Country
	case policy.PrefixScope:
		subject = s.Groups.Prefix
	case quota.Global:
		app, subject = "", globalSubject // app names are never empty, so this bucket belongs to no app
	}
	if subject == "" {
		return ""
	}
	return bucket(app, s.Channel, s.Purpose.Policy.Name, scope, subject)
}

// OfCountedScopes returns the buckets in which a Take counts, in random order; see
// policy.IsRecorded.
func OfCountedScopes(buckets map[quota.Scope]string) []string {
	var all []string
	for scope, b := range buckets {
		if !policy.IsRecorded(scope) {
			all = append(all, b)
		}
	}
	return all
}

// ClientPrefix returns what counts as one client: an IPv4 address or an IPv6 /64; empty for an
// invalid address.
func ClientPrefix(ip netip.Addr) string { return addressPrefix(ip, 32, 64) }

// WideNetworkPrefix returns the client's wider network, an IPv4 /24 or an IPv6 /48; empty for an
// invalid address.
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
