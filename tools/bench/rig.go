package main

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"

	"github.com/jackc/pgx/v5"

	"sendcode/internal/servertest"
	"sendcode/tools/bench/report"
)

const apiKey = "sk_0123456789abcdefghijABCDEFGHIJ"

// firstRecipient makes all recipients equally long.
const firstRecipient = 1_000_000

// rig is what all contenders share, and the contenders.
type rig struct {
	dir        string // on the disk
	redis      *servertest.RedisServer
	postgres   *servertest.PostgresServer
	admin      *pgx.Conn // of a superuser
	mails      *mails
	contenders []contender
	samples    string       // file of the samples for the floors
	recipients atomic.Int64 // no recipient is used twice
	progress   io.Writer
	closers    []func() error
}

func openRig(ctx context.Context, progress io.Writer) (_ *rig, err error) {
	b := &rig{progress: progress}
	b.recipients.Store(firstRecipient)
	defer func() {
		if err != nil {
			err = errors.Join(err, b.close())
		}
	}()
	parent, err := realDisk(ctx)
	if err != nil {
		return nil, err
	}
	if b.dir, err = os.MkdirTemp(parent, "sendcode-bench-"); err != nil {
		return nil, err
	}
	b.closers = append(b.closers, func() error { return os.RemoveAll(b.dir) })
	if err := os.Chmod(b.dir, 0o755); err != nil { // Postgres may run as another user
		return nil, err
	}
	if b.redis, err = servertest.StartRedis(ctx, "--dir", b.dir, "--appendonly", "yes", "--appendfsync", "everysec"); err != nil {
		return nil, err
	}
	b.closers = append(b.closers, b.redis.Close)
	if err := b.openPostgres(ctx); err != nil {
		return nil, err
	}
	b.mails, err = b.startMails()
	return b, err
}

// openPostgres starts a Postgres that is set as by default where it matters for speed, but that no checkpoint falls into a run.
func (b *rig) openPostgres(ctx context.Context) (err error) {
	b.postgres, err = servertest.StartPostgresIn(ctx, b.dir, "fsync=on", "full_page_writes=on", "shared_buffers=1GB",
		"max_wal_size=8GB", "min_wal_size=1GB", "checkpoint_timeout=1h", "maintenance_work_mem=512MB")
	if err != nil {
		return err
	}
	b.closers = append(b.closers, b.postgres.Close)
	if b.admin, err = pgx.Connect(ctx, b.postgres.AdminURL()); err != nil {
		return err
	}
	b.closers = append(b.closers, func() error { return b.admin.Close(context.Background()) })
	_, err = b.admin.Exec(ctx, "CREATE EXTENSION IF NOT EXISTS pg_walinspect")
	return err
}

func (b *rig) close() error {
	var errs []error
	for _, end := range slices.Backward(b.closers) {
		errs = append(errs, end())
	}
	b.closers = nil
	return errors.Join(errs...)
}

// startAll starts the service, has it show an answer and a mail, and starts the floors with these.
func (b *rig) startAll(ctx context.Context) error {
	service, err := b.startService(ctx, serviceSettings{name: "service"})
	if err != nil {
		return err
	}
	if err := b.takeSamples(ctx, service); err != nil {
		return err
	}
	b.contenders = []contender{service}
	program, err := b.buildFloor(ctx)
	if err != nil {
		return err
	}
	for kind, name := range map[string]string{"fair": report.Fair, "plain": report.Plain, "bare": report.Bare} {
		c, err := b.startFloor(ctx, program, kind, b.direct())
		if err != nil {
			return err
		}
		c.name = name
		b.contenders = append(b.contenders, c)
	}
	slices.SortFunc(b.contenders, func(x, y contender) int {
		return slices.Index(report.Contenders, x.name) - slices.Index(report.Contenders, y.name)
	})
	return nil
}

func (b *rig) path(name string) string { return filepath.Join(b.dir, name) }
