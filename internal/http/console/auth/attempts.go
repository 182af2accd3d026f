package auth

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/labstack/echo/v4"

	"sendcode/internal/http/server"
	"sendcode/internal/limit/buckets"
	"sendcode/quota"
)

// limiter counts attempts to log in, for all replicas together. While Redis is down, it counts the
// attempts in this process only, because people must be able to log in to the console during an
// outage. gates.WriteThrough implements limiter.
type limiter interface {
	TakeOrLocal(ctx context.Context, r quota.Request) (quota.Decision, error)
	Refund(ctx context.Context, id string, buckets ...string) error
}

// attemptLimiter counts attempts with passwords, second-factor codes, the identity provider and
// tokens. It decides whether one more attempt is allowed.
type attemptLimiter struct{ limiter limiter }

// accountScope is the scope of rules that count the attempts at one account name, even if no
// account has the name.
const accountScope quota.Scope = "account"

// These are the names of the rules that count unknown browsers' attempts at one account. If one of
// these rules refuses a login, the account is probably under attack. For them the page has another
// text, and the log line is an error instead of a warning.
const (
	accountRuleName    = "account"
	accountDayRuleName = "account_day"
)

var (
	// loginRules apply to browsers that have not logged in before. In a day, they allow 50 attempts
	// from one address, 100 from one network (a /24 or /48) and 2,000 for one account. Even an
	// attacker with twelve networks cannot reach the limits of an account, so the right password
	// still logs in from a new browser.
	//
	// No rule counts the attempts for all accounts together, because a few addresses could reach
	// the limit of such a rule. Browsers that logged in before have knownBrowserRules instead, so
	// no attack keeps these browsers out.
	loginRules = []quota.Rule{
		{Name: accountRuleName, Scope: accountScope, Limit: 400, Window: 15 * time.Minute},
		{Name: accountDayRuleName, Scope: accountScope, Limit: 2000, Window: 24 * time.Hour},
		{Name: "address", Scope: quota.IP, Limit: 10, Window: 15 * time.Minute},
		{Name: "address_day", Scope: quota.IP, Limit: 50, Window: 24 * time.Hour},
		{Name: "network", Scope: quota.Network, Limit: 30, Window: 15 * time.Minute},
		{Name: "network_day", Scope: quota.Network, Limit: 100, Window: 24 * time.Hour},
	}
	// knownBrowserRules count the attempts with one cookie of a known browser, so that a thief of
	// the cookie gets at most 30 guesses a day.
	knownBrowserRules = []quota.Rule{
		{Name: "browser", Scope: accountScope, Limit: 10, Window: 15 * time.Minute},
		{Name: "browser_day", Scope: accountScope, Limit: 30, Window: 24 * time.Hour},
	}
	// secondFactorRules limit the chance of guessing a code to about one in ten thousand a day. At
	// any time, three of a million codes are right. An attacker without the password cannot use up
	// these limits.
	secondFactorRules = []quota.Rule{
		{Name: "code", Scope: accountScope, Limit: 5, Window: 15 * time.Minute},
		{Name: "codes", Scope: accountScope, Limit: 30, Window: 24 * time.Hour},
	}
	// providerLoginRules limit how often the console calls the identity provider for one address or
	// network. No rule counts all networks together, because a login through the provider has no
	// secret that could be guessed. Attempts with a password are counted separately.
	providerLoginRules = []quota.Rule{
		{Name: "address", Scope: quota.IP, Limit: 10, Window: 15 * time.Minute},
		{Name: "network", Scope: quota.Network, Limit: 100, Window: 15 * time.Minute},
	}
	// wrongTokenRules count wrong tokens. Once a rule is used up, wrong tokens get 429; right
	// tokens always pass.
	wrongTokenRules = []quota.Rule{
		{Name: "address", Scope: quota.IP, Limit: 10, Window: 15 * time.Minute},
		{Name: "network", Scope: quota.Network, Limit: 30, Window: 15 * time.Minute},
	}
)

// attempt is a counted attempt to log in, with the data that refund needs to refund it.
type attempt struct {
	quota.Decision
	id      string
	buckets map[quota.Scope]string
}

// takeLogin counts one attempt with a password, before the password is compared. browser is the
// ID of a known browser (knownBrowserID), or "".
func (a attemptLimiter) takeLogin(ctx context.Context, account, browser string, address netip.Addr) (attempt, error) {
	if browser != "" {
		return a.takeAttempt(ctx, knownBrowserRules, accountBucket("login", "browser", account+"/"+browser))
	}
	buckets := networkBuckets("login", address)
	buckets[accountScope] = consoleBucket("login", accountScope, account)
	return a.takeAttempt(ctx, loginRules, buckets)
}

// refund refunds an attempt whose password was right. If the limiter fails, the attempt stays
// counted.
func (a attemptLimiter) refund(ctx context.Context, t attempt) {
	_ = a.limiter.Refund(context.WithoutCancel(ctx), t.id, slices.Collect(maps.Values(t.buckets))...)
}

// useOnce marks a secret value as used on all replicas until life has passed. It returns true if
// the value was not yet marked.
func (a attemptLimiter) useOnce(ctx context.Context, value string, life time.Duration) (first bool, err error) {
	once, sum := []quota.Rule{{Name: "once", Scope: accountScope, Limit: 1, Window: life}}, sha256.Sum256([]byte(value))
	d, err := a.take(ctx, once, accountBucket("provider", accountScope, hex.EncodeToString(sum[:])))
	return d.Admitted, err
}

func (a attemptLimiter) take(ctx context.Context, rules []quota.Rule,
	buckets map[quota.Scope]string,
) (quota.Decision, error) {
	t, err := a.takeAttempt(ctx, rules, buckets)
	return t.Decision, err
}

func (a attemptLimiter) takeAttempt(ctx context.Context, rules []quota.Rule,
	buckets map[quota.Scope]string,
) (t attempt, err error) {
	t.id, t.buckets = rand.Text(), buckets
	t.Decision, err = a.limiter.TakeOrLocal(ctx, quota.Request{ID: t.id, Rules: rules, Buckets: buckets})
	return t, err
}

func consoleBucket(what string, scope quota.Scope, value string) string {
	return quota.Bucket("console", what, string(scope), value)
}

func accountBucket(what string, scope quota.Scope, value string) map[quota.Scope]string {
	return map[quota.Scope]string{accountScope: consoleBucket(what, scope, value)}
}

func networkBuckets(what string, address netip.Addr) map[quota.Scope]string {
	return map[quota.Scope]string{
		quota.IP:      consoleBucket(what, quota.IP, cmp.Or(buckets.ClientPrefix(address), "none")),
		quota.Network: consoleBucket(what, quota.Network, cmp.Or(buckets.WideNetworkPrefix(address), "none")),
	}
}

// attemptsLeft returns how many attempts the strictest rule still admits.
func attemptsLeft(d quota.Decision) int {
	strictest := slices.MinFunc(d.Rules, func(a, b quota.State) int { return a.Remaining() - b.Remaining() })
	return strictest.Remaining()
}

// clientNetwork returns the text that the log shows for a client's network: an IPv4 address or an
// IPv6 /64. If the client has no address, the text is "none".
func clientNetwork(c echo.Context) string {
	return cmp.Or(buckets.ClientPrefix(server.ClientIP(c)), "none")
}
