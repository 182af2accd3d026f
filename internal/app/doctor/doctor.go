// Package doctor tries every connection of a configuration and looks at what often goes wrong:
// `sendcode doctor`. It runs beside the service, and takes from internal/app what the service would
// use.
package doctor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"
	"time"

	"sendcode/internal/app"
	"sendcode/internal/config"
	"sendcode/internal/sms"
	"sendcode/internal/store/postgres"
	"sendcode/quota"
)

// checkTimeout bounds each of the doctor's questions.
const checkTimeout = 5 * time.Second

// Examine tries every connection and looks for common faults, and prints one line for each. It
// sends no message. Of a Postgres database it changes only the tables write_probe and leases, to
// see that there is room for rows. The error has the number of faults, without remarks.
func Examine(ctx context.Context, cfg config.Config, out io.Writer) error {
	app.LogRedis(slog.New(slog.DiscardHandler))
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
			"no app has a key, so the app default has generated ones. They are closed behind a proxy that says that it "+
				"is one, and open behind any other, such as one for TCP: before others can reach "+d.cfg.Addr+
				", give SENDCODE_API_KEY, or an app's keys")
	}
	d.run(ctx, "database", d.checkDatabase)
	d.run(ctx, "redis", d.checkRedis)
	d.checkMailServers(ctx)
	d.checkSenderDomains(ctx)
	d.checkDKIM(ctx)
	d.checkPTRs(ctx)
	d.checkCarriers(ctx)
	d.remarkReceiptAddresses()
	d.checkProvider(ctx)
	if d.broken > 0 {
		return fmt.Errorf("%d of the things looked at do not work", d.broken)
	}
	return nil
}

type doctor struct {
	cfg      config.Config
	out      io.Writer
	resolver resolver
	now      func() time.Time
	broken   int
}

// run calls a check with checkTimeout and prints what it returns.
func (d *doctor) run(ctx context.Context, what string, check func(context.Context) (string, error)) {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	said, err := check(ctx)
	if err != nil {
		d.fail(what, err.Error())
		return
	}
	d.pass(what, said)
}

func (d *doctor) fail(what, said string) {
	said = once(said)
	d.broken++
	fmt.Fprintf(d.out, "✗ %s: %s\n", what, said)
}

// once returns a text without lines that it has twice: pgx tries an address with TLS and without,
// and tells of both in the same words.
func once(said string) string {
	var lines []string
	for line := range strings.SplitSeq(said, "\n") {
		if line = strings.TrimSpace(line); line != "" && !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, " ")
}

func (d *doctor) pass(what, said string) { fmt.Fprintf(d.out, "✓ %s: %s\n", what, said) }

func (d *doctor) remark(what, said string) { fmt.Fprintf(d.out, "! %s: %s\n", what, said) }

func (d *doctor) checkDatabase(ctx context.Context) (string, error) {
	if d.cfg.DatabaseURL == "" {
		return "SQLite in " + d.cfg.DataDir, nil
	}
	db, err := postgres.Open(ctx, d.cfg.DatabaseURL, d.cfg.DatabaseRole)
	if err != nil {
		return "", err
	}
	defer func() { _ = db.Close() }()
	if why, err := db.AuditWeakness(ctx); err == nil && why != "" {
		d.remark("acts", why+"; see SENDCODE_DATABASE_ROLE")
	}
	d.compareClock(ctx, "Postgres", db.Clock)
	d.checkKeys(ctx, db)
	said, err := d.checkStorage(ctx, db)
	return "Postgres answers, and its schema fits: " + said, errors.Join(err, db.Ping(ctx))
}

func (d *doctor) checkRedis(ctx context.Context) (string, error) {
	if d.cfg.RedisURL == "" {
		return "none: rules are counted in process, as is right for one replica alone", nil
	}
	client, err := quota.OpenRedis(d.cfg.RedisURL)
	if err != nil {
		return "", err
	}
	defer func() { _ = client.Close() }()
	r := quota.NewRedis(client, app.RedisPrefix)
	if err := r.Ping(ctx); err != nil { // which asks for all that a send does
		return "", err
	}
	d.compareClock(ctx, "Redis", func(ctx context.Context) (time.Time, error) {
		seen, err := r.Peek(ctx, quota.Request{})
		return seen.At, err
	})
	for _, w := range r.Warnings(ctx) {
		d.remark("redis", w)
	}
	return "answers, and lets a send count", nil
}

// checkProvider checks that the identity provider's addresses can be read. Only a login shows
// whether it accepts the client's secret.
func (d *doctor) checkProvider(ctx context.Context) {
	p := app.Provider(d.cfg)
	if p == nil {
		return
	}
	d.run(ctx, "provider of logins", func(ctx context.Context) (string, error) {
		_, _, err := p.Client.Begin(ctx)
		return p.Title + " answers", err
	})
}

// checkCarriers checks each carrier separately. Nothing is sent.
func (d *doctor) checkCarriers(ctx context.Context) {
	for _, c := range d.cfg.SMS.Carriers {
		d.run(ctx, "carrier "+c.Name, func(ctx context.Context) (string, error) {
			return sms.Probe(ctx, c.Open())
		})
		if s, ok := c.Settings.(sms.SenderSettings); ok && s.NeedsSender() && len(d.cfg.SMS.Senders) == 0 {
			d.remark("carrier "+c.Name, "needs a sender and has none: it can send nothing")
		}
	}
}

// remarkReceiptAddresses prints the addresses to enter in carriers' consoles. They contain a token.
func (d *doctor) remarkReceiptAddresses() {
	for _, c := range d.cfg.SMS.Carriers {
		s, ok := c.Settings.(sms.ReportsPerAccount)
		if ok && s.ReportsPerAccount() && d.cfg.SMS.PublicURL != "" && d.cfg.IndexKey.IsSet() {
			d.remark("receipts", c.Name+" sends them to the address entered in its console; it is "+
				app.ReceiptAddresses(d.cfg).URL(c.Name, ""))
		}
	}
}
