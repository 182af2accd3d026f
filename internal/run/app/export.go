package app

import (
	"context"
	"io"
	"log/slog"
	"time"

	"sendcode/internal/codes/policy"
	"sendcode/internal/run/config"
	"sendcode/internal/store"
	"sendcode/internal/verify/support"
)

// ExportPerson writes all rows that name a recipient to out, as the console's export does, and adds
// act to the audit trail. On Postgres the service may run meanwhile. On SQLite it must not run.
func ExportPerson(ctx context.Context, cfg config.Config, channel, to string, act store.AuditEntry, out io.Writer) error {
	db, done, err := OpenStoreForCommand(ctx, cfg, "while the service runs, use the page of a send or POST /v1/admin/export")
	if err != nil {
		return err
	}
	defer func() { _ = done() }()
	a := &App{cfg: cfg}
	if err := a.loadSecrets(); err != nil {
		return err
	}
	if _, err := db.AddKeyCheckValues(ctx, a.keys.KeyCheckValues()); err != nil {
		return explainOtherKeys(err)
	}
	administration := support.New(support.Dependencies{
		Policy: policy.NewCurrentSet(cfg.PolicySet(time.Now()), time.Now), Vault: a.keys, Now: time.Now,
		Store: db, Logger: slog.Default(),
	})
	p, err := administration.ParseTarget("", channel, to, "", act.Reason)
	if err != nil {
		return err
	}
	return administration.ExportRecipient(ctx, p, act, out)
}
