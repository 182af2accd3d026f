// Package echoquota gives routes of an echo server a quota: "100 per 60 s for a resource and an IP address" is one
// line. Beside Take, which looks and counts, a Guard has Peek, which only looks, and Record, which only counts.
//
// It stands between the router and a handler. Every answer that it looked for carries RateLimit-Policy and RateLimit;
// a refusal is 429 with Retry-After, as application/problem+json, and never reaches the handler. What is counted are
// requests, whatever comes of them. Rules of several scopes are decided together: a refusal by one spends nothing.
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

// Limiter is what a Guard asks. Implementations: quota.Memory, quota.Redis.
type Limiter interface {
	Take(ctx context.Context, req quota.Request) (quota.Decision, error)
	Peek(ctx context.Context, req quota.Request) (quota.Decision, error)
	Record(ctx context.Context, bucket string, keep time.Duration, events []quota.Event) error
}

// Namer says what a request is counted under. All requests that get the same name share a place, those with "" too.
type Namer func(echo.Context) string

// Config says whose requests are counted, where, and by which rules. Limiter and Policy are needed.
type Config struct {
	Limiter Limiter
	Policy  quota.Policy // its name is part of every bucket: Guards with policies of one name share what they count

	// Resource names what is asked for; by default the route's template, such as /prices/:id. Each resource is
	// counted apart, but for rules of the scope Global.
	Resource Namer

	// Subjects say who asks, for each scope of the policy. Those of IP (ClientIP), Network (ClientNetwork), Purpose (no one:
	// all clients of the resource) and Global (no one: all clients of all resources) are there unless given.
	Subjects map[quota.Scope]Namer

	// Skip lets requests through that are neither looked at nor counted, such as probes and preflights.
	Skip func(echo.Context) bool

	// Open lets requests through while the limiter is unavailable. By default they are refused, with 503.
	Open bool

	// Refuse answers in place of the 429; the headers are written already. Unavailable answers in place of the 503, with
	// what went wrong; the limiter's error may name its address, so it is not for the client.
	Refuse      func(c echo.Context, d quota.Decision) error
	Unavailable func(c echo.Context, err error) error
}

// Guard is the quota of some routes. Its methods Take, Peek and Record are middleware for a route, a group or, with
// Echo.Use, all routes. They need the route, so with Echo.Pre there is only one resource. Of two Guards on one route, the
// headers are those of the inner one: rather give one Guard the rules of both. Safe for concurrent use.
type Guard struct {
	c    Config
	keep map[quota.Scope]time.Duration // for how long each scope's rules need an event
}

// New checks the settings. An error names everything that is wrong.
func New(c Config) (*Guard, error) {
	subjects := map[quota.Scope]Namer{quota.IP: ClientIP, quota.Network: ClientNetwork, quota.Purpose: noOne, quota.Global: noOne}
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
			problems = append(problems, fmt.Errorf("nothing says who the %s of rule %q is", r.Scope, r.Name))
		}
	}
	if err := errors.Join(problems...); err != nil {
		return nil, fmt.Errorf("echoquota: %w", err)
	}
	c.complete()
	return &Guard{c: c, keep: keep}, nil
}

func (c *Config) complete() {
	if c.Resource == nil {
		c.Resource = echo.Context.Path
	}
	if c.Skip == nil {
		c.Skip = func(echo.Context) bool { return false }
	}
	if c.Refuse == nil {
		c.Refuse = refuse
	}
	if c.Unavailable == nil {
		c.Unavailable = unavailable
	}
}

// Take counts the request, or refuses it if a rule has no place left; a refused request costs nothing.
func (g *Guard) Take(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if g.c.Skip(c) {
			return next(c)
		}
		d, err := g.c.Limiter.Take(unhurried(c), g.request(c))
		return g.pass(c, next, d, d.Admitted, err)
	}
}

// Peek refuses the request if a rule has no place left, and counts nothing. It is for routes where only some requests
// count, such as failed logins: their handler calls Count.
func (g *Guard) Peek(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if g.c.Skip(c) {
			return next(c)
		}
		d, err := g.c.Limiter.Peek(unhurried(c), g.request(c))
		return g.pass(c, next, d, d.Allowed(), err)
	}
}

// Record counts the request and refuses none: a rule may come to count more than its limit. It writes no RateLimit.
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

// Count counts one event of this request's subjects, whatever the rules say. Called twice it counts twice. It asks the
// limiter for the time first, since events lie on the limiter's clock alone. Errors: quota.ErrUnavailable.
func (g *Guard) Count(c echo.Context) error {
	ctx, req := unhurried(c), g.request(c)
	d, err := g.c.Limiter.Peek(ctx, req)
	if err != nil {
		return err
	}
	for _, scope := range slices.Sorted(maps.Keys(req.Buckets)) {
		if err := g.c.Limiter.Record(ctx, req.Buckets[scope], g.keep[scope], []quota.Event{{ID: req.ID, At: d.At}}); err != nil {
			return err
		}
	}
	return nil
}

// unhurried goes on when the client hangs up: otherwise hanging up early would pass an open Guard uncounted.
func unhurried(c echo.Context) context.Context { return context.WithoutCancel(c.Request().Context()) }

// pass lets the request through, or answers it.
func (g *Guard) pass(c echo.Context, next echo.HandlerFunc, d quota.Decision, ok bool, err error) error {
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
	quotahttp.SetRetryAfter(h, d)
	return g.c.Refuse(c, d)
}

func (g *Guard) request(c echo.Context) quota.Request {
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
