// Command up runs sendcode as in production, on real parts that it starts itself: Redis with a
// persistent log, Postgres, and an SMTP server that shows what it receives. All of them listen on
// loopback only and are gone with it, data and all; only the secrets stay the same from run to run,
// so that a curl line of yesterday still works.
//
// Variables that are set in its environment win, so SENDCODE_SMTP_URL=… make up sends through
// another server.
package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/labstack/echo/v4"

	"sendcode/internal/deliver/delivery/mailbox"
	"sendcode/internal/http/page"
	"sendcode/internal/kit/servertest"
	"sendcode/internal/run/app"
	"sendcode/internal/run/config"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends it at once
	const dir = "data/up"        // kept, and not under version control
	if err := up(ctx, dir, "127.0.0.1:8025", os.Environ(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "up:", err)
		os.Exit(1)
	}
}

// up runs the service until ctx ends. Received mails can be read at mailAddr, or at any port where
// that one is in use.
func up(ctx context.Context, dir, mailAddr string, environ []string, out io.Writer) (err error) {
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
	mails, err := mailbox.Listen()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, mails.Close()) }()
	reader, err := net.Listen("tcp", mailAddr)
	if err != nil {
		if reader, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			return err
		}
	}
	e := echo.New()
	page.RegisterStatic(e)
	key := rand.Text()
	page.RegisterMailbox(e, mails, key, "", false)
	server := &http.Server{Handler: e, ReadHeaderTimeout: 5 * time.Second}
	defer func() { err = errors.Join(err, server.Close()) }()
	go server.Serve(reader) // until Close
	fmt.Fprintf(out,
		"redis     %s\npostgres  %s\nsmtp      %s\nmails     http://%s/mailbox?k=%s   (what the SMTP server received)\n%s\n",
		redis.URL(), postgres.URL(), mails.URL(), reader.Addr(), key, secrets)
	settings := append(strings.Fields(secrets), "SENDCODE_REDIS_URL="+redis.URL(), "SENDCODE_DATABASE_URL="+postgres.URL(),
		"SENDCODE_SMTP_URL="+mails.URL(), "SENDCODE_DATA_DIR="+dir, "SENDCODE_DRAIN=0s",
		"SENDCODE_MAIL_FROM=sendcode <no-reply@sendcode.example>")
	settings = append(settings, environ...)
	cfg, err := config.Load(settings, os.ReadFile)
	if err != nil {
		return err
	}
	cfg.Terminal = true
	return app.Run(ctx, cfg, app.ReloadOptions{Environ: settings}, slog.New(slog.NewTextHandler(os.Stderr, nil)), out)
}

// loadSecrets returns the settings of this checkout that are secret, a line each. It makes them
// once.
func loadSecrets(dir string) (string, error) {
	file := filepath.Join(dir, "secrets")
	text, err := os.ReadFile(file)
	if !errors.Is(err, fs.ErrNotExist) {
		return string(text), err
	}
	key, _ := config.NewAPIKey(config.SecretKeyKind)
	made := "SENDCODE_SECRET_KEYS=" + config.NewRingKey() + "\nSENDCODE_INDEX_KEY=" + config.NewIndexKey() +
		"\nSENDCODE_API_KEY=" + key + "\nSENDCODE_ADMIN_PASSWORD=" + rand.Text() + "\n"
	return made, errors.Join(os.MkdirAll(dir, 0o700), os.WriteFile(file, []byte(made), 0o600))
}
