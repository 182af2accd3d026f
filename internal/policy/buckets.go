package policy

import (
	"net/netip"

	"sendcode/internal/recipient"
	"sendcode/internal/store"
	"sendcode/internal/vault"
	"sendcode/quota"
)

// bucket is where a scope's events are counted: purposes that share a policy share it, per app and channel. The policy ""
// is none.
func bucket(app string, ch recipient.Channel, policy string, scope quota.Scope, subject string) string {
	return quota.Bucket(app, string(ch), policy, string(scope), subject)
}

// RecipientBucket is a recipient's under one policy, of all callers.
func RecipientBucket(app string, ch recipient.Channel, policy string, h recipient.Hash) string {
	return bucket(app, ch, policy, quota.Recipient, h.String())
}

// RecipientBuckets are those of a recipient under one policy: of all callers, and of browsers alone.
func RecipientBuckets(app string, ch recipient.Channel, policy string, h recipient.Hash) []string {
	return []string{RecipientBucket(app, ch, policy, h), bucket(app, ch, policy, quota.Recipient.OfBrowsers(), h.String())}
}

// FailuresBucket counts a recipient's failed sends, under every policy: a bad address is one for whatever purpose.
func FailuresBucket(app string, ch recipient.Channel, h recipient.Hash) string {
	return bucket(app, ch, "", quota.Failures, h.String())
}

// AppChecksBucket counts an app's failed checks.
func AppChecksBucket(app string, ch recipient.Channel) string {
	return quota.Bucket(app, string(ch), "checks", string(quota.App))
}

// CheckBuckets are the buckets that count a check. Without a known client there are none for networks: all users of a back end share its
// address.
func CheckBuckets(app string, ip netip.Addr, ch recipient.Channel) map[quota.Scope]string {
	all := map[quota.Scope]string{quota.App: AppChecksBucket(app, ch)}
	for scope, subject := range map[quota.Scope]string{quota.IP: Client(ip), quota.Network: Network(ip)} {
		if subject != "" {
			all[scope] = quota.Bucket(app, string(ch), "checks", string(scope), subject)
		}
	}
	return all
}

// Area is where a recipient belongs, as buckets name it: a number to its country and prefix, an address to its mailbox. The zero
// area is not known, and leaves such rules out of a look.
type Area struct {
	Country, Prefix string
	Mailbox         recipient.Hash
}

// AreaOf is that of a recipient with these hashes.
func AreaOf(k vault.Vault, r recipient.Recipient, h recipient.Hashes) Area {
	if r.Channel() != recipient.SMS {
		return Area{Mailbox: h.Mailbox}
	}
	return Area{Country: r.Country(), Prefix: k.Prefix(r)}
}

// Subject is what a request is counted by: the recipient of an app in a purpose, and where the request comes from.
type Subject struct {
	App       string
	IP        netip.Addr
	Channel   recipient.Channel
	Recipient recipient.Hash
	Area      Area
	Purpose   Purpose
}

// InLog is the recipient's bucket in the log.
func (s Subject) InLog() store.Bucket {
	return store.Bucket{App: s.App, Channel: s.Channel, Recipient: s.Recipient, Purposes: s.Purpose.Shares}
}

// Failures is the bucket of the recipient's failed sends.
func (s Subject) Failures() string { return FailuresBucket(s.App, s.Channel, s.Recipient) }

// Buckets are those of the scopes that the purpose's rules have. A scope without one is a network of a caller whose
// address is not known, or a country of a recipient's: then a send is refused, and a look leaves its rules out.
func (s Subject) Buckets() map[quota.Scope]string {
	all := make(map[quota.Scope]string, len(s.Purpose.Policy.Rules))
	for _, r := range s.Purpose.Policy.Rules {
		if _, named := all[r.Scope]; named {
			continue
		}
		if name := s.bucket(r.Scope); name != "" {
			all[r.Scope] = name
		}
	}
	return all
}

// bucket is that of one scope; empty where the subject has none.
func (s Subject) bucket(scope quota.Scope) string {
	switch {
	case scope == quota.Failures:
		return s.Failures()
	case scope == Spellings && s.Area.Mailbox.IsZero():
		return ""
	case scope == Spellings:
		return SpellingsBucket(s.App, s.Area.Mailbox)
	case scope == Everything:
		return quota.Bucket("", "", "", string(Everything), everyone)
	}
	subject, app := s.of(scope.Base()), s.App
	if scope.Base() == quota.Global {
		app = "" // no app has this name, so none can share its bucket
	}
	if subject == "" {
		return ""
	}
	return bucket(app, s.Channel, s.Purpose.Policy.Name, scope, subject)
}

// everyone is the subject of scopes that have one bucket.
const everyone = "all"

// of is what a scope counts by; empty where it is not known.
func (s Subject) of(scope quota.Scope) string {
	switch scope {
	case quota.Recipient:
		return s.Recipient.String()
	case quota.IP:
		return Client(s.IP)
	case quota.Network:
		return Network(s.IP)
	case quota.App:
		return s.App
	case quota.Purpose:
		return s.Purpose.Name
	case quota.Country:
		return s.Area.Country
	case quota.Prefix:
		return s.Area.Prefix
	case quota.Global, Everything:
		return everyone
	}
	return ""
}

// Counted are the buckets that a place is taken in, and given back.
func Counted(buckets map[quota.Scope]string) []string {
	var all []string
	for scope, b := range buckets {
		if scope.Counted() {
			all = append(all, b)
		}
	}
	return all
}

// Client is the prefix of one client: an IPv4 address, or the /64 of one person.
func Client(ip netip.Addr) string { return prefix(ip, 32, 64) }

// Network is the prefix that a client's network is known by.
func Network(ip netip.Addr) string { return prefix(ip, 24, 48) }

func prefix(ip netip.Addr, v4, v6 int) string {
	if !ip.IsValid() {
		return ""
	}
	ip = ip.Unmap().WithZone("")
	bits := v6
	if ip.Is4() {
		bits = v4
	}
	p, err := ip.Prefix(bits)
	if err != nil {
		return ""
	}
	return p.String()
}
