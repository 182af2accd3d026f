// Package echoquota limits the requests to routes of an echo server, for example to 100 in 60 s for
// each resource and IP address. A Guard has three middleware functions: Take decides and counts,
// Peek only decides, and Record only counts.
//
// Every response after a decision of Take or Peek carries RateLimit-Policy and RateLimit. A refused
// request gets 429 with Retry-After, as application/problem+json, and never reaches the handler.
// Take and Record count a request whatever its result. Rules of several scopes are decided
// together: if one refuses, none counts the request.
package echoquota

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/labstack/echo/v4"

	"sendcode/quota"
	"sendcode/quota/quotahttp"
)

// Limiter decides and counts for a Guard. Implementations: quota.Memory, quota.Redis.
type Limiter interface {
	Take(ctx context.Context, req quota.Request) (quota.Decision, error)
	Peek(ctx context.Context, req quota.Request) (quota.Decision, error)
	Record(ctx context.Context, bucket string, keep time.Duration, events []quota.AgedEvent) error
}

// Namer returns the name under which a request is counted. Requests with the same name are counted
// together; "" is a name too.
type Namer func(echo.Context) string

// Config has the settings of a Guard. Limiter and Policy are required.
type Config struct {
	Limiter Limiter
	// Guards whose policies have the same name share buckets, since every bucket contains that
	// name.
	Policy quota.Policy

	// Resource names the requested resource; by default the route's template, such as /prices/:id.
	// Each resource is counted separately, except by rules of the scope Global.
	Resource Namer

	// Subjects name the client for each scope of the policy. Defaults: IP is ClientIP, Network is
	// ClientNetwork; Purpose and Global name no client, so Purpose counts all clients of a resource
	// together, and Global all clients of all resources.
	Subjects map[quota.Scope]Namer

	// Skip selects requests that pass without a decision and are not counted, such as probes and
	// preflights.
	Skip func(echo.Context) bool

	// Open lets requests pass while the limiter is unavailable. By default they get 503.
	Open bool

	// Refuse replaces the 429 response; the headers are already set. Unavailable replaces the 503
	// response. Do not show its error to the client: it may name the limiter's address.
	Refuse      func(c echo.Context, d quota.Decision) error
	Unavailable func(c echo.Context, err error) error
}

// Guard applies a quota to routes. Its methods Take, Peek and Record are middleware for a route, a
// group or, with Echo.Use, all routes. With Echo.Pre the route is not known yet, so all requests
// are one resource. If two Guards guard one route, the response has the headers of the inner one;
// better give one Guard the rules of both. Safe for concurrent use.
type Guard struct {
	c    Config
	keep map[quota.Scope]time.Duration // for how long each scope's rules need an event
}

// New makes a Guard. It fails if the settings are invalid; the error names every problem.
func New(c Config) (*Guard, error) {
	subjects := map[quota.Scope]Namer{
		quota.IP: ClientIP, quota.Network: ClientNetwork, quota.Purpose: oneNameForAll,
		quota.Global: oneNameForAll,
	}
	maps.Copy(subjects, c.Subjects)
	c.Subjects = subjects
	keep := map[quota.Scope]time.Duration{}
	var problems []error
	if c.Limiter == nil {
		problems = append(problems, errors.New("there is no limiter"))
	}
	problems = append(problems, c.Policy.Validate())
	for _, r := range c.Policy.Rules {
		keep[r.Scope] = max(keep[r.Scope], r.Keep())
		if subjects[r.Scope] == nil {
			problems = append(problems, fmt.Errorf("no bucket for scope %s (rule %q)", r.Scope, r.Name))
		}
	}
	if err := errors.Join(problems...); err != nil {
		return nil, fmt.Errorf("echoquota: %w", err)
	}
	c.setDefaults()
	return &Guard{c: c, keep: keep}, nil
}

func (c *Config) setDefaults() {
	if c.Resource == nil {
		c.Resource = echo.Context.Path
	}
	if c.Skip == nil {
		c.Skip = func(echo.Context) bool { return false }
	}
	if c.Refuse == nil {
		c.Refuse = answerRefused
	}
	if c.Unavailable == nil {
		c.Unavailable = answerUnavailable
	}
}

// Take counts the request, or refuses it if a rule's limit is reached; a refused request is not
// counted.
func (g *Guard) Take(next echo.HandlerFunc) echo.HandlerFunc {
	return g.decide(next, g.c.Limiter.Take, func(d quota.Decision) bool { return d.Admitted })
}

// Peek refuses the request if a rule's limit is reached, and counts nothing. It is for routes where
// only some requests count, such as failed logins: their handler calls Count.
func (g *Guard) Peek(next echo.HandlerFunc) echo.HandlerFunc {
	return g.decide(next, g.c.Limiter.Peek, quota.Decision.Allowed)
}

func (g *Guard) decide(next echo.HandlerFunc, ask func(context.Context, quota.Request) (quota.Decision, error),
	admits func(quota.Decision) bool,
) echo.HandlerFunc {
	return func(c echo.Context) error {
		if g.c.Skip(c) {
			return next(c)
		}
		d, err := ask(uncanceled(c), g.quotaRequest(c))
		return g.respond(c, next, d, admits(d), err)
	}
}

// Record counts the request and never refuses it by a rule, so a rule may count more than its
// limit. It sets no RateLimit headers. While the limiter is unavailable, it answers 503 unless Open
// is set.
func (g *Guard) Record(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if g.c.Skip(c) {
			return next(c)
		}
		if err := g.Count(c); err != nil && !(g.c.Open && errors.Is(err, quota.ErrUnavailable)) {
			return g.c.Unavailable(c, err)
		}
		return next(c)
	}
}

// Count counts one event in every bucket of the request, even above a limit. Each call counts once
// more. Errors: quota.ErrUnavailable.
func (g *Guard) Count(c echo.Context) error {
	ctx, req := uncanceled(c), g.quotaRequest(c)
	for _, scope := range slices.Sorted(maps.Keys(req.Buckets)) {
		if err := g.c.Limiter.Record(ctx, req.Buckets[scope], g.keep[scope],
			[]quota.AgedEvent{{ID: req.ID}}); err != nil {
			return err
		}
	}
	return nil
}

// uncanceled returns the request's context without its cancellation. Otherwise a client could hang
// up early and pass an open Guard without being counted.
func uncanceled(c echo.Context) context.Context { return context.WithoutCancel(c.Request().Context()) }

// respond sets the RateLimit headers and calls next if ok; else it answers with a refusal, or with
// Unavailable after an error. An open Guard calls next, without headers, while the limiter is
// unavailable.
func (g *Guard) respond(c echo.Context, next echo.HandlerFunc, d quota.Decision, ok bool, err error) error {
	switch {
	case g.c.Open && errors.Is(err, quota.ErrUnavailable):
		return next(c)
	case err != nil:
		return g.c.Unavailable(c, err)
	}
	h := c.Response().Header()
	if err := quotahttp.SetRateLimit(h, d); err != nil {
		return err
	}
	if ok {
		return next(c)
	}
	quotahttp.SetRetryAfter(h, d.RetryAfter())
	return g.c.Refuse(c, d)
}

func (g *Guard) quotaRequest(c echo.Context) quota.Request {
	resource, buckets := g.c.Resource(c), map[quota.Scope]string{}
	for scope := range g.keep {
		of := resource
		if scope == quota.Global {
			of = ""
		}
		buckets[scope] = quota.Bucket("http", g.c.Policy.Name, string(scope), of, g.c.Subjects[scope](c))
	}
	var id [16]byte
	rand.Read(id[:])
	return quota.Request{ID: string(id[:]), Rules: g.c.Policy.Rules, Buckets: buckets}
}
