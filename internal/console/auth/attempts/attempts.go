// Package attempts counts attempts to log in to the console, over all replicas. While the limiter is away each process counts alone:
// the console is needed most when something is down.
package attempts

import (
	"context"
	"crypto/rand"
	"log/slog"
	"net/netip"
	"time"

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

// New makes one that counts in the limiter.
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

// Login takes a place for one attempt with a password, the right one's too: whether it is right is not known yet. browser is what the
// cookie of a known browser holds, or empty.
func (c *Counter) Login(ctx context.Context, account, browser string, address netip.Addr) (quota.Decision, error) {
	if browser != "" {
		return c.take(ctx, knownRules, map[quota.Scope]string{anAccount: bucket("login", "browser", account+"/"+browser)})
	}
	buckets := networkBuckets("login", address)
	buckets[everyone] = bucket("login", everyone, "")
	buckets[anAccount] = bucket("login", anAccount, account)
	return c.take(ctx, loginRules, buckets)
}

// Code takes a place for one attempt at an account's second factor.
func (c *Counter) Code(ctx context.Context, account string) (quota.Decision, error) {
	return c.take(ctx, codeRules, map[quota.Scope]string{anAccount: bucket("code", anAccount, account)})
}

// Provider takes a place for one question to a provider of identities; via names its kind.
func (c *Counter) Provider(ctx context.Context, via string, address netip.Addr) (quota.Decision, error) {
	return c.take(ctx, providerRules, networkBuckets(via, address))
}

// FirstUse says whether a value comes for the first time within life, on whatever replica.
func (c *Counter) FirstUse(ctx context.Context, value string, life time.Duration) (bool, error) {
	d, err := c.take(ctx, []quota.Rule{{Name: "once", Scope: anAccount, Limit: 1, Window: life}},
		map[quota.Scope]string{anAccount: bucket("provider", anAccount, value)})
	return d.Admitted, err
}

// Token looks whether a network may present a token; WrongToken counts one that was not known.
func (c *Counter) Token(ctx context.Context, address netip.Addr) (quota.Decision, error) {
	return c.ask(ctx, Limiter.Peek, quota.Request{Rules: tokenRules, Buckets: networkBuckets("token", address)})
}

// WrongToken takes a place for a token that was not known.
func (c *Counter) WrongToken(ctx context.Context, address netip.Addr) (quota.Decision, error) {
	return c.take(ctx, tokenRules, networkBuckets("token", address))
}

// Line counts an event for the log. due: a line should be written now, for n events; there is one a minute for each key at most. The
// keys are a few fixed words.
func (c *Counter) Line(key string) (n int, due bool) { return c.lines.add(key, c.now()) }

func bucket(what string, scope quota.Scope, value string) string {
	return quota.Bucket("console", what, string(scope), value)
}

func networkBuckets(what string, address netip.Addr) map[quota.Scope]string {
	return map[quota.Scope]string{
		quota.IP:      bucket(what, quota.IP, Network(address)),
		quota.Network: bucket(what, quota.Network, prefixOf(address, 24, 48)),
	}
}

func (c *Counter) take(ctx context.Context, rules []quota.Rule, buckets map[quota.Scope]string) (quota.Decision, error) {
	return c.ask(ctx, Limiter.Take, quota.Request{Rules: rules, Buckets: buckets})
}

// ask puts a question to the limiter, and to this process's own where that does not answer.
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

// Left is how many attempts the strictest rule still lets in.
func Left(d quota.Decision) int {
	n := 0
	for i, s := range d.Rules {
		if i == 0 || s.Remaining() < n {
			n = s.Remaining()
		}
	}
	return n
}

// Network is what logs and limits call an address: a person's IPv6 addresses are a whole /64 (QUOTA-19).
func Network(address netip.Addr) string { return prefixOf(address, 32, 64) }

func prefixOf(address netip.Addr, bits4, bits6 int) string {
	bits := bits6
	if address.Is4() {
		bits = bits4
	}
	p, err := address.Prefix(bits)
	if err != nil || !p.IsValid() {
		return "none"
	}
	return p.String()
}
