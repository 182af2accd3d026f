package app

import (
	"context"

	"sendcode/internal/config"
	"sendcode/internal/store/postgres"
)

// Migrate brings the database to the schema of this version. The start of the service does so too; this lets the schema change before
// the first new replica starts. The previous version works with the new schema.
func Migrate(ctx context.Context, cfg config.Config) error {
	if cfg.DatabaseURL != "" {
		if err := postgres.CheckMayMigrate(cfg.DatabaseURL, cfg.DatabaseRole); err != nil {
			return err
		}
		return postgres.Migrate(ctx, cfg.DatabaseURL, cfg.DatabaseRole)
	}
	_, done, err := openStoreForCommand(ctx, cfg)
	if err != nil {
		return err
	}
	return done()
}
