package doctor

import (
	"context"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// selectorPattern matches one or more labels of a domain name (RFC 6376 section 3.1).
var selectorPattern = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?)*$`)

// ValidateSelector returns an error unless the text is a DKIM selector.
func ValidateSelector(text string) error {
	if len(text) > 63 || !selectorPattern.MatchString(text) {
		return errors.New("a DKIM selector has at most 63 letters and digits, with - and dots between them")
	}
	return nil
}

// checkDKIM checks the DNS records of the keys that the mail server signs with (RFC 6376 section
// 3.6.1). The DNS name of a key contains the selector. The doctor cannot find the selector, so the
// administrator passes it.
func (d *doctor) checkDKIM(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	switch senders := d.senderDomains(); {
	case len(senders) == 0:
	case d.cfg.DKIMSelector == "":
		d.remark("DKIM",
			"not checked, since the selector is not known: give --dkim-selector; it follows s= in the DKIM-Signature "+
				"of a received mail")
	default:
		for _, sender := range senders {
			d.checkDKIMOf(ctx, sender)
		}
	}
}

func (d *doctor) checkDKIMOf(ctx context.Context, sender string) {
	name := d.cfg.DKIMSelector + "._domainkey." + sender
	records, err := d.resolver.LookupTXT(ctx, name)
	if !d.checkDNSAnswer("DKIM", name, err) {
		return
	}
	for _, r := range records {
		if tags := parseDKIMTags(r); tags != nil {
			d.judgeDKIMKey(name, tags)
			return
		}
	}
	d.fail("DKIM", "there is no key at "+name+": mails signed with it count as unsigned")
}

// parseDKIMTags returns the tags of a DKIM record. If the record is no DKIM record, it returns nil.
func parseDKIMTags(record string) map[string]string {
	tags := map[string]string{}
	for tag := range strings.SplitSeq(record, ";") {
		name, value, _ := strings.Cut(tag, "=")
		tags[strings.TrimSpace(name)] = strings.Join(strings.Fields(value), "")
	}
	if _, has := tags["p"]; !has || tags["v"] != "" && tags["v"] != "DKIM1" {
		return nil
	}
	return tags
}

func (d *doctor) judgeDKIMKey(name string, tags map[string]string) {
	if tags["p"] == "" {
		d.fail("DKIM", "the key at "+name+" is withdrawn (p= is empty)")
		return
	}
	kind, bits := describeDKIMKey(tags)
	switch testing := strings.Contains(":"+tags["t"]+":", ":y:"); {
	case kind == "":
		d.fail("DKIM", "the key at "+name+" cannot be read")
	case bits > 0 && bits < 1024: // RFC 8301 section 3.2
		d.fail("DKIM", fmt.Sprintf("%s has %s; receivers accept no key below 1024 bits", name, kind))
	case testing:
		d.remark("DKIM", name+" is marked as a test (t=y): some providers treat its mails as unsigned")
	case bits > 0 && bits < 2048:
		d.remark("DKIM", name+" has "+kind+"; use 2048 bits")
	default:
		d.pass("DKIM", name+" has "+kind)
	}
}

// describeDKIMKey describes the key of a record. If the key cannot be read, kind is "". bits is the
// length of an RSA key, and 0 for other keys.
func describeDKIMKey(tags map[string]string) (kind string, bits int) {
	der, err := base64.StdEncoding.DecodeString(tags["p"])
	switch {
	case err != nil:
		return "", 0
	case tags["k"] == "ed25519" && len(der) == 32: // RFC 8463 section 4
		return "an Ed25519 key", 0
	case tags["k"] != "" && tags["k"] != "rsa":
		return "", 0
	}
	key, err := x509.ParsePKIXPublicKey(der)
	if k, ok := key.(*rsa.PublicKey); err == nil && ok {
		return fmt.Sprintf("an RSA key of %d bits", k.N.BitLen()), k.N.BitLen()
	}
	return "", 0
}
