// Package week simulates a plausible week. People request codes and enter them, request too many,
// have no mailbox, or guess. One network attacks, and an administrator reacts. `make demo` shows
// the service after this week.
//
// Use cases, outbox, gates and database are the real ones, on a simulated clock. Mail servers and
// carriers are simulated.
package week

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"sendcode/internal/codes/keys"
	"sendcode/internal/deliver/outbox"
	"sendcode/internal/run/app"
	"sendcode/internal/run/app/core"
	"sendcode/internal/run/config"
	"sendcode/internal/store/sqlite"
	"sendcode/internal/verify/verification"
	"sendcode/internal/verify/verification/verificationtest"
)

// Serve simulates the week that ends now in a new database, and serves this database until ctx
// ends. Then it deletes the database. It uses only SENDCODE_ADDR of the environment, so it touches
// no real data.
func Serve(ctx context.Context, environ []string, logger *slog.Logger, out io.Writer) (err error) {
	dir, err := os.MkdirTemp("", "sendcode-demo-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	cfg, err := simulateWeek(ctx, environ, dir)
	if err != nil {
		return err
	}
	return app.Run(ctx, cfg, app.ReloadOptions{}, logger, out)
}

// simulateWeek fills an empty directory with the week before now, and returns the settings of a
// service on it.
func simulateWeek(ctx context.Context, environ []string, dir string) (serviceConfig config.Config, err error) {
	other := func(entry string) bool { return !strings.HasPrefix(entry, "SENDCODE_ADDR=") }
	environ = append(slices.DeleteFunc(slices.Clone(environ), other), "SENDCODE_CONFIG=demo.yaml",
		"SENDCODE_DATA_DIR="+dir, "SENDCODE_DRAIN=0s")
	// simulationConfig is no copy of serviceConfig, because copies share Apps: serviceConfig must
	// lack the generated keys, so that app.Run prints them.
	var simulationConfig config.Config
	for _, cfg := range []*config.Config{&simulationConfig, &serviceConfig} {
		*cfg, err = config.Load(environ, func(string) ([]byte, error) { return []byte(configYAML), nil })
		if err != nil {
			return serviceConfig, err
		}
	}
	if !serviceConfig.Loopback() {
		return serviceConfig, fmt.Errorf("%s can be reached from other machines; the demonstration shows every code, "+
			"so give it an address of this machine", serviceConfig.Addr)
	}
	if _, err := simulationConfig.LoadOrCreateSecrets(dir); err != nil {
		return serviceConfig, err
	}
	ring, err := keys.Parse(simulationConfig.SecretKeys.Reveal())
	if err != nil {
		return serviceConfig, err
	}
	clock := newSimulatedClock(time.Now().Add(-length).UTC().Truncate(time.Second))
	db, err := sqlite.Open(ctx, filepath.Join(dir, config.DatabaseFile), clock.Now)
	if err != nil {
		return serviceConfig, err
	}
	mails := newMailServer(clock)
	w := &week{
		receipts: db.Store(), clock: clock, mailServer: mails, rng: newSeededRand(2), begin: clock.Now(),
		Process: verificationtest.New(verificationtest.Settings{
			Set:   simulationConfig.PolicySet(clock.Now()),
			Vault: keys.Vault{IndexKey: simulationConfig.IndexKeyBytes(), Folding: simulationConfig.Folding(), Ring: ring},
		},
			core.Dependencies{
				DB: db.Store(), Sender: mails, Carrier: carrier{mails}, Now: clock.Now,
				WrapOutbox: func(o *outbox.Outbox) verification.Outbox { return syncOutbox{o} },
			}),
	}
	w.plan()
	return serviceConfig, errors.Join(w.runSteps(ctx), db.Close())
}
