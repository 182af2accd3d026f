package app

import (
	"context"
	"path/filepath"
	"time"

	"sendcode/internal/audit"
	"sendcode/internal/config"
)

// Migrate brings the log to the schema of this version. Serving does so too; on its own it lets the schema change
// before the first new replica starts. The previous version runs on the new schema.
func Migrate(ctx context.Context, cfg config.Config) error {
	if cfg.DatabaseURL != "" {
		as := audit.As(cfg.DatabaseRole)
		if err := audit.MayMigrate(ctx, cfg.DatabaseURL, as); err != nil {
			return err
		}
		return audit.MigratePostgres(ctx, cfg.DatabaseURL, as)
	}
	unlock, err := config.LockDataDir(cfg.DataDir)
	if err != nil {
		return err
	}
	defer func() { _ = unlock() }()
	log, err := audit.OpenSQLite(ctx, filepath.Join(cfg.DataDir, "sendcode.db"), time.Now)
	if err != nil {
		return err
	}
	return log.Close()
}
