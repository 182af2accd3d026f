package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"sendcode/internal/config"
	"sendcode/internal/delivery"
	"sendcode/internal/delivery/sms"
	"sendcode/internal/store/postgres"
	"sendcode/quota"
)

// checkTimeout bounds each of the doctor's questions.
const checkTimeout = 5 * time.Second

// maxSkew is how far this machine's clock may be from Redis's before the doctor speaks of it: waits are told on
// Redis's, expiries on the log's.
const maxSkew = 2 * time.Second

// Doctor tries every connection and looks at what often goes wrong, one line each. It changes nothing and sends no
// mail. The error counts what does not work; remarks are not counted.
func Doctor(ctx context.Context, cfg config.Config, out io.Writer) error {
	d := &doctor{cfg: cfg, out: out, resolver: net.DefaultResolver}
	for _, w := range cfg.Warnings {
		d.remark("settings", w)
	}
	d.look(ctx, "database", d.database)
	d.look(ctx, "redis", d.redis)
	d.mailServers(ctx)
	d.look(ctx, "sender domain", d.senderDomain)
	d.carriers(ctx)
	d.receipts()
	d.provider(ctx)
	if d.broken > 0 {
		return fmt.Errorf("%d of the things looked at do not work", d.broken)
	}
	return nil
}

type doctor struct {
	cfg      config.Config
	out      io.Writer
	resolver interface {
		LookupTXT(ctx context.Context, name string) ([]string, error)
	}
	broken int
}

func (d *doctor) look(ctx context.Context, what string, check func(context.Context) (string, error)) {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	said, err := check(ctx)
	if err != nil {
		d.broken++
		fmt.Fprintf(d.out, "✗ %s: %v\n", what, err)
		return
	}
	fmt.Fprintf(d.out, "✓ %s: %s\n", what, said)
}

func (d *doctor) remark(what, said string) { fmt.Fprintf(d.out, "! %s: %s\n", what, said) }

func (d *doctor) database(ctx context.Context) (string, error) {
	if d.cfg.DatabaseURL == "" {
		return "SQLite in " + d.cfg.DataDir, nil
	}
	log, err := postgres.Open(ctx, d.cfg.DatabaseURL, postgres.As(d.cfg.DatabaseRole))
	if err != nil {
		return "", err
	}
	defer func() { _ = log.Close() }()
	if why, err := log.Guarded(ctx); err == nil && why != "" {
		d.remark("acts", why+"; see SENDCODE_DATABASE_ROLE")
	}
	said, err := d.extent(ctx, log)
	return "Postgres answers, and its schema fits: " + said, errors.Join(err, log.Ping(ctx))
}

func (d *doctor) redis(ctx context.Context) (string, error) {
	if d.cfg.RedisURL == "" {
		return "none: rules are counted in process, which is right for one replica", nil
	}
	client, err := quota.OpenRedis(d.cfg.RedisURL)
	if err != nil {
		return "", err
	}
	defer func() { _ = client.Close() }()
	r := quota.NewRedis(client, redisPrefix)
	if err := r.Ping(ctx); err != nil { // which asks for all that a send does
		return "", err
	}
	seen, err := r.Peek(ctx, quota.Request{})
	if err != nil {
		return "", err
	}
	for _, w := range r.Warnings(ctx) {
		d.remark("redis", w)
	}
	if skew := time.Since(seen.At).Abs(); skew > maxSkew {
		d.remark("clock", fmt.Sprintf("this machine's and Redis's differ by %v", skew.Round(time.Millisecond)))
	}
	return "answers, and lets a send count", nil
}

// mailServers looks at each server by itself: one that does not work is passed over in silence by the others.
func (d *doctor) mailServers(ctx context.Context) {
	const what = "mail server"
	if d.cfg.SMTPURL == "" {
		d.look(ctx, what, func(context.Context) (string, error) {
			return "none: mails stay in the dev mailbox, nobody receives them", nil
		})
		return
	}
	configs, err := delivery.ParseURLs(d.cfg.SMTPURL)
	if err != nil {
		d.look(ctx, what, func(context.Context) (string, error) { return "", err })
		return
	}
	for n, c := range configs {
		name := what
		if len(configs) > 1 {
			name = fmt.Sprintf("%s %d of %d", what, n+1, len(configs))
		}
		d.look(ctx, name, func(ctx context.Context) (string, error) { return d.mailServer(ctx, c) })
	}
}

func (d *doctor) mailServer(ctx context.Context, c delivery.SMTPConfig) (string, error) {
	server, err := delivery.NewSMTP(c)
	if err != nil {
		return "", err
	}
	err = server.Probe(ctx)
	if err = errors.Join(err, server.Close()); err != nil {
		return "", fmt.Errorf("%s: %w", c.Host, err)
	}
	return c.Host + " answers, as encrypted and logged in as configured", nil
}

// provider asks for the addresses of the console's provider; that it takes the client's secret only a login shows.
func (d *doctor) provider(ctx context.Context) {
	p := provider(d.cfg)
	if p == nil {
		return
	}
	d.look(ctx, "provider of logins", func(ctx context.Context) (string, error) {
		_, _, err := p.Asked.Begin(ctx)
		return p.Title + " answers", err
	})
}

// carriers looks at each by itself, and has none send anything.
func (d *doctor) carriers(ctx context.Context) {
	for _, c := range d.cfg.SMS.Carriers {
		d.look(ctx, "carrier "+c.Name, func(ctx context.Context) (string, error) {
			carrier, err := c.Open()
			if err != nil {
				return "", err
			}
			return sms.Probe(ctx, carrier)
		})
		if c.Type == "twilio" && c.Twilio.Service == "" && d.cfg.SMS.Sender == "" && len(d.cfg.SMS.Senders) == 0 {
			d.remark("carrier "+c.Name, "has neither a service nor a sender: it can send nothing")
		}
	}
}

// receipts tells the addresses that go into carriers' consoles: they hold a token.
func (d *doctor) receipts() {
	a := App{cfg: d.cfg}
	for _, c := range d.cfg.SMS.Carriers {
		if (c.Type == "aliyun" || c.Type == "tencent") && d.cfg.SMS.PublicURL != "" && d.cfg.IndexKey.IsSet() {
			d.remark("receipts", c.Name+" sends them to the address entered in its console; it is "+a.callback(c.Name, ""))
		}
	}
}

// senderDomain looks for what big mailbox providers want of a sender (MAIL-5).
func (d *doctor) senderDomain(ctx context.Context) (string, error) {
	name := domain(d.cfg.MailFrom)
	if name == "localhost" || d.cfg.SMTPURL == "" {
		return "not looked at: mails go nowhere yet", nil
	}
	if !d.hasRecord(ctx, name, "v=spf1") {
		d.remark("sender domain", name+" has no SPF record; providers may refuse its mails unless they are signed with DKIM")
	}
	if !d.hasRecord(ctx, "_dmarc."+name, "v=DMARC1") {
		d.remark("sender domain", name+" has no DMARC record; from 5,000 mails a day big providers want one")
	}
	return name, nil
}

func (d *doctor) hasRecord(ctx context.Context, name, prefix string) bool {
	records, err := d.resolver.LookupTXT(ctx, name)
	if err != nil {
		return false
	}
	for _, r := range records {
		if strings.HasPrefix(strings.ToLower(r), strings.ToLower(prefix)) {
			return true
		}
	}
	return false
}
