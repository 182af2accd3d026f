// Command up runs sendcode as in production, on a Redis with a persistent log and a Postgres that
// it starts itself. Both listen on loopback only, and are removed at the end with their data. Only
// the secrets stay the same from run to run, so that a curl line of yesterday still works.
//
// Variables in the environment have precedence, so SENDCODE_SMTP_URL=… make up sends real mails.
package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"sendcode/internal/kit/servertest"
	"sendcode/internal/run/app"
	"sendcode/internal/run/config"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	const dir = "data/up"        // kept, and not under version control
	if err := up(ctx, dir, os.Environ(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "up:", err)
		os.Exit(1)
	}
}

// up runs the service until ctx ends.
func up(ctx context.Context, dir string, environ []string, out io.Writer) (err error) {
	secrets, err := loadSecrets(dir)
	if err != nil {
		return err
	}
	redis, err := servertest.StartRedis(ctx, "--appendonly", "yes")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, redis.Close()) }()
	postgres, err := servertest.StartPostgres(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, postgres.Close()) }()
	fmt.Fprintf(out, "redis     %s\npostgres  %s\n%s", redis.URL(), postgres.URL(), secrets)
	settings := append(strings.Fields(secrets), "SENDCODE_REDIS_URL="+redis.URL(), "SENDCODE_DATABASE_URL="+postgres.URL(),
		"SENDCODE_DATA_DIR="+dir, "SENDCODE_DRAIN=0s")
	settings = append(settings, environ...)
	cfg, err := config.Load(settings, os.ReadFile)
	if err != nil {
		return err
	}
	cfg.Terminal = true
	return app.Run(ctx, cfg, app.ReloadOptions{Environ: settings}, slog.New(slog.NewTextHandler(os.Stderr, nil)), out)
}

// loadSecrets returns settings that people of this checkout use and that the service, on Postgres,
// does not generate, one on each line. It generates them only once.
func loadSecrets(dir string) (string, error) {
	file := filepath.Join(dir, "secrets")
	text, err := os.ReadFile(file)
	if !errors.Is(err, fs.ErrNotExist) {
		return string(text), err
	}
	key, _ := config.NewAPIKey(config.SecretKeyKind)
	made := "SENDCODE_API_KEY=" + key + "\nSENDCODE_ADMIN_PASSWORD=" + rand.Text() + "\n"
	return made, errors.Join(os.MkdirAll(dir, 0o700), os.WriteFile(file, []byte(made), 0o600))
}
