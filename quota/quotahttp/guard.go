package quotahttp

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"sendcode/quota"
)

// Limiter is implemented by quota.Memory and quota.Redis.
type Limiter interface {
	Take(ctx context.Context, req quota.Request) (quota.Decision, error)
	Peek(ctx context.Context, req quota.Request) (quota.Decision, error)
	Record(ctx context.Context, bucket string, keep time.Duration, events []quota.AgedEvent) error
}

// Namer returns the name under which a request is counted. Requests with the same name, even an
// empty one, are counted together.
type Namer func(*http.Request) string

// Config is the settings of a Guard. Limiter and Policy are required.
type Config struct {
	Limiter Limiter
	// Guards whose policies have the same name share buckets.
	Policy quota.Policy

	// Resource names the requested resource; by default it is the route's pattern, such as "GET
	// /prices/{id}". Each resource is counted separately, except by rules of the scope Global.
	Resource Namer

	// Address returns the client's IP address; by default Peer. Behind proxies set Forwarded, or
	// read your proxy's header.
	Address Namer

	// Subjects names the client, for each scope of the policy. By default, IP is an IPv4 address or
	// an IPv6 /64, which one client usually has to itself, and Network the /24 or /48. Purpose and
	// Global name no client: they count all clients of a resource, and of all resources, together.
	Subjects map[quota.Scope]Namer

	// Skip lets requests pass without a decision and uncounted, such as probes and preflights.
	Skip func(*http.Request) bool

	// Open lets requests pass while the limiter is unavailable. By default they get 503.
	Open bool

	// ProblemType is the type of a 429's problem document, by default "/problems/quota-exceeded".
	ProblemType string

	// Refuse and Unavailable replace the answers 429 and 503. The headers of a 429 are set already.
	// Don't show err to the client, because it may contain the limiter's address.
	Refuse      func(w http.ResponseWriter, r *http.Request, d quota.Decision)
	Unavailable func(w http.ResponseWriter, r *http.Request, err error)
}

// Guard is middleware that applies a quota to a route: Take decides and counts, Peek only decides,
// Record only counts. It can wrap a whole router if Config.Resource is set; otherwise all requests
// to that router are one resource, because the route's pattern isn't known yet.
//
// After a decision, every response has RateLimit-Policy and RateLimit, unless no rule is public. A
// refused request never reaches the handler: it gets 429 with Retry-After and
// application/problem+json, and counts for no rule. What Take and Record let through counts,
// whatever the handler answers. If two Guards wrap a route, only the inner one's headers are left,
// so use one Guard with the rules of both. Safe for concurrent use.
type Guard struct {
	c    Config
	keep map[quota.Scope]time.Duration // for how long each scope's rules need an event
}

// New makes a Guard. The error lists all mistakes in the settings.
func New(c Config) (*Guard, error) {
	c.setDefaults()
	keep := map[quota.Scope]time.Duration{}
	var problems []error
	if c.Limiter == nil {
		problems = append(problems, errors.New("there is no limiter"))
	}
	problems = append(problems, c.Policy.Validate())
	for _, r := range c.Policy.Rules {
		keep[r.Scope] = max(keep[r.Scope], r.Keep())
		if c.Subjects[r.Scope] == nil {
			problems = append(problems, fmt.Errorf("there is no bucket for scope %s (rule %q)", r.Scope, r.Name))
		}
	}
	if err := errors.Join(problems...); err != nil {
		return nil, fmt.Errorf("quotahttp: %w", err)
	}
	return &Guard{c: c, keep: keep}, nil
}

func (c *Config) setDefaults() {
	if c.Resource == nil {
		c.Resource = func(r *http.Request) string { return r.Pattern }
	}
	if c.Address == nil {
		c.Address = Peer
	}
	subjects := map[quota.Scope]Namer{
		quota.IP:      func(r *http.Request) string { return network(c.Address(r), 32, 64) },
		quota.Network: func(r *http.Request) string { return network(c.Address(r), 24, 48) },
		quota.Purpose: oneNameForAll, quota.Global: oneNameForAll,
	}
	maps.Copy(subjects, c.Subjects)
	c.Subjects = subjects
	if c.Skip == nil {
		c.Skip = func(*http.Request) bool { return false }
	}
	c.ProblemType = cmp.Or(c.ProblemType, "/problems/"+ProblemSlug)
	if c.Refuse == nil {
		c.Refuse = c.refuse
	}
	if c.Unavailable == nil {
		c.Unavailable = answerUnavailable
	}
}

func oneNameForAll(*http.Request) string { return "" }

// Take counts the request, or refuses it.
func (g *Guard) Take(next http.Handler) http.Handler {
	return g.decide(next, g.c.Limiter.Take, func(d quota.Decision) bool { return d.Admitted })
}

// Peek refuses without counting. It is for routes where only some requests count, such as failed
// logins: their handler calls Count.
func (g *Guard) Peek(next http.Handler) http.Handler {
	return g.decide(next, g.c.Limiter.Peek, quota.Decision.Allowed)
}

func (g *Guard) decide(next http.Handler, ask func(context.Context, quota.Request) (quota.Decision, error),
	admits func(quota.Decision) bool,
) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if g.c.Skip(r) {
			next.ServeHTTP(w, r)
			return
		}
		d, err := ask(uncanceled(r), g.quotaRequest(r))
		if err == nil {
			err = SetRateLimit(w.Header(), d)
		}
		switch {
		case err != nil:
			g.pass(w, r, next, err)
		case admits(d):
			next.ServeHTTP(w, r)
		default:
			SetRetryAfter(w.Header(), d.RetryAfter())
			g.c.Refuse(w, r, d)
		}
	})
}

// Record counts the request even above a limit, and sets no RateLimit headers. While the limiter is
// unavailable it answers 503, or lets the request pass if Config.Open is set.
func (g *Guard) Record(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var err error
		if !g.c.Skip(r) {
			err = g.Count(r)
		}
		g.pass(w, r, next, err)
	})
}

func (g *Guard) pass(w http.ResponseWriter, r *http.Request, next http.Handler, err error) {
	if err == nil || g.c.Open && errors.Is(err, quota.ErrUnavailable) {
		next.ServeHTTP(w, r)
		return
	}
	g.c.Unavailable(w, r, err)
}

// Count counts one event in every bucket of the request, even above a limit. Each call counts one
// more. Errors: quota.ErrUnavailable.
func (g *Guard) Count(r *http.Request) error {
	ctx, req := uncanceled(r), g.quotaRequest(r)
	for _, scope := range slices.Sorted(maps.Keys(req.Buckets)) {
		if err := g.c.Limiter.Record(ctx, req.Buckets[scope], g.keep[scope],
			[]quota.AgedEvent{{ID: req.ID}}); err != nil {
			return err
		}
	}
	return nil
}

// uncanceled keeps a client that hangs up early from passing an open Guard uncounted.
func uncanceled(r *http.Request) context.Context { return context.WithoutCancel(r.Context()) }

func (g *Guard) quotaRequest(r *http.Request) quota.Request {
	resource, buckets := g.c.Resource(r), map[quota.Scope]string{}
	for scope := range g.keep {
		of := resource
		if scope == quota.Global {
			of = ""
		}
		buckets[scope] = quota.Bucket("http", g.c.Policy.Name, string(scope), of, g.c.Subjects[scope](r))
	}
	var id [16]byte
	rand.Read(id[:])
	return quota.Request{ID: string(id[:]), Rules: g.c.Policy.Rules, Buckets: buckets}
}
