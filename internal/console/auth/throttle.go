package auth

import (
	"context"
	"crypto/rand"
	"net/netip"
	"sync"
	"time"

	"sendcode/quota"
)

// lineInterval is the least time between two log lines about the same thing.
const lineInterval = time.Minute

// lines bounds the log lines that requests of strangers can cause. The keys are a few fixed words. The zero value is ready; safe
// for concurrent use.
type lines struct {
	mu   sync.Mutex
	kept map[string]pending
}

type pending struct {
	last  time.Time
	count int // since last
}

// add counts an event. due: a line should be written now, for count events.
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

// everyone is the scope of the rule that counts the attempts of all unknown browsers together.
const everyone quota.Scope = "global"

// anAccount counts attempts at one account, whether or not there is one of the name.
const anAccount quota.Scope = "purpose"

// overall names the rule of everyone, which alarms.
const overall = "all"

// loginRules slow guessing from unknown browsers down to 960 attempts a day from one address, 2,880 from one /24 or /48, 4,800 at
// one account and 9,600 in all. Browsers that logged in before have knownRules instead, so an attack keeps none of them out.
var loginRules = []quota.Rule{
	{Name: "account", Scope: anAccount, Limit: 50, Window: 15 * time.Minute},
	{Name: "address", Scope: quota.IP, Limit: 10, Window: 15 * time.Minute},
	{Name: "network", Scope: quota.Network, Limit: 30, Window: 15 * time.Minute},
	{Name: overall, Scope: everyone, Limit: 100, Window: 15 * time.Minute},
}

// knownRules count the attempts that carry one cookie of a known browser: a stolen cookie gives these guesses and no more.
var knownRules = []quota.Rule{
	{Name: "browser", Scope: anAccount, Limit: 10, Window: 15 * time.Minute},
	{Name: "browser_day", Scope: anAccount, Limit: 30, Window: 24 * time.Hour},
}

// providerRules bound the questions that one network makes the console ask the provider. There is nothing to guess, so
// logins by the provider have no rule over all, and are not counted with passwords.
var providerRules = []quota.Rule{
	{Name: "address", Scope: quota.IP, Limit: 10, Window: 15 * time.Minute},
	{Name: "network", Scope: quota.Network, Limit: 100, Window: 15 * time.Minute},
}

// countTimeout bounds the wait for a limiter that does not answer.
const countTimeout = 2 * time.Second

// countLogin takes a place for one attempt, the right password's too: whether it is right is not known yet. While the
// limiter is away this process counts alone: the console is needed most when something is down.
func (a *Auth) countLogin(ctx context.Context, name, browser string, address netip.Addr) (quota.Decision, error) {
	if browser != "" {
		return a.count(ctx, knownRules, map[quota.Scope]string{anAccount: quota.Bucket("console", "login", "browser", name+"/"+browser)})
	}
	buckets := networkBuckets("login", address)
	buckets[everyone] = quota.Bucket("console", "login", string(everyone), "")
	buckets[anAccount] = quota.Bucket("console", "login", string(anAccount), name)
	return a.count(ctx, loginRules, buckets)
}

func networkBuckets(what string, address netip.Addr) map[quota.Scope]string {
	return map[quota.Scope]string{
		quota.IP:      quota.Bucket("console", what, string(quota.IP), network(address)),
		quota.Network: quota.Bucket("console", what, string(quota.Network), wideNetwork(address)),
	}
}

func (a *Auth) count(ctx context.Context, rules []quota.Rule, buckets map[quota.Scope]string) (quota.Decision, error) {
	return a.ask(ctx, Limiter.Take, quota.Request{Rules: rules, Buckets: buckets})
}

// ask puts a question to the limiter, and to this process's own where that does not answer.
func (a *Auth) ask(ctx context.Context, question func(Limiter, context.Context, quota.Request) (quota.Decision, error),
	r quota.Request) (quota.Decision, error) {
	id := make([]byte, 16)
	rand.Read(id) // never fails: the program stops when the system has no randomness
	r.ID = string(id)
	bounded, cancel := context.WithTimeout(ctx, countTimeout)
	defer cancel()
	d, err := question(a.limiter, bounded, r)
	if err == nil {
		return d, nil
	}
	if n, due := a.lines.add("limiter", a.now()); due {
		a.logger.WarnContext(ctx, "login attempts are counted in this process alone", "error", err, "count", n)
	}
	return question(a.spare, ctx, r)
}

// left is how many attempts the strictest rule still lets in.
func left(d quota.Decision) int {
	n := 0
	for i, s := range d.Rules {
		if i == 0 || s.Remaining() < n {
			n = s.Remaining()
		}
	}
	return n
}

func seconds(d time.Duration) int { return quota.Seconds(d) }
