package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"sendcode/internal/config"
	"sendcode/internal/demo"
	"sendcode/internal/gates"
	"sendcode/internal/metrics"
	"sendcode/internal/outbox"
	"sendcode/internal/policy"
	"sendcode/internal/proof"
	"sendcode/internal/refusals"
	"sendcode/internal/store"
	"sendcode/internal/store/sqlite"
	"sendcode/internal/support"
	"sendcode/internal/vault"
	"sendcode/internal/verification"
	"sendcode/quota"
)

// DemoConfig is the configuration of a demonstration: the embedded service, with the apps and purposes of the week that is played.
// Of the environment it takes the address alone, so that nothing real is touched.
func DemoConfig(addr, dataDir string) (config.Config, error) {
	environ := []string{"SENDCODE_CONFIG=demo.yaml", "SENDCODE_DATA_DIR=" + dataDir}
	if addr != "" {
		environ = append(environ, "SENDCODE_ADDR="+addr)
	}
	return config.Load(environ, func(name string) ([]byte, error) {
		if name == "demo.yaml" {
			return []byte(demo.Config), nil
		}
		return os.ReadFile(name)
	})
}

// Demo plays a week that ends now into a log of its own, and serves that until ctx ends. Nothing of it stays.
func Demo(ctx context.Context, addr string, logger *slog.Logger, out io.Writer) (err error) {
	dir, err := os.MkdirTemp("", "sendcode-demo-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	a, err := NewDemo(ctx, addr, dir, logger)
	if err != nil {
		return err
	}
	a.banner(out)
	return a.Serve(ctx)
}

// NewDemo fills an empty directory and gives the service on it.
func NewDemo(ctx context.Context, addr, dir string, logger *slog.Logger) (*App, error) {
	cfg, err := DemoConfig(addr, dir)
	if err != nil {
		return nil, err
	}
	if !cfg.Loopback() {
		return nil, fmt.Errorf("%s can be reached from other machines; the demonstration shows every code, so give it an address of this machine", addr)
	}
	if err := fill(ctx, cfg, time.Now()); err != nil {
		return nil, err
	}
	return New(ctx, cfg, logger)
}

// fill plays the week before an instant into the data directory: use cases, outbox, gates and log are the real ones, on a clock of
// their own; mail servers and carriers are played.
func fill(ctx context.Context, cfg config.Config, until time.Time) (err error) {
	quiet := slog.New(slog.DiscardHandler)
	a := &App{cfg: cfg, given: cfg, logger: quiet, metrics: metrics.New()}
	defer func() { err = errors.Join(err, a.close()) }()
	if err := a.secrets(); err != nil {
		return err
	}
	clock := demo.NewClock(until.Add(-demo.Week).UTC().Truncate(time.Second))
	log, err := sqlite.Open(ctx, filepath.Join(cfg.DataDir, "sendcode.db"), clock.Now)
	if err != nil {
		return err
	}
	a.onClose(log.Close)
	a.log = log.Store()
	parts, err := a.demoParts(clock)
	if err != nil {
		return err
	}
	return demo.Fill(ctx, parts)
}

func (a *App) demoParts(clock *demo.Clock) (demo.Parts, error) {
	ring, err := a.ring()
	if err != nil {
		return demo.Parts{}, err
	}
	mails, err := a.renderer()
	if err != nil {
		return demo.Parts{}, err
	}
	texts, err := a.textRenderer()
	if err != nil {
		return demo.Parts{}, err
	}
	post := demo.NewPost(clock)
	inForce := policy.NewInForce(policies(a.cfg), clock.Now)
	keys := vault.Vault{IndexKey: a.cfg.IndexKeyBytes(), Folding: a.cfg.Folding(), Ring: ring}
	ids := &store.IDs{}
	gate := gates.New(quota.NewMemory(clock.Now, processClock), a.log, inForce, clock.Now, a.logger)
	refused := refusals.New(a.log, clock.Now, a.logger)
	box := outbox.New(outbox.Config{MailFrom: a.cfg.MailFrom, Domain: a.cfg.MailDomain()}, outbox.Parts{
		Store: a.log, Gate: gate, Policy: inForce, Vault: keys, Renderer: mails, Sender: post.Mail(), Texts: texts, Carrier: post.Text(),
		IDs: ids, Now: clock.Now, Logger: a.logger,
	})
	codes := verification.New(verification.Parts{
		Store: a.log, Gate: gate, Outbox: demo.Waiting{Outbox: box}, Refusals: refused, Policy: inForce, Vault: keys, Mails: mails, Texts: texts,
		Prover: proof.New(ring), Lease: outbox.DefaultLease, IDs: ids, Now: clock.Now, Logger: a.logger,
	})
	desk := support.New(support.Parts{
		Store: a.log, Codes: codes, Limiter: gate, Refusals: refused, Policy: inForce, Vault: keys, Mails: mails, Texts: texts,
		Now: clock.Now, Logger: a.logger,
	})
	return demo.Parts{Codes: codes, Desk: desk, Receipts: a.log, Flush: refused.Flush, Clock: clock, Post: post}, nil
}
