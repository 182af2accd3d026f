package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"sendcode/internal/deliver/outbox"
	"sendcode/internal/run/config"
	"sendcode/internal/run/demo"
	"sendcode/internal/verify/verification"
	"sendcode/quota"
)

// Demo plays a week that ends now into a database of its own, and serves it until ctx ends. Then it
// deletes the database. Of the environment it takes SENDCODE_ADDR alone, so that nothing real is
// touched.
func Demo(ctx context.Context, environ []string, logger *slog.Logger, out io.Writer) (err error) {
	dir, err := os.MkdirTemp("", "sendcode-demo-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	a, err := newDemo(ctx, environ, dir, logger)
	if err != nil {
		return err
	}
	a.printBanner(out)
	return a.Serve(ctx)
}

// newDemo fills an empty directory and returns the service on it.
func newDemo(ctx context.Context, environ []string, dir string, logger *slog.Logger) (*App, error) {
	other := func(entry string) bool { return !strings.HasPrefix(entry, "SENDCODE_ADDR=") }
	environ = append(slices.DeleteFunc(slices.Clone(environ), other), "SENDCODE_CONFIG=demo.yaml",
		"SENDCODE_DATA_DIR="+dir, "SENDCODE_DRAIN=0s")
	var played, served config.Config // two, since copies share Apps: served must still lack the generated keys, to show them
	for _, cfg := range []*config.Config{&played, &served} {
		var err error
		if *cfg, err = config.Load(environ,
			func(string) ([]byte, error) { return []byte(demo.ConfigYAML), nil }); err != nil {
			return nil, err
		}
	}
	if !served.Loopback() {
		return nil, fmt.Errorf("%s can be reached from other machines; the demonstration shows every code, "+
			"so give it an address of this machine", served.Addr)
	}
	if err := fillDemo(ctx, played, time.Now()); err != nil {
		return nil, err
	}
	return New(ctx, served, logger)
}

// fillDemo plays the week before an instant into the data directory: use cases, outbox, gates and
// database are the real ones, on a clock of their own; mail servers and carriers are played.
func fillDemo(ctx context.Context, cfg config.Config, until time.Time) (err error) {
	clock := demo.NewSimulatedClock(until.Add(-demo.WeekLength).UTC().Truncate(time.Second))
	a := newApp(cfg, slog.New(slog.DiscardHandler), clock.Now)
	defer func() { err = errors.Join(err, a.close()) }()
	mails := demo.NewMailServer(clock)
	a.limiter, a.sender, a.carrier = quota.NewMemory(clock.Now), mails, demo.Carrier{MailServer: mails}
	if a.texts, err = a.newTextRenderer(""); err != nil {
		return err
	}
	sync := func(o *outbox.Outbox) verification.Outbox { return demo.SyncOutbox{Outbox: o} }
	err = runSteps(func() error { return a.lockDataDir(ctx) }, a.loadSecrets, func() error { return a.openDatabase(ctx) },
		func() error { return a.newCore(sync) })
	if err != nil {
		return err
	}
	return demo.PlayWeek(ctx, demo.Dependencies{Codes: a.core.Codes, Desk: a.core.Desk, Receipts: a.db,
		Flush: a.core.Refusals.Flush, Clock: clock, MailServer: mails})
}
