package config

import (
	"crypto/sha256"
	"fmt"
	"net"
	"slices"
	"strings"

	"sendcode/internal/config/address"
	"sendcode/internal/config/document"
	"sendcode/internal/keyring"
	"sendcode/internal/recipient"
)

// checkTogether reports settings that are wrong only beside others.
func (d *reader) checkTogether() {
	c, errs, page := d.config, d.Errs, &document.Place{}
	if at := d.root.Items["page"]; at != nil {
		page = at[0]
	}
	if c.AdminPassword.IsSet() && c.AdminPasswordHash.IsSet() {
		errs.Add(d.where(keyAdminPasswordHash), "is given beside the password itself; keep one")
	}
	if _, port, _ := net.SplitHostPort(c.Addr); c.Addr == c.AdminAddr && port != "0" {
		errs.Add(d.where(keyAdminAddr), "is the same as %s; leave it out to have both there", d.where(keyAddr))
	}
	if c.indexKeyOnRing() {
		errs.Add(d.where(keyIndexKey), "is one of the keys of %s; it needs a key of its own", d.where(keySecretKeys))
	}
	sum := sha256.Sum256([]byte(c.APIKey.Reveal()))
	same := func(k Key) bool { return k.SHA256 == sum }
	if c.APIKey.IsSet() && slices.ContainsFunc(c.Apps, func(a App) bool { return slices.ContainsFunc(a.Keys, same) }) {
		errs.Add(d.where(keyAPIKey), "is also among the keys of the file")
	}
	if address.CheckAddr(c.Addr) != "" || c.AdminAddr != "" && address.CheckAddr(c.AdminAddr) != "" {
		return // who can reach it is not known
	}
	if i := slices.Index(c.Page.Channels, recipient.SMS); i >= 0 && !c.SMSOn() {
		at, path := page.Given["channels"].Content[i], fmt.Sprintf("page.channels[%d]", i)
		d.Mistake(at, path, "sms needs a carrier: without one, and without the dev mailbox, text messages go nowhere")
	}
	if c.Loopback() {
		if page.Given["app"] == nil {
			c.Page.App = DefaultApp
		}
		return
	}
	d.checkReachable()
}

// checkReachable reports what must be given once another machine can connect. Generated keys would differ on the next replica, and the
// dev mailbox shows codes to every visitor.
func (d *reader) checkReachable() {
	c, addr := d.config, d.config.Addr
	if address.Loopback(addr) {
		addr = c.AdminAddr
	}
	need := func(key string, given bool, hint string) {
		name := envName(key)
		mentioned := slices.ContainsFunc(d.Errs.Mistakes, func(m document.Mistake) bool {
			return m.Where == name || m.Where == name+"_FILE"
		})
		if !given && !mentioned {
			d.Errs.Add(name, "must be given, because %s can be reached from other machines: %s", addr, hint)
		}
	}
	ownKeys := slices.ContainsFunc(c.Apps, App.hasSecretKey)
	need(keySecretKeys, c.SecretKeys.IsSet(), "make one with `sendcode key --kind ring`, the same for every replica")
	need(keyIndexKey, c.IndexKey.IsSet(), "make one with `sendcode key --kind index`, the same for every replica")
	need(keyAPIKey, c.APIKey.IsSet() || ownKeys, "make one with `sendcode key`, or list keys of apps in the file")
	need(keySMTPURL, c.SMTPURL != "", "the dev mailbox shows every code and is for loopback addresses only")
	if key := c.APIKey.Reveal(); key != "" && checkAPIKey(key) == "" && len(key) < minAPIKey {
		d.Errs.Add(d.where(keyAPIKey), "is too short for %s, which can be reached from other machines: make one with `sendcode key`", addr)
	}
}

func (c *Config) indexKeyOnRing() bool {
	index := string(c.IndexKeyBytes())
	if index == "" {
		return false
	}
	for entry := range strings.SplitSeq(c.SecretKeys.Reveal(), ",") {
		_, encoded, _ := strings.Cut(strings.TrimSpace(entry), ":")
		if key, err := keyring.Decode(encoded); err == nil && string(key) == index {
			return true
		}
	}
	return false
}
