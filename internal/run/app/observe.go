package app

import (
	"context"
	"net"
	"net/http"
	"net/http/pprof"
	"slices"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/redis/go-redis/v9"

	"sendcode/internal/base/logs"
	"sendcode/internal/base/loopback"
	"sendcode/internal/base/recipient"
	"sendcode/internal/codes/policy"
	"sendcode/internal/deliver/delivery"
	"sendcode/internal/run/config"
	"sendcode/internal/run/metrics"
	"sendcode/internal/store"
	"sendcode/internal/store/sqldb"
)

// BackupDue is the age of the last backup from which the doctor and the alert SendcodeBackupOld
// warn.
const BackupDue = 48 * time.Hour

// NeedsBackup reports whether to warn about a SQLite file without a backup. Without a mail server
// no mail reaches people: the service is only being tried out.
func NeedsBackup(cfg config.Config) bool { return cfg.DatabaseURL == "" && cfg.SMTPURL != "" }

// registerPartMetrics also initializes the metrics of each route, so all routes of front must have
// been added before.
func (a *App) registerPartMetrics(front *echo.Echo) {
	a.metrics.RegisterBuild(Version())
	a.storeSettingsHash(a.cfg)
	a.metrics.RegisterSettings(func() string { return *a.settingsHash.Load() })
	a.metrics.RegisterBacklog(a.db.Backlog)
	a.metrics.RegisterPools(a.pools)
	a.metrics.RegisterAdmissions(a.core.Codes.AdmissionStats)
	a.metrics.RegisterSlowRefusals(func(ch recipient.Channel) (known, strangers int, wait time.Duration) {
		known, strangers, _ = a.core.Codes.SlowRefusals(ch)
		return known, strangers, a.core.Outbox.LongestWait(ch)
	})
	if a.cfg.DatabaseURL == "" {
		a.metrics.RegisterDisk(a.cfg.DataDir)
		a.metrics.RegisterLastBackup(func() (time.Time, bool) {
			at := config.LastBackup(a.cfg.DataDir)
			return at, NeedsBackup(a.cfg) || !at.IsZero()
		})
	}
	var routes []string
	for _, r := range front.Routes() {
		routes = append(routes, r.Path)
	}
	a.metrics.InitRoutes(routes)
	for _, h := range a.servers.Health() {
		a.metrics.InitDeliveryServer(recipient.Email, h.Server)
	}
	if a.carriers != nil {
		for _, h := range a.carriers.Health() {
			a.metrics.InitDeliveryServer(recipient.SMS, h.Server)
		}
	}
	a.initCountersOfApps(a.cfg)
}

func (a *App) storeSettingsHash(cfg config.Config) {
	hash := cfg.Hash()
	a.settingsHash.Store(&hash)
}

// initCountersOfApps creates the counters of the apps at 0. It runs again after a reload, which can
// add apps.
func (a *App) initCountersOfApps(cfg config.Config) {
	channels := []recipient.Channel{recipient.Email}
	if a.carrier != nil {
		channels = append(channels, recipient.SMS)
	}
	var rules []string
	for _, p := range cfg.PolicySet(a.now()).Purposes {
		for _, r := range p.Policy.Rules {
			if a.redis != nil && policy.CountedInDatabase(r) && !slices.Contains(rules, r.Name) {
				rules = append(rules, r.Name)
			}
		}
	}
	for _, app := range cfg.Apps {
		a.metrics.InitApp(app.Name, channels, rules, policy.UnnamedRule.Name)
	}
}

func (a *App) pools() []store.PoolStats {
	all := slices.Clone(a.db.Pools())
	if a.redisClient != nil {
		s := a.redisClient.PoolStats()
		all = append(all, store.PoolStats{
			Name: "redis", InUse: int(s.TotalConns - s.IdleConns), Idle: int(s.IdleConns),
			Waits: int64(s.Misses),
		})
	}
	for _, server := range a.servers {
		p := store.PoolStats{Name: server.Address()}
		p.InUse, p.Idle, p.Waits = server.ConnCounts()
		all = append(all, p)
	}
	return all
}

const (
	slowStatementThreshold = 250 * time.Millisecond
	slowLogEvery           = 10 * time.Second // between two lines about slow statements of one name
	slowTillLog            = 3                // slow statements of one name; fewer may be caused by the load of other programs
)

type statementObserver struct {
	*App
	observe func(kind string, took time.Duration)
	lines   logs.Throttle
}

func (a *App) newStatementObserver() *statementObserver {
	return &statementObserver{
		App: a, observe: a.metrics.RegisterStatementObserver(sqldb.CallKinds),
		lines: logs.Throttle{Every: slowLogEvery},
	}
}

func (s *statementObserver) Began(ctx context.Context, _ string) context.Context {
	if s.traces == nil {
		return ctx
	}
	return s.traces.BeginCall(ctx)
}

func (s *statementObserver) Ended(ctx context.Context, kind, name string, took time.Duration) {
	s.observe(kind, took)
	if s.traces != nil {
		s.traces.EndCall(ctx, func() string { return "database " + name })
	}
	if took < slowStatementThreshold {
		return
	}
	if later, first := s.lines.Add(name, time.Now()); !first && later == slowTillLog-1 {
		s.logger.Warn("slow statement", "statement", name, "took_ms", took.Milliseconds(), "count", slowTillLog,
			logs.SeeDatabaseSlow)
	}
}

// deliveryObserver returns a function that counts each attempt to deliver a message, adds it to the
// traces, and notes a failure for whyRefused.
func (a *App) deliveryObserver(ch recipient.Channel) func(ctx context.Context, server string, fail *delivery.Error,
	took time.Duration) {
	failures := a.failureRuns[ch]
	return func(ctx context.Context, server string, fail *delivery.Error, took time.Duration) {
		failures.note(fail)
		class := metrics.DeliveryAccepted
		switch {
		case fail != nil && fail.Chosen:
			class = metrics.DeliveryChosen
		case fail != nil:
			class = string(fail.Class)
		}
		a.metrics.DeliveryTried(ch, server, class, took)
		if a.traces != nil {
			a.traces.RecordProviderAttempt(ctx, server, class, fail != nil, took)
		}
	}
}

// startProfileServer serves Go's profiles on Config.DebugAddr, if that is set; the command line has
// checked that it is on loopback. Requests whose Host header names another machine are refused, so
// that a web page of another origin can't read the profiles.
func (a *App) startProfileServer() error {
	if a.cfg.DebugAddr == "" {
		return nil
	}
	l, err := listen(a.cfg.DebugAddr, new([]net.Listener))
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	s := &http.Server{
		ReadHeaderTimeout: time.Second,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if host, _, err := net.SplitHostPort(r.Host); err != nil || !loopback.IsHost(host) {
				http.Error(w, "only for this machine", http.StatusForbidden)
				return
			}
			mux.ServeHTTP(w, r)
		}),
	}
	go func() { _ = s.Serve(l) }()
	a.onClose(s.Close)
	a.logger.Info("profiles served", "address", l.Addr().String())
	return nil
}

type redisHook struct {
	observe func(call string, took time.Duration)
}

func (redisHook) DialHook(next redis.DialHook) redis.DialHook {
	return next
}

func (h redisHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		began := time.Now()
		defer func() { h.observe(cmd.Name(), time.Since(began)) }()
		return next(ctx, cmd)
	}
}

func (h redisHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		began := time.Now()
		defer func() { h.observe("pipeline", time.Since(began)) }()
		return next(ctx, cmds)
	}
}
