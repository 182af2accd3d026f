package commands

import (
	"context"
	"fmt"
	"io"

	"sendcode/internal/run/app"
	"sendcode/internal/run/config"
	"sendcode/internal/store/postgres"
	"sendcode/migrations"
)

// Migrate brings the database to the schema of this version. Each start of the service does the
// same. An operator runs Migrate to change the schema before the first replica of this version
// starts. The previous version works with the new schema. Migrate prints the applied migrations to
// out.
func Migrate(ctx context.Context, cfg config.Config, out io.Writer) error {
	message := "The schema is up to date: no migration was due.\n"
	ctx = migrations.WithReport(ctx, func(file string) {
		fmt.Fprintf(out, "Migration %s was applied.\n", file)
		message = "The schema is up to date.\n"
	})
	if err := migrate(ctx, cfg); err != nil {
		return err
	}
	_, err := io.WriteString(out, message)
	return err
}

func migrate(ctx context.Context, cfg config.Config) error {
	if cfg.DatabaseURL != "" {
		if err := postgres.CheckMayMigrate(cfg.DatabaseURL, cfg.DatabaseRole); err != nil {
			return err
		}
		return postgres.Migrate(ctx, cfg.DatabaseURL, cfg.DatabaseRole)
	}
	_, done, err := app.OpenStoreForCommand(ctx, cfg,
		"the running service uses the file with its own schema; stop it, or start the new version in its place")
	if err != nil {
		return err
	}
	return done()
}
