// Package vendors asks the vendor of an app's human check about one token. The vendor is Turnstile,
// hCaptcha, reCAPTCHA v2, or a service of the operator, which is configured by its URL.
//
// Strangers send the tokens, so a token must not put a vendor out of use. An answer that a token
// can cause only rejects the token. Only these are faults of the vendor or of the settings: no
// connection, no answer in time, a status of 5xx, an error that names the secret, and a failed
// [Verifier.Probe]. If an answer may come from the token or from such a fault, Probe asks about a
// test token.
package vendors

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"sendcode/internal/base/loopback"
	"sendcode/internal/deliver/delivery"
	"sendcode/internal/deliver/providerhttp"
	"sendcode/internal/verify/humancheck"
	"sendcode/quota"
)

const (
	maxAtOnce      = 32              // requests of a process that are under way to all vendors
	asksPerNetwork = 30              // requests for one network in an hour, over all apps
	timeout        = 3 * time.Second // of one request
	action         = "sendcode"      // what a token must have been made for, if the vendor tells that
	// retryAfter is the pause before the next probe, after a failed probe or an answer that needs
	// one.
	retryAfter = delivery.BreakerOpenFor + time.Second
)

// Config is the vendor of one app.
type Config struct {
	By      string
	SiteKey string // public
	Secret  string
	URL     string // empty: the vendor's own
	// Hostnames are the hosts of pages that may show the check: configured by the operator
	// (OwnHostnames), or those of the app's origins.
	Hostnames    []string
	OwnHostnames bool
	SendIP       bool // the client's address is given to the vendor
	AsksPerHour  int  // requests to the vendor for the app in an hour
}

func (c Config) Check() map[string]error {
	d, known := dialects[c.By]
	if !known {
		return map[string]error{"by": errors.New("must be one of " + strings.Join(slices.Sorted(maps.Keys(dialects)), ", "))}
	}
	wrong := map[string]error{}
	for key, problem := range map[string]struct {
		found bool
		text  string
	}{
		"secret":        {c.Secret == "", missing},
		"site_key":      {c.SiteKey == "" && d.url != "", missing},
		"url":           {loopback.URLProblem(c.endpoint()) != "", loopback.URLProblem(c.endpoint())},
		"hostnames":     {d.url != "" && !d.bindsHost && len(c.Hostnames) == 0, missing},
		"asks_per_hour": {c.AsksPerHour < 1, "must be at least 1"},
	} {
		if problem.found {
			wrong[key] = errors.New(problem.text)
		}
	}
	return wrong
}

func (c Config) endpoint() string { return cmp.Or(c.URL, dialects[c.By].url) }

// limiter counts events. Implementation: *gates.Gates.
type limiter interface {
	TakeOrLocal(ctx context.Context, r quota.Request) (quota.Decision, error)
}

// Bounds limit the requests to all vendors of a process.
type Bounds struct {
	limiter limiter
	slots   chan struct{}
}

// NewBounds returns bounds whose requests for networks and apps l counts.
func NewBounds(l limiter) *Bounds { return &Bounds{l, make(chan struct{}, maxAtOnce)} }

// takeAsk counts a request for a token of the app. It returns false if there were too many for the
// app or for the client's network. Without a client address, the network is "", and only the app's
// limit applies: a limit for the unknown network would count the requests of all apps together.
func (b *Bounds) takeAsk(ctx context.Context, app, network string, perApp int) bool {
	r := quota.Request{
		ID: rand.Text(), Tenant: app,
		Rules:   []quota.Rule{{Name: "human_check_app", Scope: quota.App, Limit: perApp, Window: time.Hour}},
		Buckets: map[quota.Scope]string{quota.App: quota.Bucket(app, "", "human_check", string(quota.App))},
	}
	if network != "" {
		r.Rules = append(r.Rules, quota.Rule{Name: "human_check_network", Scope: quota.Network, Limit: asksPerNetwork, Window: time.Hour})
		r.Buckets[quota.Network] = quota.Bucket("", "", "human_check", string(quota.Network), network)
	}
	d, err := b.limiter.TakeOrLocal(ctx, r)
	return err == nil && d.Admitted
}

// Verifier asks the vendor of one app. Safe for concurrent use.
type Verifier struct {
	Config
	dialect
	http    providerhttp.Client
	bounds  *Bounds
	breaker *delivery.Breaker
	suspect chan struct{} // has an element if an answer needs a probe
}

var _ humancheck.Vendor = (*Verifier)(nil)

// New opens no connection. changed is called when the vendor goes out of use and when it comes
// back.
func New(c Config, app string, b *Bounds, changed func(delivery.Health)) (*Verifier, error) {
	for key, problem := range c.Check() {
		return nil, fmt.Errorf("human_check.%s %w", key, problem)
	}
	c.URL = c.endpoint()
	v := &Verifier{
		Config: c, dialect: dialects[c.By], http: providerhttp.Client{Timeout: timeout}, bounds: b,
		breaker: delivery.NewBreaker(app+"/"+c.By, false), suspect: make(chan struct{}, 1),
	}
	v.breaker.OnHealthChange(changed)
	return v, nil
}

func (v *Verifier) By() string { return v.Config.By }

func (v *Verifier) SiteKey() string { return v.Config.SiteKey }

// Available is false once the vendor is out of use, until a probe succeeds.
func (v *Verifier) Available() bool { return v.breaker.Health().Up }

// Health has <app>/<vendor> as its Server.
func (v *Verifier) Health() delivery.Health { return v.breaker.Health() }

// Check returns the error of a context that ended, and no other.
func (v *Verifier) Check(ctx context.Context, q humancheck.VendorQuery) (humancheck.Result, error) {
	// A token is remembered as spent by its bytes. If it had a second form, it would pass twice.
	if q.Token == "" || strings.ContainsFunc(q.Token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return rejected.result, nil
	}
	select {
	case v.bounds.slots <- struct{}{}:
		defer func() { <-v.bounds.slots }()
	default:
		return away, nil
	}
	if !v.Available() || !v.bounds.takeAsk(ctx, q.App, q.Network, v.AsksPerHour) {
		return away, nil
	}
	report, ok := v.breaker.Allow()
	if !ok {
		return away, nil
	}
	a := v.ask(ctx, q)
	switch {
	case ctx.Err() != nil:
		report(delivery.ErrHealthUnknown)
		return away, ctx.Err()
	case a.suspicion == nil, a.certain:
		report(a.suspicion)
	default:
		report(delivery.ErrHealthUnknown)
	}
	if a.suspicion != nil {
		select {
		case v.suspect <- struct{}{}:
		default:
		}
	}
	return a.result, nil
}

func (v *Verifier) ask(ctx context.Context, q humancheck.VendorQuery) answer {
	if !v.SendIP {
		q.ClientIP = ""
	}
	request := formRequest
	if v.Config.By == "http" {
		request = ownRequest
	}
	r, fail := v.http.Do(ctx, request(v.Config, q))
	if fail != nil {
		return unanswered(fail)
	}
	return v.judge(v.Config, r)
}

// Probe asks the vendor about a test token, which counts toward no limit. It returns a sentence
// about the vendor, without secrets. The error names the fault of the vendor or of the settings.
func (v *Verifier) Probe(ctx context.Context) (string, error) {
	a := v.ask(ctx, humancheck.VendorQuery{Token: cmp.Or(v.testToken, "sendcode-probe")})
	if a.suspicion != nil {
		return "", fmt.Errorf("%s: %w", providerhttp.Host(v.URL), a.suspicion)
	}
	if a.result.Passed {
		return providerhttp.Host(v.URL) + " lets a test token pass: these are keys for tests, which keep nobody out", nil
	}
	return providerhttp.Host(v.URL) + " answers, and takes the secret", nil
}

// Watch probes the vendor at once, and again retryAfter after a failed probe or after an answer
// that a wrong setting or a fault may have caused. It returns when ctx ends.
func (v *Verifier) Watch(ctx context.Context) {
	for ctx.Err() == nil {
		if v.probe(ctx) {
			select {
			case <-v.suspect:
			case <-ctx.Done():
			}
		}
		select {
		case <-time.After(retryAfter):
		case <-ctx.Done():
		}
	}
}

// probe reports the result of a Probe to the breaker, and returns whether the Probe succeeded.
func (v *Verifier) probe(ctx context.Context) bool {
	report, ok := v.breaker.Allow()
	if !ok {
		return false
	}
	_, err := v.Probe(ctx)
	if ctx.Err() != nil {
		err = delivery.ErrHealthUnknown
	}
	report(err)
	return err == nil
}
