package admin

import (
	"context"
	"crypto/rand"
	"net/netip"
	"time"

	"sendcode/quota"
)

// everyone is the scope of the rule that counts all attempts together. It stops guessing from many addresses; the
// price is that such an attack also keeps the administrator out for as long as it lasts, and at most 15 minutes more.
const everyone quota.Scope = "global"

// anAccount counts attempts at one account, whether or not there is one of the name.
const anAccount quota.Scope = "purpose"

// loginRules slow guessing down to 960 attempts a day from one address, 9,600 in all (SEC-17), and
// of any account 4,800: an account that is attacked stays open to nobody for 15 minutes at most, from wherever.
var loginRules = []quota.Rule{
	{Name: "account", Scope: anAccount, Limit: 50, Window: 15 * time.Minute},
	{Name: "address", Scope: quota.IP, Limit: 10, Window: 15 * time.Minute},
	{Name: "all", Scope: everyone, Limit: 100, Window: 15 * time.Minute},
}

// countTimeout bounds the wait for a limiter that does not answer.
const countTimeout = 2 * time.Second

// countLogin takes a place for one attempt, the right password's too: whether it is right is not known yet. While the
// limiter is away this process counts alone: the console is needed most when something is down.
func (a *Admin) countLogin(ctx context.Context, name string, address netip.Addr) (quota.Decision, error) {
	return a.count(ctx, loginRules, map[quota.Scope]string{
		quota.IP:  quota.Bucket("console", "login", string(quota.IP), network(address)),
		everyone:  quota.Bucket("console", "login", string(everyone), ""),
		anAccount: quota.Bucket("console", "login", string(anAccount), name),
	})
}

func (a *Admin) count(ctx context.Context, rules []quota.Rule, buckets map[quota.Scope]string) (quota.Decision, error) {
	id := make([]byte, 16)
	rand.Read(id) // never fails: the program stops when the system has no randomness
	request := quota.Request{ID: string(id), Rules: rules, Buckets: buckets}
	bounded, cancel := context.WithTimeout(ctx, countTimeout)
	defer cancel()
	d, err := a.limiter.Take(bounded, request)
	if err != nil {
		a.logger.WarnContext(ctx, "login attempts are counted in this process alone", "error", err)
		return a.spare.Take(ctx, request)
	}
	return d, nil
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
