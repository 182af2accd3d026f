package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"sendcode/internal/base/logs"
	"sendcode/internal/base/panics"
	"sendcode/internal/base/recipient"
	"sendcode/internal/deliver/delivery"
	"sendcode/internal/deliver/delivery/mailbox"
	"sendcode/internal/deliver/delivery/mailserver"
	"sendcode/internal/limit/gates"
	"sendcode/internal/run/config"
	"sendcode/internal/store/postgres"
	"sendcode/internal/store/sqldb"
	"sendcode/internal/store/sqlite"
	"sendcode/quota"
)

// RedisPrefix begins every key, so that other programs can use the same Redis.
const RedisPrefix = "sendcode"

func (a *App) openDatabase(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, databaseOpenTimeout)
	defer cancel()
	if a.cfg.DatabaseURL != "" {
		if err := postgres.Migrate(ctx, a.cfg.DatabaseURL, a.cfg.DatabaseRole); err != nil {
			return fmt.Errorf("could not migrate database: %w", err)
		}
	}
	db, err := openStore(ctx, a.cfg, a.localNow, a.connectionTracers()...)
	if err != nil {
		return fmt.Errorf("could not open database: %w", err)
	}
	db.Actions = a.logger
	a.db = sqldb.WithObserver(db, a.newStatementObserver())
	a.onClose(db.Close)
	if a.cfg.DatabaseURL == "" {
		return nil
	}
	if server, ok := db.Engine.(*postgres.DB); ok && postgres.OpenConnsAhead {
		if err := server.OpenConns(ctx); err != nil {
			a.logger.Warn("database offers fewer connections than the load needs: enlarge its pooler, or max_connections",
				"error", err, logs.SeeDatabaseSlow)
		}
	}
	a.clock = &databaseClock{localNow: a.localNow, logger: a.logger, read: func(ctx context.Context) (time.Time, error) {
		return sqldb.ReadWithResult(ctx, a.db, "Clock", sqldb.Tx.Clock)
	}}
	a.now = a.clock.Now
	return a.clock.measure(ctx)
}

// openStore migrates SQLite. Postgres must have been migrated.
func openStore(ctx context.Context, cfg config.Config, now func() time.Time,
	tracer ...pgx.QueryTracer,
) (*sqldb.DB, error) {
	if cfg.DatabaseURL == "" {
		db, err := sqlite.Open(ctx, filepath.Join(cfg.DataDir, config.DatabaseFile), now)
		if err != nil {
			return nil, err
		}
		return db.Store(), nil
	}
	db, err := postgres.Open(ctx, cfg.DatabaseURL, cfg.DatabaseRole, tracer...)
	if err != nil {
		return nil, err
	}
	return db.Store(), nil
}

// OpenStoreForCommand opens the store, and returns it with a function that closes it. It can open
// Postgres while the service runs. A SQLite file belongs to one process. If the service uses it,
// the error ends with the parameter advice. A new SQLite file comes with generated secrets: if a
// database existed without secrets, the service would later report that the keys are lost.
func OpenStoreForCommand(ctx context.Context, cfg config.Config, advice string) (*sqldb.DB, func() error, error) {
	unlock := func() error { return nil }
	if cfg.DatabaseURL == "" {
		var err error
		if unlock, err = config.LockDataDir(ctx, cfg.DataDir, 0); err != nil {
			return nil, nil, fmt.Errorf("%w; %s", err, advice)
		}
		if !config.DatabaseFileMayExist(cfg.DataDir) {
			if _, err := cfg.LoadOrCreateSecrets(cfg.DataDir); err != nil {
				return nil, nil, errors.Join(err, unlock())
			}
		}
	}
	db, err := openStore(ctx, cfg, time.Now)
	if err != nil {
		return nil, nil, errors.Join(err, unlock())
	}
	return db, func() error { return errors.Join(db.Close(), unlock()) }, nil
}

func (a *App) openLimiter(ctx context.Context) error {
	if a.cfg.RedisURL == "" {
		a.savedEvents = a.newSavedEvents()
		a.limiter = a.savedEvents.Limiter()
		return nil
	}
	SetRedisLogger(a.logger)
	client, err := quota.OpenRedis(a.cfg.RedisURL)
	if err != nil {
		return err
	}
	a.onClose(client.Close)
	client.AddHook(redisHook{a.metrics.RegisterRedisCallObserver()})
	if a.traces != nil {
		if err := a.traces.TraceRedis(client); err != nil {
			return err
		}
	}
	a.redis, a.redisClient = quota.NewRedis(client, RedisPrefix), client
	a.redis.Budget = gates.LimiterTimeout
	a.redis.OnPanic = func(value any) { panics.Log(context.Background(), a.logger, panics.Other, value) }
	a.limiter = a.redis
	if a.cfg.StartWait > 0 {
		away := func(err error) bool {
			return !errors.Is(err, quota.ErrNotPermitted) && !errors.Is(err, quota.ErrPartly) && !errors.Is(err, quota.ErrClusterNode) &&
				!errors.Is(err, quota.ErrSentinel)
		}
		if err := a.retryAtStart(ctx, redisSetting, away, a.redis.Ping); err != nil && away(err) {
			return fmt.Errorf("no answer from Redis: %w; serve --wait=0s starts without it", err)
		}
	}
	return a.warnRedis(ctx, a.redis)
}

// ExplainRedis adds the setting to a quota.ErrSentinel, and the correct URL, with the password
// masked, to a quota.ErrClusterNode. Other errors stay as they are.
func ExplainRedis(cfg config.Config, err error) error {
	if errors.Is(err, quota.ErrSentinel) {
		return fmt.Errorf(redisSetting+": %w", err)
	}
	if !errors.Is(err, quota.ErrClusterNode) {
		return err
	}
	return fmt.Errorf(redisSetting+": %w; write %s", err, config.ClusterURL(cfg.RedisURL))
}

const redisSetting = "SENDCODE_REDIS_URL"

const waitLogEvery = 10 * time.Second // between two log lines of retryAtStart

// retryAtStart calls open until the database or Redis answers, and logs the wait. away reports
// whether an error means that the database or Redis does not answer. When Config.StartWait has
// passed since the start of the process, retryAtStart returns the last error, with the name of the
// setting and advice.
func (a *App) retryAtStart(ctx context.Context, setting string, away func(error) bool,
	open func(context.Context) error,
) error {
	var loggedAt time.Time
	for {
		err := open(ctx)
		left := time.Until(a.started.Add(a.cfg.StartWait))
		switch {
		case err == nil || !away(err):
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		case left <= 0:
			return fmt.Errorf(
				"%w; waited %v: start what %s names, or correct it; sendcode doctor tries every connection", err,
				a.cfg.StartWait, setting)
		case time.Since(loggedAt) >= waitLogEvery:
			loggedAt = time.Now()
			const waits = "start waits: start the server that the setting names, or correct the setting"
			what := []any{"setting", setting, "left", left.Round(time.Second).String(), "error", err}
			if setting == redisSetting {
				a.logger.Warn(waits, append(what, logs.SeeRedis)...)
			} else {
				a.logger.Warn(waits, append(what, logs.SeeDatabaseAway)...)
			}
		}
		select {
		case <-time.After(min(left, time.Second)):
		case <-ctx.Done():
		}
	}
}

// SetRedisLogger sets the logger of the Redis client.
func SetRedisLogger(logger *slog.Logger) { redis.SetLogger(redisLogger{logger}) }

// redisLogger logs the Redis client's own messages at level debug, because callers get the same
// failures as errors.
type redisLogger struct{ *slog.Logger }

func (l redisLogger) Printf(_ context.Context, format string, args ...any) {
	l.Debug("Redis client message", "text", fmt.Sprintf(format, args...))
}

// warnRedis logs the settings and missing rights of Redis that will cause trouble later. If Redis
// doesn't answer, the start goes on. Errors: quota.ErrClusterNode and quota.ErrSentinel, if the URL
// is that of a single server.
func (a *App) warnRedis(ctx context.Context, r *quota.Redis) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	switch err := r.Ping(ctx); {
	case errors.Is(err, quota.ErrClusterNode), errors.Is(err, quota.ErrSentinel):
		return ExplainRedis(a.cfg, err)
	case errors.Is(err, quota.ErrNotPermitted):
		a.logger.Error("Redis refuses commands that a send needs: the database decides alone", "error", err, logs.SeeRedis)
		return nil
	case err != nil:
		a.logger.Warn("Redis did not answer at start", "error", err, logs.SeeRedis)
		return nil
	}
	for _, w := range r.Warnings(ctx) {
		a.logger.Warn(w)
	}
	return nil
}

// newSavedEvents uses the process's clock for the limiter, too. A jump of the database's clock
// would change the age of all events.
func (a *App) newSavedEvents() *gates.SavedEvents {
	var ahead func() time.Duration
	if a.clock != nil {
		ahead = a.clock.localAhead
	}
	return gates.NewSavedEvents(a.db, ahead, a.localNow, a.keys.SealBucket, a.keys.OpenBucket, a.logger)
}

// maxEventLoading bounds how long a start loads saved events. A million events take about ten
// seconds.
const maxEventLoading = 5 * time.Minute

// loadSavedEvents adds the saved events to the limiter. If this process uses Redis, an earlier
// process may have saved events without Redis. They then move from the database to Redis. If Redis
// doesn't answer, the next start tries again.
func (a *App) loadSavedEvents(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, maxEventLoading)
	defer cancel()
	if a.savedEvents != nil {
		return a.savedEvents.Load(ctx)
	}
	switch n, err := a.newSavedEvents().MoveTo(ctx, a.redis); {
	case err != nil:
		a.logger.Warn("kept events of the limiter not recorded in Redis", "error", err, logs.SeeRedis)
	case n > 0:
		a.logger.Info("kept events of the limiter recorded in Redis", "events", n)
	}
	return nil
}

// openMailServers opens the configured mail servers. If there are none, it opens the dev mailbox,
// an SMTP server in this process.
func (a *App) openMailServers() error {
	url := a.cfg.SMTPURL
	if url == "" {
		box, err := mailbox.Listen()
		if err != nil {
			return fmt.Errorf("the dev mailbox can't start: %w", err)
		}
		a.mailbox = box
		a.onClose(box.Close)
		url = box.URL()
	}
	tokens := a.cfg.TokenSources()
	a.onClose(tokens.Close)
	configs, err := mailserver.ParseURLs(url, tokens)
	if err != nil {
		return err
	}
	// Public servers refuse a client that names itself localhost.
	servers, err := mailserver.Open(configs, a.cfg.MailDomain())
	if err != nil {
		return err
	}
	a.onClose(servers.Close)
	servers.OnHealthChange(a.healthLogger("mail server", "server"))
	servers.OnAttempt(a.deliveryObserver(recipient.Email))
	servers.OnUnverified(func(server string, why error) {
		a.logger.Warn("mail server unverified: mails go there encrypted, and an attacker on the path could read them", "server", server,
			"error", why, logs.SeeSendsWait)
	})
	tokens.Start(a.tokenLogger)
	a.servers = servers
	a.metrics.RegisterMailServers(servers.Health)
	return nil
}

// tokenLogger logs when an OAuth client gets no token, and when it has one again. The token source
// calls it only when the kind of failure changes, and not after each failed request.
func (a *App) tokenLogger(client string, failure error) {
	if failure == nil {
		a.logger.Info("oauth client has a token again", "client", client)
		return
	}
	a.logger.Warn("oauth client gets no token: its mail servers accept mails until the last token expires", "client", client,
		"error", failure, logs.SeeSendsWait)
}

// recheckSuspended tries suspended mail servers and carriers while no message waits, so that their
// metrics are right before the next message. If messages wait, their attempts show more: a login
// doesn't show whether the server would accept a message.
func (a *App) recheckSuspended(ctx context.Context) {
	mayRecheck := func(ch recipient.Channel, all []delivery.Health) bool {
		if !slices.ContainsFunc(all, func(h delivery.Health) bool { return !h.Up }) {
			return false
		}
		waits, err := a.db.AnySendWaits(ctx, ch)
		return err == nil && !waits
	}
	if mayRecheck(recipient.Email, a.servers.Health()) {
		a.servers.RecheckSuspended(ctx, a.cfg.MailSenders())
	}
	if a.carriers != nil && mayRecheck(recipient.SMS, a.carriers.Health()) {
		a.carriers.RecheckSuspended(ctx)
	}
}

// healthLogger logs when a mail server or a carrier is suspended after failures, and when it is in
// use again.
func (a *App) healthLogger(what, key string) func(delivery.Health) {
	return func(h delivery.Health) {
		if h.Up {
			a.logger.Info(what+" in use again", key, h.Server)
			return
		}
		a.logger.Warn(what+" suspended after failures", key, h.Server, "reason", h.Why, logs.SeeSendsWait)
	}
}
