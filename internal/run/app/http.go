package app

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/labstack/echo/v4"

	"sendcode/docs"
	"sendcode/internal/base/fault"
	"sendcode/internal/base/logs"
	"sendcode/internal/base/message"
	"sendcode/internal/codes/code"
	"sendcode/internal/codes/policy"
	"sendcode/internal/http/api"
	"sendcode/internal/http/authhooks"
	"sendcode/internal/http/console"
	"sendcode/internal/http/console/auth"
	"sendcode/internal/http/page"
	"sendcode/internal/http/reference"
	"sendcode/internal/http/server"
	"sendcode/internal/limit/gates"
	"sendcode/internal/run/config"
	"sendcode/internal/store"
	"sendcode/web"
)

// listener is an open port. Its handler changes while the service starts.
type listener struct {
	net.Listener
	server  *http.Server
	conns   *server.ConnTracker
	begun   sync.Once     // lets only the first startServing serve
	ended   chan struct{} // closed when http.Server.Serve has returned
	routes  *echo.Echo
	handler atomic.Pointer[http.Handler]
}

func (l *listener) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	(*l.handler.Load()).ServeHTTP(w, r)
}

func (l *listener) setHandler(h http.Handler) { l.handler.Store(&h) }

// startServing begins to serve. Further calls do nothing.
func (l *listener) startServing(failed chan<- error) {
	l.begun.Do(func() {
		go func() {
			failed <- l.server.Serve(l.conns.Listener(l.Listener))
			close(l.ended)
		}()
	})
}

// passed reports whether another process, such as systemd, opened the listener and keeps it open.
func (l *listener) passed() bool {
	_, passed := l.Listener.(server.InheritedListener)
	return passed
}

// parts names the parts whose routes the listener serves.
func (l *listener) parts() (names []string) {
	for _, p := range [][2]string{
		{"api", "/v1/verifications"},
		{"page", "/"},
		{"mailbox", "/mailbox"},
		{"console", "/admin"},
		{"metrics", "/metrics"},
	} {
		if slices.ContainsFunc(l.routes.Routes(), func(r *echo.Route) bool { return r.Path == p[1] }) {
			names = append(names, p[0])
		}
	}
	return names
}

// quietStart is how long requests wait while the service starts. After that they get 503 until the
// service is up.
var quietStart = 2 * time.Second

// shutdownWait is how long a stop waits for requests under way, after Config.Drain.
const shutdownWait = 10 * time.Second

// ErrInterrupted is the cause of a context that a person ended by Ctrl-C. Such a stop doesn't wait
// for Config.Drain.
var ErrInterrupted = errors.New("interrupted")

// openPorts opens the port of the API, and those of the console and of the profiles if they have
// one. Requests wait until Serve runs, and get 503 if that takes longer than quietStart. On a
// socket that another process passed, they wait without a bound.
//
// Config.Addr and Config.AdminAddr get the real addresses of the listeners. Later steps read them,
// because some settings depend on which machines can reach a listener.
func (a *App) openPorts() error {
	a.health = &server.Health{}
	a.conns = server.NewConnTracker(min(server.MaxDescriptors()/2, 10_000), a.cfg.TrustedProxies, a.logger)
	passed, err := passedSockets()
	if err != nil {
		return err
	}
	for _, address := range []*string{&a.cfg.Addr, &a.cfg.AdminAddr} {
		if *address == "" {
			continue
		}
		port, err := listen(*address, &passed)
		if err != nil {
			return err
		}
		*address = port.Addr().String()
		newEcho := func(health *server.Health) *echo.Echo {
			e := server.New(server.Config{
				Logger: a.logger, TrustedProxies: a.cfg.TrustedProxies,
				AssumeHTTPS: config.RequiresHTTPS(port.Addr().String()),
				PublicURL:   a.cfg.BaseURL(), Served: a.metrics.Served,
			})
			health.Register(e, func(c echo.Context) bool {
				local := !a.cfg.BehindProxy() && server.IsLocal(c.Request())
				return address == &a.cfg.AdminAddr || local || a.hasAdminToken != nil && a.hasAdminToken(c)
			})
			if a.traces != nil {
				e.Use(traceRoute)
			}
			return e
		}
		starting := newEcho(&server.Health{}) // this Health never starts, so /readyz answers 503
		api.New(api.Services{}, apiKeys(a.cfg)).UseCORS(starting)
		starting.Any("/*", func(echo.Context) error { return fault.Unavailable })
		l := &listener{Listener: port, conns: a.conns, routes: newEcho(a.health), ended: make(chan struct{})}
		l.setHandler(starting)
		l.server = server.NewHTTPServer(a.conns.TrackRequestRead(a.traceRequests(a.health.EndConnectionsWhenStopping(l))), a.logger)
		l.server.ConnState = a.conns.Changed
		a.listeners = append(a.listeners, l)
		a.onClose(func() error { _ = port.Close(); return nil }) // the server has closed the port already, if it served
		a.onClose(l.server.Close)                                // runs first: it returns an error if the port is closed
		if !l.passed() {
			late := time.AfterFunc(quietStart, func() { l.startServing(a.failed) })
			a.onClose(func() error { late.Stop(); return nil })
		}
	}
	for _, l := range passed {
		return fmt.Errorf("systemd passed a socket for %s, but neither SENDCODE_ADDR nor SENDCODE_ADMIN_ADDR has its port: "+
			"correct ListenStream", l.Addr())
	}
	a.cfg.UpdateWarnings(time.Now())
	for _, w := range a.cfg.Warnings {
		a.logger.Warn(w)
	}
	return a.startProfileServer()
}

// addRoutes puts the routes of the console and of the metrics on the console's own port, if it has
// one. Until Serve runs, requests still wait.
func (a *App) addRoutes() error {
	front, back := a.listeners[0].routes, a.listeners[len(a.listeners)-1].routes
	for _, l := range a.listeners {
		page.RegisterStatic(l.routes)
	}
	a.registerHealthChecks()
	a.requests = server.NewRequestLimiter(a.cfg.RequestsPerMinute, a.logger, a.metrics.NetworkRefused, a.localNow)
	a.api = api.New(api.Services{Codes: a.core.Codes, Limits: a.core.Limits, Proofs: a.core.Proofs, Requests: a.requests}, apiKeys(a.cfg))
	a.api.Register(front)
	a.registerProviderEvents(front)
	a.registerAuthHooks(front)
	web.RegisterWidget(front)
	a.metrics.RegisterAPIKeys(func(show func(app, key string, used time.Time)) {
		for _, k := range a.api.Keys() {
			show(k.App, k.ID, k.LastUsed())
		}
	})
	front.GET("/openapi.yaml", echo.WrapHandler(web.NewFile("application/yaml", docs.OpenAPI)))
	reference.Register(front)
	receipts := &api.ReceiptHandlers{Addresses: ReceiptAddresses(a.cfg), Recorder: a.core.Receipts, Logger: a.logger}
	if a.carriers != nil && a.cfg.PublicURL != "" {
		receipts.Carriers = a.carriers
	}
	receipts.Register(front)
	if err := a.registerProofKeys(front); err != nil {
		return err
	}
	a.registerPages(front)
	a.registerConsole(front, back)
	a.metrics.RegisterStorage(a.storageStatus)
	if a.redis != nil {
		a.metrics.RegisterRedis(a.redis.Size)
	}
	a.registerPartMetrics(front)
	a.registerMetricsRoute(back)
	for _, l := range a.listeners {
		l.setHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			select {
			case <-a.serving:
				l.routes.ServeHTTP(w, r)
			case <-r.Context().Done():
			}
		}))
	}
	return nil
}

// registerAuthHooks adds the routes that auth servers call to have their codes sent.
func (a *App) registerAuthHooks(e *echo.Echo) {
	var all []authhooks.Hook
	for _, h := range a.cfg.Hooks {
		all = append(all, h.Hook())
	}
	api.NewAuthHooks(all, a.core.Codes, a.logger).Register(e)
}

// registerProofKeys serves the public keys with which apps check proofs. Clients may cache them. A
// client that meets an unknown key ID requests them again.
func (a *App) registerProofKeys(e *echo.Echo) error {
	keys, err := a.core.Signer.KeySet()
	if err != nil {
		return err
	}
	e.GET("/.well-known/jwks.json", func(c echo.Context) error {
		c.Response().Header().Set("Cache-Control", "public, max-age=300")
		return c.Blob(http.StatusOK, "application/jwk-set+json", keys)
	})
	return nil
}

func (a *App) registerPages(e *echo.Echo) {
	page.RegisterNotMe(e, a.core.Codes, func(name string) (string, message.Brand) {
		app := a.core.Policy.Get().Apps[name]
		return app.Title, app.Brand
	})
	if a.mailbox != nil {
		page.RegisterMailbox(e, a.mailbox, a.cfg.MailboxKey(), a.cfg.APIKey.Reveal(), a.cfg.LocalPublicKey != "")
	}
	if a.cfg.Page.App == "" {
		return
	}
	first := "" // country
	if served := a.cfg.SMS.Countries; len(served) > 0 {
		first = served[0]
	}
	a.page = page.New(page.Config{
		Channels: a.cfg.Page.Channels, Country: first, Offer: a.api.Offer, Logger: a.logger, References: a.core.Proofs,
		Now: a.now,
	})
	a.configurePage(a.cfg)
	a.page.Register(e)
}

// configurePage takes the apps from cfg, and their purposes from the policy set in force.
func (a *App) configurePage(cfg config.Config) {
	set := a.core.Policy.Get()
	first, others := page.AppPage{}, []page.AppPage(nil)
	for _, app := range cfg.Apps {
		one := page.AppPage{
			App: app.Name, Key: api.PageKey(app.Name), Title: cfg.TitleOf(app), Brand: app.EffectiveBrand(), ReturnURLs: app.ReturnURLs,
			Sender: cfg.SenderOf(app).Address,
		}
		for _, name := range app.PurposesOfPage() {
			p := set.Purposes[name]
			one.Purposes = append(one.Purposes, page.Purpose{
				Name: name, Code: code.Format{Alphabet: p.Alphabet, Length: p.CodeLength},
				Subject: subjectByLanguage(a.mails, p, one.App, one.Title),
			})
		}
		switch {
		case app.Name == cfg.Page.App:
			first = one
		case cfg.HasPage(app):
			others = append(others, one)
		}
	}
	a.page.Configure(append([]page.AppPage{first}, others...)...)
}

// subjectByLanguage returns a function from a language to the subject of a purpose's mails, which
// the page shows so that a person can search the mailbox for it. The function is nil if the subject
// contains the code, which differs in each mail.
func subjectByLanguage(r *message.MailRenderer, p policy.Purpose, app, title string) func(string) string {
	if p.Notify == message.NotifyGlance {
		return nil
	}
	var known sync.Map // by language
	return func(lang string) string {
		subject, ok := known.Load(lang)
		if !ok { // if rendering fails, the subject is empty
			m, _ := r.Render(message.RenderRequest{
				App: app, Locale: lang, Purpose: p.Name, Titles: p.Titles,
				Data: message.Data{App: title, Code: "000000", Minutes: 1},
			})
			subject, _ = known.LoadOrStore(lang, m.Subject)
		}
		return subject.(string)
	}
}

func (a *App) registerConsole(front, back *echo.Echo) {
	if !a.cfg.AdminLoginEnabled() && !a.cfg.AdminToken.IsSet() && len(a.cfg.Admin.Tokens) == 0 {
		return
	}
	var carriers []string
	if a.carriers != nil {
		for _, h := range a.carriers.Health() {
			carriers = append(carriers, h.Server)
		}
	}
	pages := console.New(console.Config{
		DB: a.db, Administration: a.core.Administration, TopicProviders: topicProviders(a.cfg), Webhooks: a.core.Webhooks,
		Logger: a.logger, Status: a.Status, Carriers: carriers, ResendOther: a.cfg.ResendsOther(), StorageStatus: a.storageStatus,
		Now: a.now,
		Auth: auth.Config{
			Accounts: a.db, Sessions: a.db, Factors: a.db, Limiter: gates.WriteThrough{Gates: a.core.Gates, Saved: a.savedEvents},
			Ring:          a.ring,
			Provider:      IdentityProvider(a.cfg),
			Refused:       a.metrics.AdminRefused,
			AdminPassword: a.cfg.AdminPassword.Reveal(), AdminPasswordHash: a.cfg.AdminPasswordHash.Reveal(),
			Tokens: AdminTokens(a.cfg), DemandFactor: a.cfg.Admin.SecondFactor == config.SecondFactorRequired,
		},
	})
	pages.Register(back)
	a.hasAdminToken = pages.HasAdminToken
	if front != back {
		pages.RegisterClientAddress(front)
	}
}

// registerMetricsRoute adds /metrics, for requests with the metrics token. In a trial the token is
// Config.TrialMetricsToken, and other machines can't use it. Without a token, /metrics exists only
// on the console's own address, and refuses requests that come through a proxy.
func (a *App) registerMetricsRoute(e *echo.Echo) {
	token, show := a.cfg.MetricsToken, echo.WrapHandler(a.metrics.Handler())
	switch trial := a.cfg.TrialMetricsToken(); {
	case token.IsSet():
		e.GET("/metrics", show, server.RequireToken(token.Reveal()))
	case trial != "":
		e.GET("/metrics", show, server.RequireLocal, server.RequireToken(trial))
	case a.cfg.AdminAddr == "":
	case config.RequiresHTTPS(a.cfg.AdminAddr):
		e.GET("/metrics", show, server.RequireDirect)
	default:
		e.GET("/metrics", show, server.RequireLocal)
	}
}

func (a *App) storageStatus(ctx context.Context) (store.StorageStatus, error) {
	return a.db.StorageStatus(ctx, a.core.Policy.Get().Retention)
}

// AdminTokens returns the tokens that /v1/admin accepts.
func AdminTokens(c config.Config) (all []auth.Token) {
	if c.AdminToken.IsSet() {
		all = append(all, auth.Token{
			SHA256: sha256.Sum256([]byte(c.AdminToken.Reveal())),
			Role:   auth.Reader, // all users share this one token, so it only reads; each of Admin.Tokens has its own role and audit name
		})
	}
	for _, t := range c.Admin.Tokens {
		all = append(all, auth.Token{ID: t.ID, SHA256: t.SHA256, Role: auth.Role(t.Role), Expires: t.Expires})
	}
	return all
}

// serveHTTP serves all ports until ctx ends or a port fails. The stop then takes at most
// Config.Drain plus shutdownWait.
func (a *App) serveHTTP(ctx context.Context) error {
	close(a.serving)
	for _, l := range a.listeners {
		l.setHandler(l.routes)
		l.startServing(a.failed)
	}
	var err error
	select {
	case <-ctx.Done():
		a.core.Limits.EndWaits()
		a.drain(ctx)
	case err = <-a.failed:
		a.core.Limits.EndWaits()
	}
	return errors.Join(err, a.shutdown())
}

// drain makes /readyz fail before the ports close, so that load balancers notice the stop.
func (a *App) drain(ctx context.Context) {
	a.health.MarkStopping()
	wait := a.cfg.Drain
	if errors.Is(context.Cause(ctx), ErrInterrupted) {
		wait = 0
	}
	a.logger.Info("shutdown begun: /readyz answers 503, and requests are still answered", "drain", wait.String())
	<-time.After(wait)
}

// shutdown answers the requests that have been read, within shutdownWait. After half of it, the
// requests that still wait for an outcome are answered. A client has at most
// server.DefaultUnreadWait to send the rest of a request or to read an answer.
func (a *App) shutdown() error {
	ctx, cancel := context.WithTimeout(context.Background(), shutdownWait)
	defer cancel()
	var wg sync.WaitGroup
	for _, l := range a.listeners {
		wg.Go(func() {
			if server.EndAccepting(l.Listener) {
				<-l.ended // so that conns has all connections
			}
		})
	}
	wg.Wait()
	a.conns.End() // Shutdown would drop a request that is read after it began
	defer time.AfterFunc(shutdownWait/2, a.core.Outbox.EndWaits).Stop()
	errs, isDeadline := make([]error, len(a.listeners)), func(err error) bool { return errors.Is(err, context.DeadlineExceeded) }
	for i, l := range a.listeners {
		wg.Go(func() { errs[i] = l.server.Shutdown(ctx) })
	}
	wg.Wait()
	if slices.ContainsFunc(errs, isDeadline) {
		a.logger.Warn("shutdown cuts requests that were not answered in time", "wait", shutdownWait.String(), logs.SeeDatabaseSlow)
	}
	return errors.Join(slices.DeleteFunc(errs, isDeadline)...)
}
