package doctor

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"blitiri.com.ar/go/spf"

	"sendcode/internal/base/recipient"
	"sendcode/internal/deliver/delivery/mailserver"
)

// nobodysAddress is reserved for documentation (RFC 5737), so no mail comes from it. SPF has the
// same result for it as for any stranger's address.
var nobodysAddress = net.ParseIP("192.0.2.1")

// checkSPF reports whether a domain has one SPF record, which receivers can evaluate and which
// doesn't let every address send. It prints the mistakes in the record, and whether the record
// names the mail servers' addresses. If it doesn't, that is only a remark, because a mail server
// may send mails from another address.
func (d *doctor) checkSPF(ctx context.Context, name string) bool {
	records, err := d.resolver.LookupTXT(ctx, name)
	if !d.checkDNSAnswer("sender domain", name, err) {
		return false
	}
	valid, like := 0, false
	for _, r := range records {
		version, _, _ := strings.Cut(strings.ToLower(r), " ") // RFC 7208 section 4.5
		if version == "v=spf1" {
			valid++
		}
		like = like || version != "v=spf1" && strings.HasPrefix(strings.TrimLeft(version, `"`), "v=spf")
	}
	switch {
	case valid > 1:
		d.fail("sender domain", fmt.Sprintf("%s has %d SPF records, so receivers use none (RFC 7208 section 4.5): join them to one", name, valid))
		return false
	case valid == 0 && like:
		d.fail("sender domain", name+` has a record that is nearly one of SPF: it must begin with "v=spf1 "`)
		return false
	case valid == 0:
		d.remark("sender domain", name+" has no SPF record; providers may refuse its mails unless they are signed with DKIM")
		return false
	}
	switch result, err := d.evaluateSPF(ctx, nobodysAddress, name); result {
	case spf.PermError:
		d.fail("sender domain", fmt.Sprintf("receivers can't evaluate the SPF record of %s: %v", name, err))
		return false
	case spf.TempError:
		d.remark("sender domain", "the name servers do not answer for a name in the SPF record of "+name)
		return false
	case spf.Pass:
		d.fail("sender domain", "the SPF record of "+name+" lets every address send (+all): end it with -all or ~all")
		return false
	case spf.Neutral, spf.None:
		d.remark("sender domain", "the SPF record of "+name+" does not say what to do with mails from other servers: end it with -all or ~all")
	}
	d.checkSPFOfServers(ctx, name)
	return true
}

// checkSPFOfServers says which public addresses of mail servers the SPF record of a domain does not
// allow.
func (d *doctor) checkSPFOfServers(ctx context.Context, name string) {
	configs, err := mailserver.ParseURLs(d.cfg.SMTPURL, nil)
	if err != nil {
		return
	}
	var seen []string
	for _, c := range configs {
		if c.API || slices.Contains(seen, c.Host) {
			continue
		}
		seen = append(seen, c.Host)
		addresses := []string{c.Host}
		if _, literal := netip.ParseAddr(c.Host); literal != nil {
			addresses, _ = d.resolver.LookupHost(ctx, c.Host) // checkPTRsOf reports the error
		}
		for _, a := range slices.DeleteFunc(addresses, func(a string) bool { return !isPublicAddress(a) }) {
			if result, _ := d.evaluateSPF(ctx, net.ParseIP(a), name); result != spf.Pass && result != spf.TempError {
				d.remark("sender domain", fmt.Sprintf("the SPF record of %s does not allow %s, of %s (%s): if mails leave from there, add it",
					name, a, c.Host, result))
			}
		}
	}
}

func (d *doctor) evaluateSPF(ctx context.Context, address net.IP, name string) (spf.Result, error) {
	return spf.CheckHostWithSender(address, name, "postmaster@"+name, spf.WithContext(ctx), spf.WithResolver(spfResolver{d.resolver}))
}

// spfResolver is a resolver for package spf.
type spfResolver struct{ resolver }

// LookupIPAddr implements spf.DNSResolver.
func (r spfResolver) LookupIPAddr(ctx context.Context, host string) (all []net.IPAddr, err error) {
	addresses, err := r.LookupHost(ctx, host)
	for _, a := range addresses {
		if ip := net.ParseIP(a); ip != nil {
			all = append(all, net.IPAddr{IP: ip})
		}
	}
	return all, err
}

var (
	dmarcPattern = regexp.MustCompile(`^v[ \t]*=[ \t]*DMARC1[ \t]*(?:;|$)`) // RFC 7489 section 6.4
	dmarcPolicy  = []string{"none", "quarantine", "reject"}
)

// checkDMARC finds the DMARC policy of a domain as receivers do (RFC 7489 section 6.6.3): in the
// one record of the domain or, if it has none, of its organizational domain. It returns the policy
// in words. If there is no record, it prints a remark and returns "". If receivers would use no
// policy because of a mistake, it prints a failure and returns "".
func (d *doctor) checkDMARC(ctx context.Context, name string) (policy string) {
	for _, at := range slices.Compact([]string{name, recipient.RegistrableDomain(name)}) {
		records, err := d.resolver.LookupTXT(ctx, "_dmarc."+at)
		if !d.checkDNSAnswer("sender domain", "_dmarc."+at, err) {
			return ""
		}
		all := len(records)
		records = slices.DeleteFunc(records, func(r string) bool { return !dmarcPattern.MatchString(r) })
		switch {
		case len(records) > 1:
			d.fail("sender domain", "_dmarc."+at+" has "+strconv.Itoa(len(records))+" DMARC records, so receivers use none: keep one")
			return ""
		case len(records) == 0 && all > 0 && at == name:
			d.fail("sender domain", "_dmarc."+at+` has a record that is none of DMARC: it must begin with "v=DMARC1;"`)
			return ""
		case len(records) == 1:
			return d.dmarcPolicyOf(records[0], at, at != name)
		}
	}
	d.remark("sender domain", name+" has no DMARC record; from 5,000 mails a day big providers require one")
	return ""
}

// dmarcPolicyOf returns the policy of a record in words. If the record has no valid policy, it
// prints a failure and returns "". sub is true for a subdomain of the record's domain.
func (d *doctor) dmarcPolicyOf(record, at string, sub bool) string {
	tags := map[string]string{}
	for tag := range strings.SplitSeq(record, ";") {
		key, value, _ := strings.Cut(tag, "=")
		tags[strings.ToLower(strings.TrimSpace(key))] = strings.ToLower(strings.TrimSpace(value))
	}
	key := "p"
	if sub && tags["sp"] != "" {
		key = "sp"
	}
	if !slices.Contains(dmarcPolicy, tags["p"]) || !slices.Contains(dmarcPolicy, tags[key]) {
		d.fail("sender domain", "the DMARC record at _dmarc."+at+" has no valid policy, so receivers use none: add p=none, p=quarantine or p=reject")
		return ""
	}
	words := "the latter with " + key + "=" + tags[key]
	if sub {
		words += " of " + at
	}
	return words
}
