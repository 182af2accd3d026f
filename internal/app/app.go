// Package app is the only place where the parts are put together: it turns a checked configuration into a running
// service, and takes it down again in the right order. cmd/sendcode calls Run; the tests of internal/e2e call New.
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
	"time"

	"sendcode/internal/api"
	"sendcode/internal/config"
	"sendcode/internal/console"
	"sendcode/internal/delivery/mailbox"
	"sendcode/internal/delivery/smtp"
	"sendcode/internal/gates"
	"sendcode/internal/jobs"
	"sendcode/internal/keyring"
	"sendcode/internal/message"
	"sendcode/internal/metrics"
	"sendcode/internal/outbox"
	"sendcode/internal/page"
	"sendcode/internal/server"
	"sendcode/internal/store"
	"sendcode/internal/webhook"
	"sendcode/quota"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

// App is a service put together and listening. Serve makes it work.
type App struct {
	cfg       config.Config // as it was at the start
	given     config.Config // the same before secrets were filled in
	again     Reload
	logger    *slog.Logger
	now       func() time.Time
	ring      *keyring.Ring
	ids       *store.IDs
	generated []config.Generated

	log     store.Store
	limiter gates.Limiter
	redis   *quota.Redis // behind the limiter; nil when that is in process
	clock   string       // of the limiter, when it is in process
	servers smtp.Servers
	sender  outbox.Sender    // the servers
	mailbox *mailbox.Mailbox // nil when a real server is configured
	carrier outbox.Carrier   // nil without text messages
	texts   *message.Texts   // with carrier
	services
	hooks    *webhook.Deliverer
	api      *api.API
	requests *server.RequestLimiter // of browsers and the page
	page     *page.Page             // nil when it is off
	mails    *message.Renderer
	metrics  *metrics.Metrics

	listeners []listener
	writable  *writableLog
	health    interface{ MarkStopping() }
	console   *console.Console // nil when it is off
	closers   []func() error   // in the order of making; closed in reverse
}

// Run builds the service and runs it until ctx ends. It prints the banner, with the secrets that were generated, to out.
func Run(ctx context.Context, cfg config.Config, again Reload, logger *slog.Logger, out io.Writer) error {
	a, err := New(ctx, cfg, logger)
	if err != nil {
		return err
	}
	a.ReadAgain(again)
	a.banner(out)
	return a.Serve(ctx)
}

// collectAt is how far the heap may grow beyond what lives, in percent: what lives is a few MiB, and Go's own 100 has
// the garbage collector run for a sixth of the processor's time under load.
const collectAt = 400

// TuneRuntime sets Go's garbage collection and, in a container, its memory limit, unless GOGC and GOMEMLIMIT do. Without a limit the
// collector would let the heap grow beyond the container. The limit is nine tenths of the container's memory; the rest is for what
// the runtime does not count, such as the binary itself and the kernel's buffers.
func TuneRuntime(options ...memlimit.Option) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(collectAt)
	}
	_, _ = memlimit.Set(options...) // fails where the container's limit can't be read, and leaves none then
}

// New builds every part and opens the ports. If it fails, it closes what it opened.
func New(ctx context.Context, cfg config.Config, logger *slog.Logger) (_ *App, err error) {
	a := newApp(cfg, server.LogRequestIDs(logger), time.Now)
	defer func() {
		if err != nil {
			err = errors.Join(err, a.close())
		}
	}()
	for _, w := range cfg.Warnings {
		a.logger.Warn(w)
	}
	return a, inOrder(
		a.secrets,
		func() error { return a.openLog(ctx) },
		func() error { return a.openLimiter(ctx) },
		a.openSender,
		a.openCarriers,
		a.newOutbox,
		func() error { a.newServices(a.outbox); return a.rebuild(ctx) },
		a.listen,
	)
}

// inOrder calls functions until one fails, and returns its error.
func inOrder(steps ...func() error) error {
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func newApp(cfg config.Config, logger *slog.Logger, now func() time.Time) *App {
	return &App{cfg: cfg, given: cfg, logger: logger, now: now, ids: &store.IDs{}, metrics: metrics.New()}
}

// secrets locks the data directory and fills in the secrets that are stored there, if the configuration needs it.
func (a *App) secrets() (err error) {
	if a.cfg.NeedsDataDir() {
		unlock, err := config.LockDataDir(a.cfg.DataDir)
		if err != nil {
			return err
		}
		a.onClose(unlock)
		if a.generated, err = a.cfg.FillSecrets(a.cfg.DataDir); err != nil {
			return err
		}
	}
	a.ring, err = keyring.Parse(a.cfg.SecretKeys.Reveal())
	return err
}

// ReadAgain sets how Serve reloads the configuration.
func (a *App) ReadAgain(again Reload) { a.again = again }

// Serve answers requests and works in the background until ctx ends. Then it stops: it takes no new requests, ends those under way,
// ends or releases sends in flight, and closes the parts.
func (a *App) Serve(ctx context.Context) error {
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var work sync.WaitGroup
	work.Go(func() { a.outbox.Run(background) })
	work.Go(func() { jobs.Run(background, a.jobs(), jobs.DefaultTick, a.logger) })
	work.Go(func() { a.watchConfig(background) })
	work.Go(func() { a.hooks.Run(background) })
	err := a.serveHTTP(ctx)
	stop()
	work.Wait()
	return errors.Join(err, a.close())
}

// Addr is where the API and the page listen.
func (a *App) Addr() string { return a.listeners[0].Addr().String() }

// AdminAddr is the address of the console: Addr, unless it has its own listener.
func (a *App) AdminAddr() string { return a.listeners[len(a.listeners)-1].Addr().String() }

// Mailbox is the dev mailbox; nil when a real mail server is configured.
func (a *App) Mailbox() *mailbox.Mailbox { return a.mailbox }

// Log is the log of what was sent.
func (a *App) Log() store.Store { return a.log }

func (a *App) close() error {
	var errs []error
	for _, f := range slices.Backward(a.closers) {
		errs = append(errs, f())
	}
	a.closers = nil
	return errors.Join(errs...)
}

func (a *App) onClose(f func() error) { a.closers = append(a.closers, f) }

// openTimeout bounds reaching a part at start.
const openTimeout = 30 * time.Second
