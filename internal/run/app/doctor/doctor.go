// Package doctor is the command `sendcode doctor`. The doctor tries every connection of a
// configuration and looks for common faults. It can run while the service runs. It opens
// connections in the same way as internal/run/app.
package doctor

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"
	"time"

	"sendcode/internal/deliver/sms"
	"sendcode/internal/run/app"
	"sendcode/internal/run/config"
	"sendcode/internal/store/postgres"
	"sendcode/internal/verify/humancheck/vendors"
	"sendcode/quota"
)

const checkTimeout = 5 * time.Second

// Examine tries every connection, looks for common faults, and prints one line for each check. It
// sends no message but the one for cfg.TestRecipient. To see whether a Postgres database has room
// for rows, it writes to the tables write_probe and leases, or, without the rights to these, to
// idempotency_keys. The error has the number of faults. Remarks are not faults.
func Examine(ctx context.Context, cfg config.Config, out io.Writer) error {
	app.SetRedisLogger(slog.New(slog.DiscardHandler))
	return newDoctor(cfg, out).examine(ctx)
}

func newDoctor(cfg config.Config, out io.Writer) *doctor {
	return &doctor{cfg: cfg, out: out, resolver: net.DefaultResolver, now: time.Now}
}

func (d *doctor) examine(ctx context.Context) error {
	for _, w := range d.cfg.Warnings {
		d.remark("settings", w)
	}
	if d.cfg.GeneratesAPIKey() {
		d.remark("keys",
			"no app has a configured secret key, so the app default has a generated one. Requests with a proxy's headers can't use it, "+
				"and requests through a proxy without such headers, such as a TCP proxy, can: before other machines can reach "+d.cfg.Addr+
				", give SENDCODE_API_KEY, or an app's keys")
	}
	if d.cfg.DatabaseURL == "" {
		d.checkFile(ctx)
	} else {
		d.runCheck(ctx, "database", d.checkDatabase)
	}
	d.checkService(ctx)
	d.runCheck(ctx, "redis", d.checkRedis)
	d.checkMailServers(ctx)
	d.checkSenderDomains(ctx)
	d.checkDKIM(ctx)
	d.checkPTRs(ctx)
	d.checkBounces(ctx)
	d.checkCarriers(ctx)
	d.remarkReceiptAddresses()
	d.checkVendors(ctx)
	d.checkIdentityProvider(ctx)
	if d.cfg.BehindURL != "" {
		d.runCheck(ctx, "proxy", d.checkProxy)
	}
	if d.cfg.TestRecipient != "" {
		d.sendTestMessage(ctx)
	}
	if d.broken > 0 {
		return fmt.Errorf("%d checks failed", d.broken)
	}
	return nil
}

// doctor prints one line for each check, and counts the failed ones in broken.
type doctor struct {
	cfg      config.Config
	out      io.Writer
	resolver resolver
	now      func() time.Time
	broken   int
}

// runCheck calls a check with checkTimeout and prints the result.
func (d *doctor) runCheck(ctx context.Context, what string, check func(context.Context) (string, error)) {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	text, err := check(ctx)
	if err != nil {
		d.fail(what, err.Error())
		return
	}
	d.pass(what, text)
}

func (d *doctor) fail(what, text string) {
	text = uniqueLines(text)
	d.broken++
	fmt.Fprintf(d.out, "✗ %s: %s\n", what, text)
}

// uniqueLines joins the lines of a text and drops repeated lines. The database driver pgx tries an
// address with TLS and without TLS, and may report both failures in the same words.
func uniqueLines(text string) string {
	var lines []string
	for line := range strings.SplitSeq(text, "\n") {
		line = strings.TrimSpace(line)
		if line != "" && !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, " ")
}

func (d *doctor) pass(what, text string) { fmt.Fprintf(d.out, "✓ %s: %s\n", what, text) }

func (d *doctor) remark(what, text string) { fmt.Fprintf(d.out, "! %s: %s\n", what, text) }

func (d *doctor) checkDatabase(ctx context.Context) (string, error) {
	db, err := postgres.Open(ctx, d.cfg.DatabaseURL, d.cfg.DatabaseRole)
	if err != nil {
		return "", err
	}
	defer func() { _ = db.Close() }()
	if err := db.Ping(ctx); err != nil { // comes first, because the checks that read data may use up the time
		return "", err
	}
	if why, err := db.AuditWeakness(ctx); err == nil && why != "" {
		d.remark("acts", why+"; see SENDCODE_DATABASE_ROLE")
	}
	d.compareClock(ctx, "Postgres", db.Clock)
	d.checkKeys(ctx, d.cfg, db.Store())
	text, err := d.checkStorage(ctx, db.Store())
	return "Postgres answers, and its schema fits this version" + text, err
}

func (d *doctor) checkRedis(ctx context.Context) (string, error) {
	if d.cfg.RedisURL == "" {
		return "none: the database decides the rules on recipients, and each process counts for the others", nil
	}
	client, err := quota.OpenRedis(d.cfg.RedisURL)
	if err != nil {
		return "", err
	}
	defer func() { _ = client.Close() }()
	r := quota.NewRedis(client, app.RedisPrefix)
	if err := r.Ping(ctx); err != nil { // Ping runs the scripts of a send
		return "", app.ExplainRedis(d.cfg, err)
	}
	d.compareClock(ctx, "Redis", func(ctx context.Context) (time.Time, error) {
		decision, err := r.Peek(ctx, quota.Request{})
		return decision.At, err
	})
	for _, w := range r.Warnings(ctx) {
		d.remark("redis", w)
	}
	return "answers, and can count a send", nil
}

// checkIdentityProvider checks that the documents of the identity provider can be read. Only a
// login shows whether the provider accepts the client's secret.
func (d *doctor) checkIdentityProvider(ctx context.Context) {
	p := app.IdentityProvider(d.cfg)
	if p == nil {
		return
	}
	d.runCheck(ctx, "provider of logins", func(ctx context.Context) (string, error) {
		_, _, err := p.Client.Begin(ctx)
		return p.Title + " answers", err
	})
}

// checkCarriers checks each carrier separately. Nothing is sent.
func (d *doctor) checkCarriers(ctx context.Context) {
	for _, c := range d.cfg.SMS.Carriers {
		d.runCheck(ctx, "carrier "+c.Name, func(ctx context.Context) (string, error) {
			return sms.Probe(ctx, c.Open())
		})
		if s, ok := c.Settings.(sms.SettingsWithSender); ok && s.NeedsSender() && len(d.cfg.SMS.Senders) == 0 {
			d.remark("carrier "+c.Name, "needs a sender and has none: it can send nothing")
		}
	}
}

// checkVendors asks the vendor of each app's human check about a test token.
func (d *doctor) checkVendors(ctx context.Context) {
	for _, a := range d.cfg.Apps {
		settings, asks := a.HumanCheck.Vendor(a.Origins)
		if !asks {
			continue
		}
		d.runCheck(ctx, "human check of "+a.Name, func(ctx context.Context) (string, error) {
			v, err := vendors.New(settings, a.Name, vendors.NewBounds(nil), nil)
			if err != nil {
				return "", err
			}
			return v.Probe(ctx)
		})
	}
}

// remarkReceiptAddresses prints the URLs to which carriers post receipts. An operator enters them
// in the carriers' consoles. The URLs contain a token.
func (d *doctor) remarkReceiptAddresses() {
	for _, c := range d.cfg.SMS.Carriers {
		s, ok := c.Settings.(sms.SettingsWithAccountCallback)
		if ok && s.HasAccountCallback() && d.cfg.PublicURL != "" && d.cfg.IndexKey.IsSet() {
			d.remark("receipts", c.Name+" sends them to the address entered in its console; it is "+
				app.ReceiptAddresses(d.cfg).URL(c.Name, ""))
		}
	}
}
