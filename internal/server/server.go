// Package server is the house that the handlers live in: an echo instance with the middleware that every answer
// passes, the client's address, and the one table from error to status. Handlers return errors; here they become
// problems (RFC 9457) or, for a person's browser, a page.
//
// It stands at the edge: package app makes one, packages api, ui and admin register on it.
package server

import (
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"

	"sendcode/internal/compress"
)

// Limits of one request (API-9).
const (
	MaxBody           = 16 << 10 // bytes
	readHeaderTimeout = 5 * time.Second
	readTimeout       = 15 * time.Second
	writeTimeout      = 30 * time.Second
	idleTimeout       = 2 * time.Minute
	maxHeader         = 16 << 10 // bytes
)

// Config is what every server of the process shares.
type Config struct {
	Logger         *slog.Logger
	TrustedProxies []netip.Prefix // whose X-Forwarded-For is believed; empty: none
	HTTPS          bool           // browsers come over TLS, whatever a request looks like: cookies are Secure
}

// New makes an echo without routes but those that explain its own problems.
func New(c Config) *echo.Echo {
	c.Logger = LogRequestIDs(c.Logger)
	e := echo.New()
	e.HideBanner, e.HidePort = true, true
	e.IPExtractor = echo.ExtractIPDirect()
	e.SchemeExtractor = echo.ExtractSchemeDirect()
	if len(c.TrustedProxies) > 0 {
		trust := trustOf(c.TrustedProxies)
		e.IPExtractor = clientOf(c.TrustedProxies)
		e.SchemeExtractor = echo.ExtractSchemeFromHeaders(trust...)
	}
	if c.HTTPS {
		e.SchemeExtractor = func(*http.Request) string { return "https" }
	}
	e.HTTPErrorHandler = errorHandler(c.Logger)
	e.Pre(requestID, (&strangers{proxies: c.TrustedProxies, logger: c.Logger, now: time.Now}).watch)
	e.Use(accessLog(c.Logger), compress.Pages, securityHeaders(), recovered(c.Logger),
		middleware.BodyLimitWithConfig(middleware.BodyLimitConfig{Limit: "16K", Skipper: bringsEvents}))
	e.Match([]string{http.MethodGet, http.MethodHead}, "/problems/:slug", problemPage)
	return e
}

// EventsPath begins the addresses that mail providers tell events at. They come many at once, so package api bounds them
// by itself.
const EventsPath = "/v1/events/"

func bringsEvents(c echo.Context) bool { return strings.HasPrefix(c.Request().URL.Path, EventsPath) }

// HTTP wraps the handler in a server with timeouts; the caller listens.
func HTTP(h http.Handler, logger *slog.Logger) *http.Server {
	return &http.Server{
		Handler: h, ReadHeaderTimeout: readHeaderTimeout, ReadTimeout: readTimeout, WriteTimeout: writeTimeout,
		IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader, ErrorLog: slog.NewLogLogger(logger.Handler(), slog.LevelDebug),
	}
}

// accessLog writes one line a request: the route's template, never the path, which holds capabilities (OPS-8).
func accessLog(logger *slog.Logger) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			start := time.Now()
			if err := next(c); err != nil {
				c.Error(err) // so that the status below is the one that was sent
			}
			level := slog.LevelInfo
			if c.Path() == "/livez" || c.Path() == "/readyz" || c.Path() == "/metrics" {
				level = slog.LevelDebug
			}
			logger.LogAttrs(c.Request().Context(), level,
				"request", slog.String("method", c.Request().Method), slog.String("route", c.Path()), slog.Int("status", c.Response().Status),
				slog.Int64("took_ms", time.Since(start).Milliseconds()))
			return nil
		}
	}
}

const contentSecurityPolicy = "Content-Security-Policy"

// policy is the CSP of every page: nothing inline, nothing from elsewhere (SEC-15).
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; form-action 'self'; " +
	"base-uri 'none'; object-src 'none'; frame-ancestors 'none'"

// Allow lets the page of this answer load from one more source than pages do, for a directive that all of them have.
func Allow(c echo.Context, directive, source string) {
	h := c.Response().Header()
	h.Set(contentSecurityPolicy, strings.Replace(h.Get(contentSecurityPolicy), directive+" 'self'", directive+" 'self' "+source, 1))
}

func securityHeaders() echo.MiddlewareFunc {
	headers := map[string][]string{
		contentSecurityPolicy:        {policy},
		"X-Content-Type-Options":     {"nosniff"},
		"Referrer-Policy":            {"no-referrer"},
		"Cross-Origin-Opener-Policy": {"same-origin"},
		"Cache-Control":              {"no-store"},
		// Browsers ignore it over http (RFC 6797, section 8.1), so the service need not know which this is.
		"Strict-Transport-Security": {"max-age=31536000"},
	}
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			h := c.Response().Header()
			for name, values := range headers { // shared by all answers: Set replaces them, and Add copies what is full
				h[name] = values
			}
			return next(c)
		}
	}
}

// recovered turns a panic into a 500 without its words: a panic's value may hold anything (SEC-9).
func recovered(logger *slog.Logger) echo.MiddlewareFunc {
	return middleware.RecoverWithConfig(middleware.RecoverConfig{
		DisablePrintStack: true,
		LogErrorFunc: func(c echo.Context, _ error, stack []byte) error {
			logger.ErrorContext(c.Request().Context(), "panic", "route", c.Path(), "stack", string(stack))
			return echo.ErrInternalServerError
		},
	})
}

// trustOf says whose word about the client's address and scheme counts: exactly the proxies named. echo's own default
// believes anybody about the address, and every private network beside the ones named (SEC-13).
func trustOf(proxies []netip.Prefix) []echo.TrustOption {
	options := []echo.TrustOption{echo.TrustLoopback(false), echo.TrustLinkLocal(false), echo.TrustPrivateNet(false)}
	for _, p := range proxies {
		options = append(options, echo.TrustIPRange(ipNet(p)))
	}
	return options
}
