package config

import (
	"net/mail"
	"regexp"
	"slices"
	"strings"

	"sendcode/internal/config/address"
	"sendcode/internal/config/document"
)

// selector is one or more labels of a domain name (RFC 6376 section 3.1).
var selector = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?)*$`)

func checkSelector(value string) string {
	if len(value) > 63 || !selector.MatchString(value) {
		return "must be a DKIM selector: letters, digits, - and dots between them, at most 63"
	}
	return ""
}

// checkMailFrom returns what is wrong with the sender of mails, or "": it must be one plain address, with a printable name if any.
func checkMailFrom(value string) string {
	const want = "must be one sender such as Shop <no-reply@shop.example>"
	sender, err := mail.ParseAddress(value)
	if err != nil {
		return want
	}
	at := strings.LastIndexByte(sender.Address, '@') // ParseAddress wants one
	local, domain := sender.Address[:at], sender.Address[at+1:]
	switch {
	case len(sender.Address) > 254 || len(local) > 64: // RFC 5321 section 4.5.3.1
		return "the address is too long"
	case !plainLocal.MatchString(local) || !address.HostName.MatchString(domain) || strings.Contains(domain, ".."):
		return want
	case strings.ContainsFunc(sender.Name, document.IsControl):
		return "the name contains a control character"
	}
	return ""
}

// plainLocal is dot-atom of RFC 5322 section 3.2.3: the sender is ours to choose, so it need not be exotic.
var plainLocal = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+(\\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*$")

// MailDomain is the domain of MailFrom, the right-hand side of Message-IDs.
func (c Config) MailDomain() string { return domainOf(c.MailFrom) }

// MailDomains returns the domains of all senders, each once: first the service's, then those of apps.
func (c Config) MailDomains() []string {
	all := []string{c.MailDomain()}
	for _, a := range c.Apps {
		if domain := domainOf(a.MailFrom); a.MailFrom != "" && !slices.Contains(all, domain) {
			all = append(all, domain)
		}
	}
	return all
}

func domainOf(from string) string {
	sender, err := mail.ParseAddress(from)
	if err != nil {
		return "localhost"
	}
	return strings.ToLower(sender.Address[strings.LastIndexByte(sender.Address, '@')+1:])
}
