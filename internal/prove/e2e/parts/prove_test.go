// Package parts tests the service on real parts that fail. TestProve has processes, Redis, Postgres
// and the network fail under load; TestSlowPostgresUnderOverload has more requests come than a slow
// Postgres can serve; TestRollingRestarts restarts replicas behind a proxy.
package parts

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/Shopify/toxiproxy/v2"

	"sendcode/internal/codes/policy"
	"sendcode/internal/deliver/delivery/smtptest"
	history "sendcode/internal/kit/historytest"
	"sendcode/internal/kit/servertest"
	"sendcode/internal/run/app/apptest"
	"sendcode/quota"
	"sendcode/tools/ensure/locate"
)

var (
	seed    = flag.Uint64("prove.seed", 0, "chooses faults, recipients and codes; 0: a random one")
	proving = flag.Duration("prove.time", 10*time.Second, "how long faults happen at least; each happens once however little it is")
)

func TestMain(m *testing.M) { os.Exit(apptest.Main(m, 4, 1)) }

// settings has windows that pass during a run. Of three places in six seconds the last is kept for
// secret keys.
const settings = `policies:
  default:
    - {name: short, scope: recipient, limit: 1, window: 2s}
    - {name: long, scope: recipient, limit: 3, window: 6s, reserve: 1}
purposes: {default: {code: {length: 8, alphabet: unambiguous}}}
trusted_proxies: [127.0.0.1/32]
apps: [{name: default, origins: ["https://shop.example"], keys: [{id: web, kind: public, sha256: %x}]}]
hooks: [{name: auth, server: supabase-email, secret_env: AUTH_SECRETS}]
`

const hookSecret = "a secret of the auth server's hook"

// strangers are all that callers without a secret key may get of the rule long.
var strangers = history.Rule{Name: "long, but for its reserve", Limit: 2, Window: 6 * time.Second}

// bouncing is a mailbox that takes nothing, so that places are given back all the time.
const bouncing = "bouncing@example.com"

var takesNothing = smtptest.Rule{Stage: smtptest.Rcpt, To: bouncing, Reply: "550 5.2.1 takes no mail"}

// proof is one run. Fields below mu are of all clients.
type proof struct {
	*apptest.Stack
	random   *rand.Rand
	links    []*toxiproxy.Proxy // to Redis, Postgres and the mail server
	happened map[string]int     // faults by name
	// from when on the database and the links fail too, so that a wait may be longer than was told
	disturbed time.Time

	mu               sync.Mutex
	replicas         []*apptest.Process
	seen             history.History
	cut, unavailable int
	hooked           int             // sends that the hook accepted
	byBrowser        map[string]bool // sends that the stranger was given, by ID
}

// Replicas in processes of their own serve a thousand recipients and a stranger with a public key.
// Meanwhile processes are killed, stopped and frozen, Redis is flushed, stalled and replaced by an
// empty one, and in the second half Postgres is restarted and links are cut. A judge that knows
// only the answers and the mailbox then counts what was judged by each promise of
// docs/PROMISES.md but the last, and what broke it. The service becomes whole again by itself.
func TestProve(t *testing.T) {
	_, redis := locate.Redis.Find()
	_, postgres := locate.Postgres.Find()
	if redis != nil || postgres != nil {
		proveOneFile(t, "one process on one file, for Redis or Postgres is not installed")
		return
	}
	p := newProof(apptest.OnOwnPostgres(t), "two replicas on Redis and Postgres")
	for _, setting := range []string{"REDIS_URL", "DATABASE_URL", "SMTP_URL"} {
		p.links = append(p.links, p.Through("SENDCODE_"+setting))
	}
	p.prove(2, slices.Concat(ofProcesses, ofRedis), ofTheRest)
}

func proveOneFile(t *testing.T, parts string) {
	s := apptest.Embedded(t) // but for the mail server
	s.SMTP = smtptest.StartAt(t, servertest.FreePort(t), smtptest.Script{Rules: []smtptest.Rule{takesNothing}})
	s.Env["SENDCODE_SMTP_URL"] = s.SMTP.URL()
	newProof(s, parts).prove(1, ofProcesses, nil)
}

// prove runs n replicas under load while faults happen, those of later too in the second half, and
// judges.
func (p *proof) prove(n int, faults, later []fault) {
	p.Helper()
	p.start(n)
	p.underLoad(func(ctx context.Context) {
		p.fail(ctx, *proving/2, faults)
		p.disturbed = time.Now()
		p.fail(ctx, *proving/2, slices.Concat(later, faults))
	})
	p.report()
}

func newProof(s *apptest.Stack, parts string) *proof {
	chosen := cmp.Or(*seed, rand.Uint64())
	fmt.Printf("%s, %v, seed %d\n", parts, *proving, chosen)
	s.Cleanup(func() {
		if s.Failed() {
			fmt.Printf("FAILED with seed %d\n", chosen)
		}
	})
	s.Env["AUTH_SECRETS"] = "v1,whsec_" + base64.StdEncoding.EncodeToString([]byte(hookSecret))
	p := &proof{Stack: s.Write(fmt.Sprintf(settings, sha256.Sum256([]byte(apptest.PublicKey)))),
		random: rand.New(rand.NewPCG(chosen, 1000)), happened: map[string]int{}, byBrowser: map[string]bool{}}
	// where the database stalls, a client that waited as told may be refused for 5 s more
	p.seen = history.History{Slack: 5 * time.Second, Rebuilt: 100 * time.Millisecond}
	for _, r := range quota.OfScope(s.Config().PolicySet(time.Now()).Purposes[policy.DefaultPurpose].Policy.Rules, quota.Recipient) {
		p.seen.Rules = append(p.seen.Rules, history.Rule{Name: r.Name, Limit: r.Limit, Window: r.Window})
	}
	return p
}

// start starts n replicas.
func (p *proof) start(n int) {
	p.Helper()
	if p.Postgres != nil {
		p.MailRules(takesNothing)
	}
	for range n {
		p.replicas = append(p.replicas, p.Spawn())
	}
}

// underLoad runs the faults while clients ask, and then waits until the service is whole.
func (p *proof) underLoad(faults func(ctx context.Context)) {
	p.Helper()
	ctx, cancel := context.WithCancel(p.Context())
	defer cancel()
	var clients sync.WaitGroup
	for i := range 12 {
		random := rand.New(rand.NewPCG(p.random.Uint64(), uint64(i)))
		clients.Go(func() {
			for ctx.Err() == nil {
				p.person(ctx, random)
			}
		})
	}
	for i := range 3 {
		random := rand.New(rand.NewPCG(p.random.Uint64(), uint64(100+i)))
		clients.Go(func() { p.stranger(ctx, random) })
		own := rand.New(rand.NewPCG(p.random.Uint64(), uint64(200+i)))
		clients.Go(func() { p.deputy(ctx, own, fmt.Sprintf("deputy%d.", i)) })
	}
	sleep(ctx, time.Second)
	faults(ctx)
	cancel()
	clients.Wait()
	for i, r := range p.replicas {
		asked := 0
		p.Await("a replica to be whole again", func() bool {
			a, err := p.At(r.Base, http.MethodGet, "/readyz", "")
			whole := err == nil && (string(a.Raw) == "ok" || string(a.Raw) == apptest.DatabaseSlow)
			if asked++; !whole && asked%20 == 0 { // only a mail can tell that a suspended mail server is back
				p.ask(p.random, fmt.Sprintf("whole%d.%d@example.com", i, asked), "", false)
			}
			return whole
		})
	}
	p.Await("every send to end", p.list)
}

// What is judged beside the judge's promises.
const (
	reserve = "a stranger leaves the last place"
	secrecy = "the code is nowhere but in the message"
)

// report judges, and prints each promise with its count.
func (p *proof) report() {
	p.Helper()
	codes := p.arrived()
	found, judged := history.Judge(p.seen)
	judged[secrecy] = len(codes)
	said := p.Printed.String()
	for _, q := range p.seen.Requests {
		said += string(q.Body)
	}
	for code := range codes {
		if strings.Contains(said, code) {
			found = append(found, history.Violation{Promise: secrecy, Detail: "a code is in a log line or in an answer"})
		}
	}
	strict, _ := history.Judge(p.undisturbed())
	for _, v := range strict {
		if v.Promise == history.Untrue || v.Promise == history.Costs {
			v.Detail += ", and nothing disturbed the database"
			found = append(found, v)
		}
	}
	own, judgedOwn := history.Judge(p.strangers())
	judged[reserve] = judgedOwn[history.OverPolicy]
	for _, v := range own {
		if v.Promise == history.OverPolicy {
			found = append(found, history.Violation{Promise: reserve, Detail: v.Detail})
		}
	}
	if p.hooked == 0 {
		p.Error("the hook accepted no send")
	}
	for _, fault := range slices.Sorted(maps.Keys(p.happened)) {
		fmt.Printf("%6d %s\n", p.happened[fault], fault)
	}
	fmt.Printf("%6d requests, of them %d without an answer and %d answered 503\n", len(p.seen.Requests), p.cut, p.unavailable)
	for _, line := range []struct{ promise, of string }{
		{history.OverPolicy, "sends over the policy"}, {reserve, "sends of a stranger from the reserve"},
		{history.Lost, "sends lost, or told falsely"}, {history.Doubled, "mails doubled in silence, or unasked"},
		{history.Untrue, "waits untrue"}, {history.Costs, "figures that count what failed or was refused"},
		{history.SameCode, "resends with another code"},
		{history.Guessing, "checks that let a guess through, or refuse the right code"},
		{secrecy, "codes outside their message"}, {history.Surface, ""},
	} {
		broken := slices.Collect(func(yield func(history.Violation) bool) {
			for _, v := range found {
				if v.Promise == line.promise && !yield(v) {
					return
				}
			}
		})
		if line.of != "" {
			fmt.Printf("%6d of %d %s\n", len(broken), judged[line.promise], line.of)
			if judged[line.promise] == 0 {
				p.Errorf("nothing was judged: %s", line.of)
			}
		}
		for _, v := range broken[:min(3, len(broken))] {
			p.Errorf("broken: %s: %s", v.Promise, v.Detail)
		}
	}
}

// undisturbed returns what happened before the database and the links failed too: a wait is then
// true to 200 ms. A request that was under way at that moment may hold a place, and nothing of its
// answer is judged: it is as if none had come.
func (p *proof) undisturbed() history.History {
	h := p.seen
	h.Slack, h.Requests = 200*time.Millisecond, nil
	for _, q := range p.seen.Requests {
		if q.Recipient != "" && !q.End.Before(p.disturbed) {
			if !q.Begin.Before(p.disturbed) {
				continue
			}
			q.Status, q.Body = 0, nil
		}
		h.Requests = append(h.Requests, q)
	}
	return h
}

// strangers returns what the stranger alone asked for and got. Nothing of a request without an
// answer is its for sure.
func (p *proof) strangers() history.History {
	own := history.History{Rules: []history.Rule{strangers}, Crashes: p.seen.Crashes, Unended: true}
	for _, q := range p.seen.Requests {
		if q.Browser || q.Kind == history.Look {
			own.Requests = append(own.Requests, q)
		}
	}
	for _, m := range p.seen.Messages {
		if id, _, _ := strings.Cut(m.ID, "@"); p.byBrowser[id] {
			own.Messages = append(own.Messages, m)
		}
	}
	return own
}
