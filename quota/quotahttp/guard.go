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

// Limiter decides and counts for a Guard. Implementations: quota.Memory, quota.Redis.
type Limiter interface {
	Take(ctx context.Context, req quota.Request) (quota.Decision, error)
	Peek(ctx context.Context, req quota.Request) (quota.Decision, error)
	Record(ctx context.Context, bucket string, keep time.Duration, events []quota.AgedEvent) error
}

// Namer returns the name under which a request is counted. Requests with the same name are counted
// together, even if the name is empty.
type Namer func(*http.Request) string

// Config has the settings of a Guard. Limiter and Policy are required.
type Config struct {
	Limiter Limiter
	// Policy has the rules. Guards whose policies have the same name share buckets, since every
	// bucket contains that name.
	Policy quota.Policy

	// Resource names the requested resource; by default the pattern of the route, such as
	// "GET /prices/{id}". Each resource is counted separately, except by rules of the scope Global.
	Resource Namer

	// Address returns the client's IP address; by default Peer. Behind proxies set Forwarded, or a
	// function that reads your proxy's header.
	Address Namer

	// Subjects has, for each scope of the policy, a Namer of the client. By default, the name for
	// IP is an IPv4 address or the /64 of an IPv6 address, because one client usually has a whole
	// /64. By default, the name for Network is the client's /24 or /48. Purpose and Global name no
	// client. Purpose counts all clients of a resource together. Global counts all clients of all
	// resources together.
	Subjects map[quota.Scope]Namer

	// Skip selects requests that pass without a decision and are not counted, such as probes and
	// preflights.
	Skip func(*http.Request) bool

	// Open lets requests pass while the limiter is unavailable. By default they get 503.
	Open bool

	// ProblemType is the type of the problem document of a 429, by default
	// "/problems/quota-exceeded".
	ProblemType string

	// Refuse replaces the default 429 response. The headers are already set when Refuse is called.
	// Unavailable replaces the default 503 response. Unavailable should not show err to the client,
	// because err may contain the limiter's address.
	Refuse      func(w http.ResponseWriter, r *http.Request, d quota.Decision)
	Unavailable func(w http.ResponseWriter, r *http.Request, err error)
}

// Guard applies a quota to routes of a net/http server. The methods of a Guard are middleware: Take
// decides and counts, Peek only decides, and Record only counts. Each method wraps the handler of
// one route. A method can also wrap a whole router if Config.Resource is set. Without it, all
// requests to the router are one resource, because the router has not yet found the pattern of the
// route.
//
// Every response after a decision of Take or Peek has the headers RateLimit-Policy and RateLimit. A
// refused request never reaches the handler. It gets 429 with Retry-After and a body of
// application/problem+json. Take and Record count a request whatever the handler answers. If a rule
// of one scope refuses a request, no rule of another scope counts the request. If two Guards wrap
// one route, the response has only the headers of the inner Guard, so use one Guard with the rules
// of both. Safe for concurrent use.
type Guard struct {
	c    Config
	keep map[quota.Scope]time.Duration // for how long each scope's rules need an event
}

// New makes a Guard. If the settings are invalid, it returns an error that names every problem.
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
			problems = append(problems, fmt.Errorf("no bucket for scope %s (rule %q)", r.Scope, r.Name))
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

// Take counts the request, or refuses it if a rule's limit is reached; a refused request is not
// counted.
func (g *Guard) Take(next http.Handler) http.Handler {
	return g.decide(next, g.c.Limiter.Take, func(d quota.Decision) bool { return d.Admitted })
}

// Peek refuses the request if a rule's limit is reached, and counts nothing. It is for routes where
// only some requests count, such as failed logins: the handler of such a route calls Count.
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

// Record counts the request and never refuses it by a rule, so a rule may count more than its
// limit. It sets no RateLimit headers. While the limiter is unavailable, Record answers 503, or
// lets the request pass if Config.Open is set.
func (g *Guard) Record(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var err error
		if !g.c.Skip(r) {
			err = g.Count(r)
		}
		g.pass(w, r, next, err)
	})
}

// pass calls next if there is no error, or if the limiter is unavailable and Config.Open is set.
// Otherwise it calls Config.Unavailable.
func (g *Guard) pass(w http.ResponseWriter, r *http.Request, next http.Handler, err error) {
	if err == nil || g.c.Open && errors.Is(err, quota.ErrUnavailable) {
		next.ServeHTTP(w, r)
		return
	}
	g.c.Unavailable(w, r, err)
}

// Count counts one event in every bucket of the request, even above a limit. Each call counts once
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

// uncanceled returns the request's context without its cancellation. Otherwise a client could hang
// up early and pass an open Guard without being counted.
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
