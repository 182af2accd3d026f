// Command benchadmin measures what an administrator waits for: it fills a Postgres with rows, as many as -rows says in turn,
// runs the service on it, and asks its admin API for the first page, for each filter, for one recipient's rows, for one
// send, and for a thousand pages on end. The table has the median and the 99th of 100 answers, in milliseconds, as they
// arrive over loopback. The database is in memory where the machine has the room, so this is about plans, not disks.
//
//	go run ./tools/benchadmin [-rows 1000000,10000000] [-times 200]
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"sendcode/internal/app"
	"sendcode/internal/config"
	"sendcode/internal/parts"
	"sendcode/internal/store/postgres"
	"sendcode/tools/rows"
)

func main() {
	sizes := flag.String("rows", "1000000,10000000", "how many rows there are, in turn")
	times := flag.Int("times", 200, "how often each question is asked")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, strings.Split(*sizes, ","), *times, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "benchadmin:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, sizes []string, times int, out io.Writer) (err error) {
	postgres, err := parts.StartPostgres(ctx, "shared_buffers=1GB", "max_wal_size=4GB", "maintenance_work_mem=512MB")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, postgres.Close()) }()
	t := table{times: times}
	for have := 0; len(sizes) > 0; sizes = sizes[1:] {
		size, err := strconv.Atoi(sizes[0])
		if err != nil || size <= have {
			return fmt.Errorf("rows: %q", sizes[0])
		}
		database, err := postgres.CreateDatabase(ctx)
		if err != nil {
			return err
		}
		if err := measureAt(ctx, database, size, &t); err != nil {
			return err
		}
		have = size
	}
	return t.print(out)
}

// countAhead does at once what the service does a few hours a second.
func countAhead(ctx context.Context, database string) error {
	log, err := postgres.Open(ctx, database, "")
	if err != nil {
		return err
	}
	began := time.Now()
	n, err := log.CountHours(ctx, 90*24*time.Hour, 10_000)
	fmt.Fprintf(os.Stderr, "%d hours counted in %v\n", n, time.Since(began).Round(time.Second))
	return errors.Join(err, log.Close())
}

// measureAt fills a database and measures the service on it.
func measureAt(ctx context.Context, database string, size int, t *table) (err error) {
	dir, err := os.MkdirTemp("", "sendcode-benchadmin-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	cfg, err := config.Load([]string{
		"SENDCODE_ADDR=127.0.0.1:0", "SENDCODE_DATA_DIR=" + filepath.Join(dir, "data"), "SENDCODE_DATABASE_URL=" + database,
		"SENDCODE_ADMIN_TOKEN=" + token, "SENDCODE_ADMIN_TOKEN_ROLE=owner",
	}, os.ReadFile)
	if err != nil {
		return err
	}
	log := slog.New(slog.NewJSONHandler(io.Discard, nil))
	if err := app.Migrate(ctx, cfg); err != nil {
		return err
	}
	began := time.Now()
	if err := rows.Fill(ctx, database, size); err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "%d rows in %v\n", size, time.Since(began).Round(time.Second))
	if err := countAhead(ctx, database); err != nil {
		return err
	}
	a, err := app.New(ctx, cfg, log)
	if err != nil {
		return err
	}
	serving, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- a.Serve(serving) }()
	err = t.measure(ctx, a.Addr(), size)
	stop()
	return errors.Join(err, <-ended)
}
