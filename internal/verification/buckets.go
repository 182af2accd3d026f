package verification

import (
	"net/netip"

	"sendcode/internal/recipient"
	"sendcode/quota"
)

// bucket is where a scope's events are counted: purposes that share a policy share it, per app and channel. The policy ""
// is none.
func bucket(app string, ch recipient.Channel, policy string, scope quota.Scope, subject string) string {
	return quota.Bucket(app, string(ch), policy, string(scope), subject)
}

// recipientBuckets are those of a recipient under one policy: of all callers, and of browsers alone.
func recipientBuckets(app string, ch recipient.Channel, policy string, h recipient.Hash) []string {
	return []string{bucket(app, ch, policy, quota.Recipient, h.String()), bucket(app, ch, policy, quota.Recipient.OfBrowsers(), h.String())}
}

// buckets are those of the scopes that the purpose's rules have. A scope without one is a network of a caller whose
// address is not known, or a country of a recipient's: then a send is refused, and a look leaves its rules out.
func buckets(c Caller, ch recipient.Channel, in area, p Purpose, h recipient.Hash) map[quota.Scope]string {
	subjects := map[quota.Scope]string{
		quota.Recipient: h.String(), quota.IP: network(c.IP, 32, 64), quota.Network: network(c.IP, 24, 48),
		quota.App: c.App, quota.Purpose: p.Name, quota.Country: in.country, quota.Prefix: in.prefix, quota.Global: "all", Everything: "all",
	}
	all := map[quota.Scope]string{}
	for _, r := range p.Policy.Rules {
		subject, app := subjects[r.Scope.Base()], c.App
		if r.Scope.Base() == quota.Global {
			app = "" // no app has this name, so none can share its bucket
		}
		switch {
		case r.Scope == quota.Failures:
			all[r.Scope] = failuresBucket(c.App, ch, h)
		case r.Scope == Spellings:
			if in.mailbox != (recipient.Hash{}) {
				all[r.Scope] = spellingsBucket(c.App, in.mailbox)
			}
		case r.Scope == Everything:
			all[r.Scope] = quota.Bucket("", "", "", string(Everything), subject)
		case subject != "":
			all[r.Scope] = bucket(app, ch, p.Policy.Name, r.Scope, subject)
		}
	}
	return all
}

func (a asked) buckets() map[quota.Scope]string {
	return buckets(a.Caller, a.to.Channel(), a.area, a.purpose, a.hash)
}

// network is the address's prefix: one person's IPv6 addresses are a whole /64 (QUOTA-19).
func network(ip netip.Addr, v4, v6 int) string {
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
