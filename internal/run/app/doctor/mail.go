package doctor

import (
	"context"
	"fmt"
	"time"

	"sendcode/internal/base/loopback"
	"sendcode/internal/deliver/delivery"
	"sendcode/internal/deliver/delivery/mailserver"
)

// checkMailServers checks each mail server separately. A test mail would not show the failure of
// one server, since the mail would go through the next server.
func (d *doctor) checkMailServers(ctx context.Context) {
	const what = "mail server"
	if d.cfg.SMTPURL == "" {
		d.pass(what, "none: mails stay in the dev mailbox and reach no recipient")
		return
	}
	tokens := d.cfg.TokenSources()
	defer func() { _ = tokens.Close() }()
	configs, err := mailserver.ParseURLs(d.cfg.SMTPURL, tokens)
	if err != nil {
		d.fail(what, err.Error())
		return
	}
	for n, c := range configs {
		name := what
		if len(configs) > 1 {
			name = fmt.Sprintf("%s %d of %d", what, n+1, len(configs))
		}
		d.runCheck(ctx, name, func(ctx context.Context) (string, error) { return d.checkMailServer(ctx, name, c) })
	}
}

func (d *doctor) checkMailServer(ctx context.Context, name string, c mailserver.Config) (string, error) {
	encryption, err := c.Examine(ctx, d.cfg.MailDomain(), d.cfg.MailSenders())
	if err != nil {
		return "", fmt.Errorf("%s: %w", c.Address, err)
	}
	d.reportEncryption("TLS of the "+name, loopback.IsHost(c.Host), encryption)
	text := c.Address + " answers; encryption and login are as configured"
	if c.OAuth != "" {
		text = c.Address + " answers, and accepts the token of oauth " + c.OAuth + "; encryption is as configured"
	}
	if !c.API {
		text += ", and it accepts the senders"
	}
	return text, nil
}

// renewCertificateBefore is how long before its end a certificate should be renewed.
const renewCertificateBefore = 14 * 24 * time.Hour

func (d *doctor) reportEncryption(what string, local bool, e delivery.Encryption) {
	how := "by STARTTLS"
	if e.Implicit {
		how = "from the first byte"
	}
	left := e.Until.Sub(d.now())
	switch {
	case e.Version == "" && local:
		d.pass(what, "none, and none is needed: it is on this machine")
	case e.Version == "" && e.Offered:
		d.remark(what, "none, though the server offers STARTTLS: set tls=required")
	case e.Version == "":
		d.remark(what, "none, and the server offers none: every code is sent unencrypted")
	case e.Unverified != nil:
		d.remark(what, fmt.Sprintf("%s %s, unverified, so an attacker on the path could read codes: %v", e.Version, how, e.Unverified))
	case left < renewCertificateBefore:
		d.remark(what, fmt.Sprintf("%s %s; its certificate, of %s, ends in %s: renew it", e.Version, how, e.Issuer,
			durationInWords(left)))
	default:
		d.pass(what, fmt.Sprintf("%s %s; its certificate, of %s, is valid for %s", e.Version, how, e.Issuer,
			durationInWords(left)))
	}
}

// durationInWords returns a duration in words, rounded down.
func durationInWords(left time.Duration) string {
	if left < 48*time.Hour {
		return fmt.Sprintf("%d hours", int(left.Hours()))
	}
	return fmt.Sprintf("%d days", int(left.Hours()/24))
}
