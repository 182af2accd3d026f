package auth

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"net/netip"
	"slices"
	"time"

	"github.com/labstack/echo/v4"

	"sendcode/internal/policy"
	"sendcode/internal/server"
	"sendcode/quota"
)

// Limiter counts attempts to log in, over all replicas or, while that is not possible, in this process: the console is needed most when
// something is down. Implementation: gates.Gate.
type Limiter interface {
	TakeOrLocal(ctx context.Context, r quota.Request) (d quota.Decision, alone bool, err error)
	PeekOrLocal(ctx context.Context, r quota.Request) (d quota.Decision, alone bool, err error)
}

// attempts decides whether one more attempt may be made.
type attempts struct{ limiter Limiter }

// everyone is the scope of the rule that counts the attempts of all unknown browsers together.
const everyone quota.Scope = "global"

// anAccount counts attempts at one account, whether or not there is one of the name.
const anAccount quota.Scope = "purpose"

// The rules of a login that answers and alarms tell apart from the others.
const (
	ruleOverall = "all"     // counts all unknown browsers together
	ruleAccount = "account" // counts attempts at one account
)

var (
	// loginRules slow guessing from unknown browsers down to 960 attempts a day from one address, 2,880 from one /24 or /48, 4,800
	// at one account and 9,600 in all. Browsers that logged in before have knownRules instead, so an attack keeps none of them out.
	loginRules = []quota.Rule{
		{Name: ruleAccount, Scope: anAccount, Limit: 50, Window: 15 * time.Minute},
		{Name: "address", Scope: quota.IP, Limit: 10, Window: 15 * time.Minute},
		{Name: "network", Scope: quota.Network, Limit: 30, Window: 15 * time.Minute},
		{Name: ruleOverall, Scope: everyone, Limit: 100, Window: 15 * time.Minute},
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

// login counts one attempt with a password, before the password is compared. browser is the cookie of a known browser, or "".
func (a attempts) login(ctx context.Context, account, browser string, address netip.Addr) (quota.Decision, error) {
	if browser != "" {
		return a.take(ctx, knownRules, accountBucket("login", "browser", account+"/"+browser))
	}
	buckets := networkBuckets("login", address)
	buckets[everyone] = bucket("login", everyone, "")
	buckets[anAccount] = bucket("login", anAccount, account)
	return a.take(ctx, loginRules, buckets)
}

// code counts one attempt at an account's second factor.
func (a attempts) code(ctx context.Context, account string) (quota.Decision, error) {
	return a.take(ctx, codeRules, accountBucket("code", anAccount, account))
}

// provider counts one request to the identity provider.
func (a attempts) provider(ctx context.Context, address netip.Addr) (quota.Decision, error) {
	return a.take(ctx, providerRules, networkBuckets(viaProvider, address))
}

// firstUse reports whether a secret value is used for the first time within life, on any replica.
func (a attempts) firstUse(ctx context.Context, value string, life time.Duration) (bool, error) {
	once, sum := []quota.Rule{{Name: "once", Scope: anAccount, Limit: 1, Window: life}}, sha256.Sum256([]byte(value))
	d, err := a.take(ctx, once, accountBucket("provider", anAccount, hex.EncodeToString(sum[:])))
	return d.Admitted, err
}

// token reports whether a network may present a token; it counts nothing. wrongToken counts an unknown token.
func (a attempts) token(ctx context.Context, address netip.Addr) (quota.Decision, error) {
	d, _, err := a.limiter.PeekOrLocal(ctx, quota.Request{Rules: tokenRules, Buckets: networkBuckets("token", address)})
	return d, err
}

func (a attempts) wrongToken(ctx context.Context, address netip.Addr) (quota.Decision, error) {
	return a.take(ctx, tokenRules, networkBuckets("token", address))
}

func (a attempts) take(ctx context.Context, rules []quota.Rule, buckets map[quota.Scope]string) (quota.Decision, error) {
	d, _, err := a.limiter.TakeOrLocal(ctx, quota.Request{ID: rand.Text(), Rules: rules, Buckets: buckets})
	return d, err
}

func bucket(what string, scope quota.Scope, value string) string {
	return quota.Bucket("console", what, string(scope), value)
}

func accountBucket(what string, scope quota.Scope, value string) map[quota.Scope]string {
	return map[quota.Scope]string{anAccount: bucket(what, scope, value)}
}

func networkBuckets(what string, address netip.Addr) map[quota.Scope]string {
	return map[quota.Scope]string{
		quota.IP:      bucket(what, quota.IP, cmp.Or(policy.ClientPrefix(address), "none")),
		quota.Network: bucket(what, quota.Network, cmp.Or(policy.NetworkPrefix(address), "none")),
	}
}

// left returns how many attempts the strictest rule still admits.
func left(d quota.Decision) int {
	strictest := slices.MinFunc(d.Rules, func(a, b quota.State) int { return a.Remaining() - b.Remaining() })
	return strictest.Remaining()
}

// networkOf returns the network that a client is logged by: an IPv4 address or an IPv6 /64; "none" without an address.
func networkOf(c echo.Context) string { return cmp.Or(policy.ClientPrefix(server.ClientIP(c)), "none") }
