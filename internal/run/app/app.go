// Package app builds the service from a checked configuration, runs the service, and closes its
// parts in the reverse order. Only this package and app/core put parts together. The program
// cmd/sendcode calls Run. Tests call New through package apptest.
package app

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"sendcode/internal/base/logs"
	"sendcode/internal/base/message"
	"sendcode/internal/base/recipient"
	"sendcode/internal/codes/keys"
	"sendcode/internal/deliver/delivery/mailbox"
	"sendcode/internal/deliver/delivery/mailserver"
	"sendcode/internal/deliver/outbox"
	"sendcode/internal/deliver/sms"
	"sendcode/internal/http/api"
	"sendcode/internal/http/page"
	"sendcode/internal/http/server"
	"sendcode/internal/limit/gates"
	"sendcode/internal/run/app/core"
	"sendcode/internal/run/config"
	"sendcode/internal/run/jobs"
	"sendcode/internal/run/metrics"
	"sendcode/internal/run/traces"
	"sendcode/internal/store"
	"sendcode/internal/store/postgres"
	"sendcode/internal/store/sqldb"
	"sendcode/internal/verify/verification"
	"sendcode/quota"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"github.com/labstack/echo/v4"
	"github.com/redis/go-redis/v9"
)

// App is the service with its ports open. Serve answers requests and runs the background work.
type App struct {
	cfg          config.Config // the configuration at the start, with generated secrets and the listeners' actual addresses
	loaded       config.Config // as Load returned it, without generated secrets
	reload       ReloadOptions
	settingsHash atomic.Pointer[string] // the hash of the settings in force
	generated    []config.ShownSecret
	ring         *keys.Ring
	keys         keys.Vault

	logger   *slog.Logger
	localNow func() time.Time // this machine's clock
	now      func() time.Time // the database's time: clock.Now, or localNow if clock is nil
	clock    *databaseClock   // nil on SQLite: localNow is its clock
	started  time.Time
	metrics  *metrics.Metrics
	traces   *traces.Traces // nil without an exporter

	stores
	senders
	core *core.Core
	ports
	humanChecks

	closers []func() error // in the order in which the parts were opened; close calls them in reverse
}

type stores struct {
	db            *sqldb.DB
	databaseProbe *databaseProbe
	keyCheck      *keyCheck
	backlog       *metrics.BackgroundCache[map[recipient.Channel]store.Backlog]

	limiter     gates.Limiter
	savedEvents *gates.SavedEvents // saves the events of a limiter in this process; nil with Redis
	redis       *quota.Redis       // the limiter, which uses redisClient; nil, like redisClient, if the limiter is in this process
	redisClient redis.UniversalClient
}

type senders struct {
	servers mailserver.Servers
	mailbox *mailbox.Mailbox // nil when a real server is configured
	mails   *message.MailRenderer
	// carrier is nil without text messages. carriers is nil then, and also if text messages go to
	// the dev mailbox.
	carrier  outbox.Carrier
	carriers *sms.Carriers
	texts    *message.TextRenderer // nil without text messages

	failureRuns map[recipient.Channel]*failureRun
}

type ports struct {
	listeners []*listener
	conns     *server.ConnTracker // the connections of all listeners
	failed    chan error          // the error that ended a listener's server
	serving   chan struct{}       // closed by Serve

	api      *api.API
	page     *page.Page             // nil when it is off
	budget   verification.Budget    // nil: there is no cap on the cost of text messages
	requests *server.RequestLimiter // for requests of browsers and of the page
	health   *server.Health

	hasAdminToken func(echo.Context) bool // nil: there is no console
}

// Run serves until ctx ends. It prints the banner and the generated secrets to out. The log shows
// the addresses of the ports, but no secret.
func Run(ctx context.Context, cfg config.Config, reload ReloadOptions, logger *slog.Logger, out io.Writer) error {
	a, err := New(ctx, cfg, logger)
	if err != nil {
		return err
	}
	a.SetReload(reload)
	a.printBanner(out)
	if cfg.DatabaseURL == "" {
		a.logger.Info("one-file mode: this directory has all data, for one process", "data_dir", cfg.DataDir)
	}
	for _, l := range a.listeners {
		a.logger.Info("serving", "addr", l.Addr().String(), "passed", l.passed(),
			"loopback", !config.RequiresHTTPS(l.Addr().String()), "parts", l.parts())
	}
	if err := notifySystemd("READY=1"); err != nil {
		a.logger.Info("systemd could not be notified that the service is ready", "error", err)
	}
	context.AfterFunc(ctx, func() { _ = notifySystemd("STOPPING=1") })
	return a.Serve(ctx)
}

// The ballast makes the garbage collector run less often. With GOGC=100 the collector runs when the
// heap has doubled. Under a usual load the heap is small, so the collector would run often: without
// the ballast a send cost up to a third more processor time. The ballast counts as heap, so the
// heap grows by 48 MiB more before the collector runs. Nothing is written to it, so it takes no
// physical memory.
//
// With GOGC=150 instead, the service answered up to a fifth more status requests, but took 1.2
// times the memory with 64 callers.
const (
	ballastSize = 48 << 20
	// With a lower memory limit there is no ballast, because it counts toward the limit.
	minLimitForBallast = 8 * ballastSize
)

var ballast []byte

// TuneGC sets Go's memory limit (GOMEMLIMIT) in a container, unless the environment does. Without a
// limit the heap could outgrow the container. The limit is nine tenths of the container's memory;
// the last tenth is for memory that the runtime doesn't count, such as the binary and the kernel's
// buffers.
//
// It also makes the ballast, unless the environment sets GOGC or the memory limit is below
// minLimitForBallast. Call TuneGC once, at the start.
func TuneGC(options ...memlimit.Option) {
	_, _ = memlimit.Set(options...) // fails if the container's limit can't be read; then Go has no limit
	if os.Getenv("GOGC") == "" && debug.SetMemoryLimit(-1) >= minLimitForBallast {
		ballast = make([]byte, ballastSize)
	}
}

// New builds the service and opens its ports. If it fails, it closes everything that it has opened.
func New(ctx context.Context, cfg config.Config, logger *slog.Logger) (*App, error) {
	return newWithClock(ctx, cfg, logger, time.Now)
}

// newWithClock is New with now as the machine's clock.
func newWithClock(ctx context.Context, cfg config.Config, logger *slog.Logger, now func() time.Time) (_ *App, err error) {
	a := newApp(cfg, logs.AddRequestID(logs.LimitErrors(logger)), now)
	defer func() {
		if err != nil {
			err = errors.Join(err, a.close())
		}
	}()
	return a, runSteps(
		func() error { return a.openTraces(ctx) },
		func() error { return a.lockDataDir(ctx) },
		a.openPorts,
		a.loadSecrets, // after openPorts: some secrets are generated only if no other machine reaches a listener
		func() error {
			return a.retryAtStart(ctx, "SENDCODE_DATABASE_URL", postgres.IsUnreachable, a.openDatabase)
		},
		func() error { return a.retryAtStart(ctx, "SENDCODE_DATABASE_URL", postgres.IsUnreachable, a.checkKeys) },
		func() error { return a.openLimiter(ctx) },
		a.openMailServers,
		a.openCarriers,
		a.newCore,
		func() error { return a.loadSavedEvents(ctx) },
		a.addRoutes,
	)
}

func runSteps(steps ...func() error) error {
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func newApp(cfg config.Config, logger *slog.Logger, now func() time.Time) *App {
	return &App{
		cfg: cfg, loaded: cfg, logger: logger, localNow: now, now: now, metrics: metrics.New(), started: time.Now(),
		senders: senders{failureRuns: map[recipient.Channel]*failureRun{recipient.Email: {}, recipient.SMS: {}}},
		ports:   ports{failed: make(chan error, 2), serving: make(chan struct{})},
	}
}

// lockDataDir waits up to Config.StartWait if another process has the data directory. With Postgres
// it locks nothing.
func (a *App) lockDataDir(ctx context.Context) error {
	if a.cfg.DatabaseURL != "" {
		return nil
	}
	unlock, err := config.LockDataDir(ctx, a.cfg.DataDir, 0)
	if errors.Is(err, config.ErrDataDirInUse) && a.cfg.StartWait > 0 {
		a.logger.Info("start waits: another process has the data directory", "wait", a.cfg.StartWait.String())
		unlock, err = config.LockDataDir(ctx, a.cfg.DataDir, a.cfg.StartWait)
	}
	if err == nil {
		a.onClose(unlock)
	}
	return err
}

// loadSecrets reads the secrets that no setting gives from the data directory, generates the
// missing ones, and parses the keys.
func (a *App) loadSecrets() (err error) {
	if a.generated, err = a.cfg.LoadOrCreateSecrets(a.cfg.DataDir); err != nil {
		return err
	}
	a.ring, err = keys.Parse(a.cfg.SecretKeys.Reveal())
	a.keys = keys.Vault{IndexKey: a.cfg.IndexKeyBytes(), Folding: a.cfg.Folding(), Ring: a.ring}
	return err
}

// SetReload makes Serve reload the configuration. Call it before Serve.
func (a *App) SetReload(options ReloadOptions) { a.reload = options }

// Serve works until ctx ends. Then it stops in four steps: it still answers new requests for
// Config.Drain, ends the requests under way, ends or releases the sends in flight, and closes the
// parts.
func (a *App) Serve(ctx context.Context) error {
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var work sync.WaitGroup
	own := []jobs.Job{
		{Name: "keys", Every: keyCheckEvery, Run: a.keyCheck.run},
		{Name: "suspended", Every: time.Minute, Run: jobs.InfallibleRun(a.recheckSuspended)},
	}
	if a.clock != nil {
		own = append(own, jobs.Job{
			Name: "clock", Every: clockReadEvery,
			Run: func(ctx context.Context) (bool, error) { return false, a.clock.measure(ctx) },
		})
	} else if len(a.ring.IDs()) > 1 {
		own = append(own, a.rekeyJob())
	}
	work.Go(func() { a.core.Run(background, own...) })
	work.Go(func() { a.databaseProbe.runHeartbeats(background) })
	work.Go(func() { a.watchConfig(background) })
	err := a.serveHTTP(ctx)
	stop()
	work.Wait()
	err = errors.Join(err, a.close())
	a.logger.Info("shutdown ended")
	return err
}

// Addr returns the address of the API and the page.
func (a *App) Addr() string { return a.listeners[0].Addr().String() }

// adminAddr returns the console's address. That is the API's address if the console has no listener
// of its own.
func (a *App) adminAddr() string { return a.listeners[len(a.listeners)-1].Addr().String() }

// Mailbox returns the dev mailbox, or nil if a mail server is configured.
func (a *App) Mailbox() *mailbox.Mailbox { return a.mailbox }

// DB returns the store.
func (a *App) DB() *sqldb.DB { return a.db }

func (a *App) close() error {
	var errs []error
	for _, f := range slices.Backward(a.closers) {
		errs = append(errs, f())
	}
	a.closers = nil
	return errors.Join(errs...)
}

func (a *App) onClose(f func() error) { a.closers = append(a.closers, f) }

// databaseOpenTimeout bounds each of two steps of the start: to migrate and open the database, and
// checkKeys.
const databaseOpenTimeout = 30 * time.Second
