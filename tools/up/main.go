// Command up runs sendcode as in production, on a Redis and a Postgres that it starts itself. Both
// listen only on loopback. Their data and the secrets are in data/up, and the next run finds them.
// With -fresh, both begin empty, in memory if there is room, and Postgres does not sync. Their data
// are removed at the end. The secrets stay, so yesterday's curl line still works.
//
// Variables in the environment have precedence, so SENDCODE_SMTP_URL=… make up sends real mails.
package main

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"

	"github.com/gofrs/flock"

	"sendcode/internal/kit/servertest"
	"sendcode/internal/run/app"
	"sendcode/internal/run/config"
	"sendcode/internal/store"
	"sendcode/tools/ensure/locate"
)

func main() {
	fresh := flag.Bool("fresh", false, "begin with empty servers, and remove their data at the end")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	const dir = "data/up"        // not under version control
	if err := up(ctx, dir, *fresh, os.Environ(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "up:", advise(err, dir))
		os.Exit(1)
	}
}

// up runs the service until ctx ends.
func up(ctx context.Context, dir string, fresh bool, environ []string, out io.Writer) (err error) {
	secrets, err := loadSecrets(dir)
	if err != nil {
		return err
	}
	start := keptServers
	if fresh {
		start = freshServers
	}
	s, err := start(ctx, dir)
	defer func() { err = errors.Join(err, s.close()) }()
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "redis     %s  %s\npostgres  %s  %s\n          %s\n%s", s.redis.URL(), s.redisData, s.postgres.URL(), s.postgresData, s.ends, secrets)
	settings := append(strings.Fields(secrets), "SENDCODE_REDIS_URL="+s.redis.URL(), "SENDCODE_DATABASE_URL="+s.postgres.URL(),
		"SENDCODE_DATA_DIR="+dir, "SENDCODE_DRAIN=0s")
	settings = append(settings, environ...)
	cfg, err := config.Load(settings, os.ReadFile)
	if err != nil {
		return err
	}
	cfg.Terminal = true
	return app.Run(ctx, cfg, app.ReloadOptions{Environ: settings}, slog.New(slog.NewTextHandler(os.Stderr, nil)), out)
}

// servers has the Redis and the Postgres of a run, and the text about their data.
type servers struct {
	redis                   *servertest.RedisServer
	postgres                *servertest.PostgresServer
	redisData, postgresData string
	ends                    string
	lock                    *flock.Flock
}

// freshServers starts servers whose data end with them.
func freshServers(ctx context.Context, _ string) (s servers, err error) {
	s.redisData, s.postgresData = "of this run", "of this run, without a sync (fsync=off)"
	s.ends = "Ctrl-C ends all three, and removes the data of both; make up keeps them"
	if s.redis, err = servertest.StartRedis(ctx, "--appendonly", "yes"); err == nil {
		s.postgres, err = servertest.StartPostgres(ctx)
	}
	return s, err
}

// keptServers starts servers with the data of the previous run.
func keptServers(ctx context.Context, dir string) (s servers, err error) {
	dir, err = filepath.Abs(dir)
	if err != nil {
		return s, err
	}
	s.lock = flock.New(filepath.Join(dir, "lock"), flock.SetPermissions(0o600))
	if locked, err := s.lock.TryLock(); !locked {
		return s, errors.Join(err, fmt.Errorf("another make up runs on %s; make up FRESH=1 runs beside it, with SENDCODE_ADDR=127.0.0.1:8081", dir))
	}
	redis, postgres := filepath.Join(dir, "redis"), filepath.Join(postgresHome(dir), "postgres")
	if err := otherPostgres(postgres); err != nil {
		return s, err
	}
	s.redisData = "in " + redis + ", synced each second"
	s.postgresData = "in " + postgres + ", synced at each commit"
	s.ends = "Ctrl-C ends all three, and the next make up finds the data; make up FRESH=1 begins with empty servers"
	if err := errors.Join(os.MkdirAll(redis, 0o700), os.MkdirAll(filepath.Dir(postgres), 0o755)); err != nil {
		return s, err
	}
	if s.redis, err = servertest.KeepRedis(ctx, redis); err == nil {
		s.postgres, err = servertest.KeepPostgres(ctx, postgres)
	}
	return s, err
}

// postgresHome returns dir. For root it returns another directory, because root's Postgres runs as
// another user, who may not enter the directory data.
func postgresHome(dir string) string {
	if os.Getuid() != 0 {
		return dir
	}
	return fmt.Sprintf("/var/lib/sendcode-up/%.4x", sha256.Sum256([]byte(dir)))
}

// close ends the servers that were started.
func (s servers) close() (err error) {
	if s.postgres != nil {
		err = errors.Join(err, s.postgres.Close())
	}
	if s.redis != nil {
		err = errors.Join(err, s.redis.Close())
	}
	if s.lock != nil {
		err = errors.Join(err, s.lock.Close())
	}
	return err
}

// otherPostgres returns an error if the cluster in dir belongs to a version of Postgres other than
// this machine's.
func otherPostgres(dir string) error {
	text, err := os.ReadFile(filepath.Join(dir, "PG_VERSION"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	bin, findErr := locate.Postgres.Find()
	if err := errors.Join(err, findErr); err != nil {
		return err
	}
	version, err := exec.Command(filepath.Join(bin, "postgres"), "--version").Output() // postgres (PostgreSQL) 15.18 (Debian …)
	if err != nil {
		return err
	}
	dataVersion := strings.TrimSpace(string(text))
	if match := majorVersion.FindSubmatch(version); match == nil || string(match[1]) == dataVersion {
		return nil // if the version is not known, Postgres itself compares it
	}
	return fmt.Errorf("the data in %s are of Postgres %s, and this machine has %s. Install postgresql-%s, or move that folder and data/up away "+
		"to begin empty. make up FRESH=1 leaves them as they are", dir, dataVersion, strings.TrimSpace(string(version)), dataVersion)
}

var majorVersion = regexp.MustCompile(`\) (\d+)`)

// advise adds advice to an error of a start if the cause is known. The servers write the cause into
// their logs, and the error contains the end of the log.
func advise(err error, dir string) error {
	if absolute, absErr := filepath.Abs(dir); absErr == nil {
		dir = absolute
	}
	folders := dir
	if home := postgresHome(dir); home != dir {
		folders += " and " + home
	}
	otherKeys, _ := errors.AsType[*store.OtherKeysError](err)
	mentions := func(text string) bool { return strings.Contains(strings.ToLower(err.Error()), text) }
	switch {
	case otherKeys != nil:
		return fmt.Errorf("%w\nThe keys in %s are not those of the data in %s, as after a new clone at the same place. To begin empty, "+
			"move both folders away. make up FRESH=1 leaves them as they are", err, dir, filepath.Join(postgresHome(dir), "postgres"))
	case mentions("can't handle rdb format version"):
		return fmt.Errorf("%w\nA newer Redis wrote the data in %s. Install that Redis, or move the folder away: recipients keep their limits, "+
			"which Postgres has, and the counts of networks and apps begin again", err, filepath.Join(dir, "redis"))
	case errors.Is(err, syscall.ENOSPC) || mentions("no space left on device"):
		return fmt.Errorf("%w\nThe disk is full: make room for %s, then run make up again. It finds all data that it had", err, folders)
	case errors.Is(err, syscall.EROFS) || mentions("read-only file system"):
		return fmt.Errorf("%w\nNothing can be written in %s: run make up in a checkout on another file system", err, folders)
	case errors.Is(err, fs.ErrPermission) || mentions("permission denied"):
		return fmt.Errorf("%w\nThis user may not read or write %s: run make up as the user who made them, or give them to this user "+
			"(sudo chown -R %d '%s')", err, folders, os.Getuid(), dir)
	}
	return err
}

// loadSecrets returns the settings that people of this checkout use and that the service does not
// generate on Postgres, one on each line. It generates them only once.
func loadSecrets(dir string) (string, error) {
	file := filepath.Join(dir, "secrets")
	text, err := os.ReadFile(file)
	if err == nil && len(text) > 0 || err != nil && !errors.Is(err, fs.ErrNotExist) {
		return string(text), err
	}
	key, _ := config.NewAPIKey(config.SecretKeyKind)
	made := "SENDCODE_API_KEY=" + key + "\nSENDCODE_ADMIN_PASSWORD=" + rand.Text() + "\n"
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	return made, config.WriteFile(file, func(f *os.File) error {
		_, err := f.WriteString(made)
		return err
	})
}
