// Package server has what all routes of the HTTP server share. It makes the echo instance with the
// common middleware, determines the client's address, and maps errors to statuses. Handlers return
// errors. Clients get these errors as problems (RFC 9457), and browsers get a page.
//
// Package app calls this package to make the instance. Then packages such as api, page and console
// register their routes on the instance.
package server

import (
	"cmp"
	"log/slog"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"

	"sendcode/internal/base/logs"
	"sendcode/internal/base/panics"
)

// These are limits of a request and of its connection.
const (
	maxBody           = 16 << 10 // bytes
	readHeaderTimeout = 5 * time.Second
	readTimeout       = 15 * time.Second
	writeTimeout      = 30 * time.Second
	// A proxy keeps idle connections to a replica, and must close them before the replica does.
	// Otherwise the proxy may send a request on a connection that the replica has just closed, and
	// then answers 502. Google's balancers keep idle connections for 600 s, Caddy for 2 minutes,
	// nginx and AWS's balancers for 1 minute.
	idleTimeout    = 620 * time.Second
	maxHeaderBytes = 16 << 10
)

// Config has the settings of New.
type Config struct {
	Logger         *slog.Logger
	TrustedProxies []netip.Prefix // proxies whose X-Forwarded-For is trusted; empty: none
	// Served is called after each request, except those of probes and metrics, with the route's
	// template or "none". It must not block. May be nil.
	Served      func(route string, status int, took time.Duration)
	PublicURL   string // the service's address for its clients, without a slash at the end; empty if not known
	AssumeHTTPS bool   // browsers must use TLS, so cookies are Secure even in requests directly from this machine
}

// New makes an echo instance with the common middleware and the pages that explain problems,
// without other routes.
func New(c Config) *echo.Echo {
	c.Logger = logs.AddRequestID(c.Logger)
	e := echo.New()
	e.HideBanner, e.HidePort = true, true
	// HEAD is answered like GET (RFC 9110, section 9.1): the same handler runs, and net/http drops
	// the body.
	e.OnAddRouteHandler = func(_ string, r echo.Route, handler echo.HandlerFunc, middleware []echo.MiddlewareFunc) {
		if r.Method == http.MethodGet {
			e.HEAD(r.Path, handler, middleware...)
		}
	}
	e.IPExtractor = echo.ExtractIPDirect()
	if len(c.TrustedProxies) > 0 {
		e.IPExtractor = clientIPExtractor(c.TrustedProxies)
	}
	// SchemeExtractor returns https unless a request comes directly from this machine. The scheme
	// decides whether cookies are Secure and have the prefix "__Host-". A client could send any
	// X-Forwarded-Proto, so its value does not count.
	e.SchemeExtractor = func(r *http.Request) string {
		if c.AssumeHTTPS || !IsLocal(r) {
			return "https"
		}
		return "http"
	}
	e.HTTPErrorHandler = errorHandler(c.Logger, c.PublicURL)
	e.Pre(recoverPanics(c.Logger), assignRequestID, warnOfForwarding(c.TrustedProxies, c.Logger, time.Now))
	bodies := &bodyMemory{logger: c.Logger, networks: map[netip.Prefix]int{}}
	e.Use(accessLog(c.Logger, c.Served), securityHeaders(), recoverPanics(c.Logger), bodies.Bound,
		middleware.BodyLimitWithConfig(middleware.BodyLimitConfig{Limit: strconv.Itoa(maxBody), Skipper: skipBodyLimit}), boundForm)
	e.GET(problemsPath+":slug", serveProblemPage)
	return e
}

// These are the path prefixes for mail providers' events, carriers' receipts and auth servers'
// hooks. Package api sets larger body limits for these paths, because a provider reports many
// events in one body, and a hook's body has all data that the auth server has about a person.
const (
	ProviderEventsPath = "/v1/events/"
	ReceiptsPath       = "/v1/receipts/"
	HooksPath          = "/v1/hooks/"
)

// skipBodyLimit reports whether a path has its own limit. On the API's other paths, except those of
// administrators, skipBodyLimit sets a ContentLength above the limit to unknown, so that a body
// that is too large is refused only when it is read. By that time, a middleware has set the headers
// that let a web page read the answer.
func skipBodyLimit(c echo.Context) bool {
	r := c.Request()
	path := r.URL.Path
	own := strings.HasPrefix(path, ProviderEventsPath) || strings.HasPrefix(path, ReceiptsPath) || strings.HasPrefix(path, HooksPath)
	if !own && r.ContentLength > maxBody && strings.HasPrefix(path, "/v1/") && !strings.HasPrefix(path, "/v1/admin/") {
		r.ContentLength = -1
	}
	return own
}

// NewHTTPServer returns an HTTP server with timeouts for the handler. It does not listen.
func NewHTTPServer(h http.Handler, logger *slog.Logger) *http.Server {
	return &http.Server{
		Handler: h, ReadHeaderTimeout: readHeaderTimeout, ReadTimeout: readTimeout, WriteTimeout: writeTimeout,
		IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes, ConnContext: withConn,
		ErrorLog: slog.NewLogLogger(logger.Handler(), slog.LevelDebug),
	}
}

// SetAnswerTime sets the deadline for writing the answer: the duration d from now. This replaces
// the server's write timeout for this answer.
func SetAnswerTime(c echo.Context, d time.Duration) {
	_ = http.NewResponseController(c.Response()).SetWriteDeadline(time.Now().Add(d)) // fails only for an http.ResponseWriter of a test
}

// accessLog logs one line for each request. The line has the route's template instead of the path,
// because the path may contain secret IDs. It has the client's network (/24 or /48) instead of the
// address, like the send log. It also has the attributes that handlers added with logs.AddAttrs
// (app, key, send). If errIfClientLeft returns an error, accessLog answers with it instead of
// calling next.
func accessLog(logger *slog.Logger, served func(route string, status int, took time.Duration)) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			start := time.Now()
			err := errIfClientLeft(c.Request())
			if err == nil {
				err = next(c)
			}
			if err != nil {
				c.Error(err) // writes the response, so that the status is known below
			}
			took := time.Since(start)
			level := slog.LevelInfo
			if c.Path() == "/livez" || c.Path() == "/readyz" || c.Path() == "/metrics" {
				level = slog.LevelDebug
			} else if served != nil {
				served(cmp.Or(c.Path(), "none"), c.Response().Status, took)
			}
			ctx := c.Request().Context()
			if !logger.Enabled(ctx, level) {
				return nil
			}
			line := append(make([]slog.Attr, 0, 9), slog.String("method", c.Request().Method),
				slog.String("route", c.Path()),
				slog.Int("status", c.Response().Status), slog.Int64("took_ms", took.Milliseconds()))
			if _, network := networksOf(ClientIP(c)); network.IsValid() {
				line = append(line, slog.String("network", network.String()))
			}
			logger.LogAttrs(ctx, level, "request", append(line, logs.Attrs(ctx)...)...)
			return nil
		}
	}
}

const cspHeader = "Content-Security-Policy"

// defaultCSP is the Content-Security-Policy of every response whose handler does not change the
// policy: nothing inline, nothing from other origins.
const defaultCSP = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; form-action 'self'; " +
	"base-uri 'none'; object-src 'none'; frame-ancestors 'none'"

// AllowCSPSource adds a source to a directive of this response's Content-Security-Policy. The
// directive must be one that allows 'self'.
func AllowCSPSource(c echo.Context, directive, source string) {
	h := c.Response().Header()
	h.Set(cspHeader, strings.Replace(h.Get(cspHeader), directive+" 'self'",
		directive+" 'self' "+source, 1))
}

func securityHeaders() echo.MiddlewareFunc {
	headers := map[string][]string{
		cspHeader:                {defaultCSP},
		"X-Content-Type-Options": {"nosniff"},
		// With no-referrer, a browser would send "Origin: null" with a form. See RequireSameOrigin.
		"Referrer-Policy":            {"same-origin"},
		"Cross-Origin-Opener-Policy": {"same-origin"},
		"Cache-Control":              {"no-store"},
		// Sent over http, too, where browsers ignore it (RFC 6797, section 8.1).
		"Strict-Transport-Security": {"max-age=31536000"},
	}
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			h := c.Response().Header()
			// All responses share these slices, so no handler may write to one. Set and Add are
			// safe: Set replaces the slice, and Add copies it, because it has no spare capacity.
			for name, values := range headers {
				h[name] = values
			}
			return next(c)
		}
	}
}

// recoverPanics is middleware that turns a panic into a 500. It logs the stack but not the value,
// which may contain secrets.
func recoverPanics(logger *slog.Logger) echo.MiddlewareFunc {
	return middleware.RecoverWithConfig(middleware.RecoverConfig{
		DisablePrintStack: true,
		LogErrorFunc: func(c echo.Context, err error, _ []byte) error {
			panics.Log(c.Request().Context(), logger, panics.Request, err, "route", c.Path())
			return echo.ErrInternalServerError
		},
	})
}
