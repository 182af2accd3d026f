// Package attempts counts attempts to log in to the console, over all replicas. While the limiter is away each process counts alone:
// the console is needed most when something is down.
package attempts

import (
	"cmp"
	"context"
	"crypto/rand"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"sendcode/internal/policy"
	"sendcode/quota"
)

// Limiter counts attempts, over all replicas where it is theirs. Implementations: quota.Memory, quota.Redis.
type Limiter interface {
	Take(ctx context.Context, r quota.Request) (quota.Decision, error)
	Peek(ctx context.Context, r quota.Request) (quota.Decision, error)
}

// takeTimeout bounds the wait for a limiter that does not answer.
const takeTimeout = 2 * time.Second

// Counter decides whether one more attempt may be made. Safe for concurrent use.
type Counter struct {
	limiter Limiter
	spare   Limiter // counts while the limiter is away
	lines   lines
	logger  *slog.Logger
	now     func() time.Time
}

// New returns a counter that counts in the limiter, or in this process while the limiter does not answer.
func New(limiter Limiter, logger *slog.Logger, now func() time.Time) *Counter {
	return &Counter{limiter: limiter, spare: quota.NewMemory(now, "console"), logger: logger, now: now}
}

// everyone is the scope of the rule that counts the attempts of all unknown browsers together.
const everyone quota.Scope = "global"

// anAccount counts attempts at one account, whether or not there is one of the name.
const anAccount quota.Scope = "purpose"

// The rules of a login that answers and alarms tell apart from the others.
const (
	Overall = "all"     // counts all unknown browsers together
	Account = "account" // counts attempts at one account
)

var (
	// loginRules slow guessing from unknown browsers down to 960 attempts a day from one address, 2,880 from one /24 or /48, 4,800
	// at one account and 9,600 in all. Browsers that logged in before have knownRules instead, so an attack keeps none of them out.
	loginRules = []quota.Rule{
		{Name: Account, Scope: anAccount, Limit: 50, Window: 15 * time.Minute},
		{Name: "address", Scope: quota.IP, Limit: 10, Window: 15 * time.Minute},
		{Name: "network", Scope: quota.Network, Limit: 30, Window: 15 * time.Minute},
		{Name: Overall, Scope: everyone, Limit: 100, Window: 15 * time.Minute},
	}
	// knownRules count the attempts that carry one cookie of a known browser: a stolen cookie gives these guesses and no more.
	knownRules = []quota.Rule{
		{Name: "browser", Scope: anAccount, Limit: 10, Window: 15 * time.Minute},
		{Name: "browser_day", Scope: anAccount, Limit: 30, Window: 24 * time.Hour},
	}
	// codeRules leave a guess of three codes in a million fewer than one chance in ten thousand a day. Only a person with the
	// password can use them up.
	codeRules = []quota.Rule{
		{Name: "code", Scope: anAccount, Limit: 5, Window: 15 * time.Minute},
		{Name: "codes", Scope: anAccount, Limit: 30, Window: 24 * time.Hour},
	}
	// providerRules bound the questions that one network makes the console ask the provider. There is nothing to guess, so
	// logins by the provider have no rule over all, and are not counted with passwords.
	providerRules = []quota.Rule{
		{Name: "address", Scope: quota.IP, Limit: 10, Window: 15 * time.Minute},
		{Name: "network", Scope: quota.Network, Limit: 100, Window: 15 * time.Minute},
	}
	// tokenRules count wrong tokens. Once one is spent, right tokens of that network are refused as well: otherwise the rule would
	// bound no guess. There is no rule over all, with which a few addresses could keep every program out.
	tokenRules = []quota.Rule{
		{Name: "address", Scope: quota.IP, Limit: 10, Window: 15 * time.Minute},
		{Name: "network", Scope: quota.Network, Limit: 30, Window: 15 * time.Minute},
	}
)

// Login counts one attempt with a password, before the password is compared. browser is the cookie of a known browser, or "".
func (c *Counter) Login(ctx context.Context, account, browser string, address netip.Addr) (quota.Decision, error) {
	if browser != "" {
		return c.take(ctx, knownRules, map[quota.Scope]string{anAccount: bucket("login", "browser", account+"/"+browser)})
	}
	buckets := networkBuckets("login", address)
	buckets[everyone] = bucket("login", everyone, "")
	buckets[anAccount] = bucket("login", anAccount, account)
	return c.take(ctx, loginRules, buckets)
}

// Code counts one attempt at an account's second factor.
func (c *Counter) Code(ctx context.Context, account string) (quota.Decision, error) {
	return c.take(ctx, codeRules, map[quota.Scope]string{anAccount: bucket("code", anAccount, account)})
}

// Provider counts one request to an identity provider; via names its kind.
func (c *Counter) Provider(ctx context.Context, via string, address netip.Addr) (quota.Decision, error) {
	return c.take(ctx, providerRules, networkBuckets(via, address))
}

// FirstUse reports whether a value is used for the first time within life, on any replica.
func (c *Counter) FirstUse(ctx context.Context, value string, life time.Duration) (bool, error) {
	d, err := c.take(ctx, []quota.Rule{{Name: "once", Scope: anAccount, Limit: 1, Window: life}},
		map[quota.Scope]string{anAccount: bucket("provider", anAccount, value)})
	return d.Admitted, err
}

// Token reports whether a network may present a token; it counts nothing. WrongToken counts an unknown token.
func (c *Counter) Token(ctx context.Context, address netip.Addr) (quota.Decision, error) {
	return c.ask(ctx, Limiter.Peek, quota.Request{Rules: tokenRules, Buckets: networkBuckets("token", address)})
}

// WrongToken counts one unknown token of a network.
func (c *Counter) WrongToken(ctx context.Context, address netip.Addr) (quota.Decision, error) {
	return c.take(ctx, tokenRules, networkBuckets("token", address))
}

// Line counts an event. If due, the caller should log one line for n events; this is at most once a minute for each key. Keys are a
// few fixed words.
func (c *Counter) Line(key string) (n int, due bool) { return c.lines.add(key, c.now()) }

func bucket(what string, scope quota.Scope, value string) string {
	return quota.Bucket("console", what, string(scope), value)
}

func networkBuckets(what string, address netip.Addr) map[quota.Scope]string {
	return map[quota.Scope]string{
		quota.IP:      bucket(what, quota.IP, Network(address)),
		quota.Network: bucket(what, quota.Network, cmp.Or(policy.Network(address), "none")),
	}
}

func (c *Counter) take(ctx context.Context, rules []quota.Rule, buckets map[quota.Scope]string) (quota.Decision, error) {
	return c.ask(ctx, Limiter.Take, quota.Request{Rules: rules, Buckets: buckets})
}

// ask asks the limiter, or this process's own limiter if that fails.
func (c *Counter) ask(ctx context.Context, question func(Limiter, context.Context, quota.Request) (quota.Decision, error),
	r quota.Request) (quota.Decision, error) {
	r.ID = rand.Text()
	bounded, cancel := context.WithTimeout(ctx, takeTimeout)
	defer cancel()
	d, err := question(c.limiter, bounded, r)
	if err == nil {
		return d, nil
	}
	if n, due := c.Line("limiter"); due {
		c.logger.WarnContext(ctx, "login attempts are counted in this process alone", "error", err, "count", n)
	}
	return question(c.spare, ctx, r)
}

// Left returns how many attempts the strictest rule still admits.
func Left(d quota.Decision) int {
	n := 0
	for i, s := range d.Rules {
		if i == 0 || s.Remaining() < n {
			n = s.Remaining()
		}
	}
	return n
}

// Network returns the network that an address is logged and limited by: an IPv4 address or an IPv6 /64; "none" without an address.
func Network(address netip.Addr) string { return cmp.Or(policy.Client(address), "none") }

// lineInterval is the least time between two log lines about the same thing.
const lineInterval = time.Minute

// lines bounds the log lines that requests of strangers can cause. The zero value is ready; safe for concurrent use.
type lines struct {
	mu   sync.Mutex
	kept map[string]pending
}

type pending struct {
	last  time.Time
	count int // since last
}

// add counts an event. If due, a line should be logged now, for count events.
func (l *lines) add(key string, now time.Time) (count int, due bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.kept == nil {
		l.kept = map[string]pending{}
	}
	p := l.kept[key]
	p.count++
	if since := now.Sub(p.last); !p.last.IsZero() && since >= 0 && since < lineInterval {
		l.kept[key] = p
		return p.count, false
	}
	l.kept[key] = pending{last: now}
	return p.count, true
}
