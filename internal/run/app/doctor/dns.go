package doctor

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"

	"sendcode/internal/deliver/delivery/mailserver"
)

// resolver has the methods of a [net.Resolver] that the doctor calls.
type resolver interface {
	LookupTXT(ctx context.Context, name string) ([]string, error)
	LookupHost(ctx context.Context, host string) ([]string, error)
	LookupAddr(ctx context.Context, address string) ([]string, error)
	LookupMX(ctx context.Context, name string) ([]*net.MX, error)
}

// senderDomains returns the domains from which mails are sent. If mails do not leave this machine,
// it returns none.
func (d *doctor) senderDomains() []string {
	if d.cfg.SMTPURL == "" {
		return nil
	}
	return slices.DeleteFunc(d.cfg.MailDomains(), func(name string) bool { return name == "localhost" })
}

// checkDNSAnswer reports whether the name servers answered. The answer "no such name" counts as an
// answer. If the name servers did not answer, checkDNSAnswer prints a remark.
func (d *doctor) checkDNSAnswer(what, name string, err error) bool {
	dns, ok := errors.AsType[*net.DNSError](err)
	if err == nil || ok && dns.IsNotFound {
		return true
	}
	d.remark(what, "the name servers do not answer for "+name)
	return false
}

// checkSenderDomains checks the SPF and DMARC records that big mailbox providers require.
func (d *doctor) checkSenderDomains(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	names := d.senderDomains()
	if len(names) == 0 {
		d.pass("sender domain", "not checked: the service sends no mails yet")
	}
	for _, name := range names {
		hasSPF := d.checkSPF(ctx, name)
		if policy := d.checkDMARC(ctx, name); hasSPF && policy != "" {
			d.pass("sender domain", name+" has SPF and DMARC records, "+policy)
		}
	}
}

// checkPTRs checks the reverse names (PTR records) of the mail servers. A wrong name is only a
// remark, since a mail server may send mails from another address.
func (d *doctor) checkPTRs(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	configs, err := mailserver.ParseURLs(d.cfg.SMTPURL, nil)
	if len(d.senderDomains()) == 0 || err != nil {
		return
	}
	var seen []string
	for _, c := range configs {
		if !c.API && !slices.Contains(seen, c.Host) {
			seen = append(seen, c.Host)
			d.checkPTRsOf(ctx, c.Host)
		}
	}
}

func (d *doctor) checkPTRsOf(ctx context.Context, host string) {
	addresses, err := []string{host}, error(nil)
	if _, literal := netip.ParseAddr(host); literal != nil {
		addresses, err = d.resolver.LookupHost(ctx, host)
	}
	switch {
	case !d.checkDNSAnswer("PTR", host, err):
		return
	case len(addresses) == 0:
		d.remark("PTR", host+" has no address in the DNS")
		return
	case !slices.ContainsFunc(addresses, isPublicAddress):
		d.remark("PTR", host+" is in a private network: check the PTR record of the public address that its mails leave from")
		return
	}
	for _, a := range addresses {
		if isPublicAddress(a) {
			d.checkPTRLeadsBack(ctx, host, a)
		}
	}
}

func isPublicAddress(address string) bool {
	a, err := netip.ParseAddr(address)
	return err == nil && a.IsGlobalUnicast() && !a.IsPrivate()
}

// checkPTRLeadsBack checks that the address has a name, and that this name resolves to the same
// address (RFC 1912 section 2.1). Receivers of mails make the same check.
func (d *doctor) checkPTRLeadsBack(ctx context.Context, host, address string) {
	names, err := d.resolver.LookupAddr(ctx, address)
	if !d.checkDNSAnswer("PTR", address, err) {
		return
	}
	if len(names) == 0 {
		d.remark("PTR", address+", of "+host+", has no PTR record: if mails leave from there, big providers refuse them")
		return
	}
	for _, name := range names {
		name = strings.TrimSuffix(name, ".")
		if back, err := d.resolver.LookupHost(ctx, name); err == nil && slices.Contains(back, address) {
			d.pass("PTR", address+" is "+name+", which resolves to it")
			return
		}
	}
	name := strings.TrimSuffix(names[0], ".")
	d.remark("PTR", address+" is "+name+
		", which does not resolve to it: if mails leave from there, big providers refuse them")
}
