// Package parts tests the service on real parts that fail. In TestProve, processes, Redis, Postgres
// and the network fail under load. In TestSlowPostgresUnderOverload, more requests come than a slow
// Postgres can serve. TestRollingRestarts restarts replicas behind a proxy.
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
	"sync/atomic"
	"testing"
	"time"

	"github.com/Shopify/toxiproxy/v2"

	"sendcode/internal/codes/policy"
	"sendcode/internal/deliver/delivery/smtptest"
	history "sendcode/internal/kit/historytest"
	"sendcode/internal/kit/servertest"
	"sendcode/internal/run/app/apptest"
	"sendcode/quota"
)

var (
	seed    = flag.Uint64("prove.seed", 0, "chooses faults, recipients and codes; 0: a random one")
	proving = flag.Duration("prove.time", 4*time.Second, "how long faults happen in each form at least; each happens once")
	wanted  = flag.Int("prove.requests", 0, "how many requests are answered at least in each form")
)

func TestMain(m *testing.M) { os.Exit(apptest.Main(m, 4, 1)) }

// form is a way to run the service, with the faults that may happen there.
type form struct {
	name     string
	open     func(*testing.T) *apptest.Stack
	replicas int
	faults   []fault
}

var forms = []form{
	{"one process on one file", oneFile, 1, append(slices.Clone(ofProcesses), cutLinks)},
	{"two replicas on Postgres alone", onPostgresAlone, 2, slices.Concat(ofProcesses, ofPostgres)},
	{"two replicas on Postgres and Redis", apptest.OnOwnPostgres, 2, slices.Concat(ofProcesses, ofPostgres, ofRedis)},
}

func oneFile(t *testing.T) *apptest.Stack {
	s := apptest.Embedded(t) // embedded, except for the mail server
	s.SMTP = smtptest.StartAt(t, servertest.FreePort(t), smtptest.Script{})
	s.Env["SENDCODE_SMTP_URL"] = s.SMTP.URL()
	return s
}

func onPostgresAlone(t *testing.T) *apptest.Stack {
	s := apptest.OnOwnPostgres(t)
	delete(s.Env, "SENDCODE_REDIS_URL")
	s.Redis = nil
	return s
}

// settings has windows that end during a run. Of the places in six seconds, the last one is
// reserved for persons whom the back end knows.
const settings = `public_url: ` + publicURL + `
policies:
  default:
    - {name: short, scope: recipient, limit: 1, window: 2s}
    - {name: long, scope: recipient, limit: %d, window: 6s, reserve: 1}
%spurposes: {default: {code: {length: 8, alphabet: unambiguous}}}
trusted_proxies: [127.0.0.1/32]
apps: [{name: default, origins: ["https://shop.example"], keys: [{id: web, kind: public, sha256: %x}]}]
hooks: [{name: auth, server: supabase-email, secret_env: AUTH_SECRETS}]
`

const hookSecret = "a secret of the auth server's hook"

// strangers is the part of the rule long that strangers may use.
var strangers = history.Rule{Name: "long, but for its reserve", Limit: 2, Window: 6 * time.Second}

// bouncing are mailboxes that accept no mail, so places are given back all the time.
var bouncing = []string{"bouncing@example.com", "bouncing0@example.com", "bouncing1@example.com", "bouncing2@example.com"}

// enough is how many answers suffice to judge each promise, even on a machine on which processes
// start slowly.
const enough = 500

// provingRun is one run of a form under load and faults. All clients use the fields below mu.
type provingRun struct {
	*apptest.Stack
	random    *rand.Rand
	links     []*toxiproxy.Proxy // to Redis, Postgres, the mail server and carriers
	carriers  *carriers          // the carriers of text messages; nil: codes are sent by mail
	happened  map[string]int     // how often each fault happened, by name
	order     []string           // the beginning and end of each fault, printed if a promise is broken
	logs      []*servertest.Text // the log of each process
	disk      *servertest.Disk   // the disk of the database; nil: the machine's
	fewer     bool               // the policy in force has one place less than the loosest one
	more      string             // further rules of the policy, as lines of the configuration
	programs  [2]string          // what each replica runs; "": this build
	databases [2]string          // where each replica's database is; "": as the setting says
	mixed     atomic.Bool        // a replica may run the older version

	reported         atomic.Int64 // how many mails their recipients have reported
	mu               sync.Mutex
	replicas         []*apptest.Process
	turn             int // counts requests: the replicas get them in turn, as from a load balancer
	observed         history.History
	cut, unavailable int
	hooked           int             // how many sends the hook accepted
	byStrangers      map[string]bool // the IDs of the sends that strangers got
}

// In each form, one or two processes serve a thousand recipients, and strangers with a public key.
// Meanwhile processes are killed, stopped and frozen, links are cut, and Postgres is restarted.
// Redis is flushed, stalled, and replaced by an empty server. Then a judge that knows only the
// answers and the mailbox counts, for each promise of docs/PROMISES.md except the last, how many
// results it judged, how many broke the promise, and how many broke it in a way that the document
// allows. The service recovers by itself. The forms on Postgres alone and on a Cluster have the
// same databases and limiters as these two forms, in other combinations, so TestMoreForms
// tests them instead.
func TestProve(t *testing.T) { proveEach(t, []form{forms[0], forms[2]}) }

func proveEach(t *testing.T, forms []form) {
	for _, f := range forms {
		t.Run(f.name, func(t *testing.T) {
			p := newProvingRun(f.open(t), f.name)
			if f.name == textMessages {
				p.carriers = startCarriers(p)
			}
			p.start(f.replicas)
			p.underLoad(func(ctx context.Context) {
				p.fail(ctx, *proving, max(enough, *wanted), f.faults)
			})
			p.report()
		})
	}
}

func newProvingRun(s *apptest.Stack, parts string) *provingRun {
	chosen := cmp.Or(*seed, rand.Uint64())
	fmt.Printf("%s, %v, seed %d\n", parts, *proving, chosen)
	s.Cleanup(func() {
		if s.Failed() {
			fmt.Printf("FAILED with seed %d\n", chosen)
		}
	})
	s.Env["AUTH_SECRETS"] = "v1,whsec_" + base64.StdEncoding.EncodeToString([]byte(hookSecret))
	p := &provingRun{Stack: s, random: rand.New(rand.NewPCG(chosen, 1000)), happened: map[string]int{}, byStrangers: map[string]bool{}}
	p.configure()
	p.observed = history.History{Limiter: s.Redis != nil, Late: 10 * time.Second}
	for _, r := range quota.OfScope(s.Config().PolicySet(time.Now()).Purposes[policy.DefaultPurpose].Policy.Rules, quota.Recipient) {
		p.observed.Rules = append(p.observed.Rules, history.Rule{Name: r.Name, Limit: r.Limit, Window: r.Window})
	}
	return p
}

func (p *provingRun) limit() int {
	if p.fewer {
		return 2
	}
	return 3
}

func (p *provingRun) configure() {
	text := fmt.Sprintf(settings, p.limit(), p.more, sha256.Sum256([]byte(apptest.PublicKey)))
	if p.carriers != nil {
		at := p.Env["CARRIERS"]
		text += fmt.Sprintf(carrierSettings, "first", at+"/first", "second", at+"/second")
	}
	p.Write(text)
}

// start starts n replicas, with links that can be cut.
func (p *provingRun) start(n int) {
	p.Helper()
	var rules []smtptest.Rule
	for _, to := range bouncing {
		rules = append(rules, smtptest.Rule{Stage: smtptest.Rcpt, To: to, Delay: 50 * time.Millisecond, Reply: "550 5.2.1 takes no mail"})
	}
	if p.Env["SENDCODE_DATABASE_URL"] == "" {
		p.SMTP.SetScript(smtptest.Script{Rules: rules})
	} else {
		p.MailRules(rules...)
	}
	for _, setting := range []string{"SENDCODE_REDIS_URL", "SENDCODE_DATABASE_URL", "SENDCODE_SMTP_URL", "CARRIERS"} {
		onCluster := p.Nodes != nil && p.Sentinel == nil && setting == "SENDCODE_REDIS_URL" // this URL names the nodes' own addresses
		own := p.databases != [2]string{} && setting == "SENDCODE_DATABASE_URL"
		if p.Env[setting] != "" && !onCluster && !own {
			p.links = append(p.links, p.Through(setting))
		}
	}
	p.configure()
	for i := range n {
		p.replicas = append(p.replicas, p.spawn(i))
	}
}

// underLoad runs the faults while clients send requests, and then waits until the service works
// again.
func (p *provingRun) underLoad(faults func(ctx context.Context)) {
	p.Helper()
	ctx, cancel := context.WithCancel(p.Context())
	defer cancel()
	var clients sync.WaitGroup
	many := 1 + min(*wanted/10_000, 5)
	for kind, as := range map[string]func(context.Context, *rand.Rand, string){
		"person": p.person, "stranger": p.stranger, "deputy": p.formBackEnd, "widget": p.widget, "bouncing": p.requestForBouncing,
	} {
		for i := range map[string]int{"person": 12 * many, "widget": 3 * many}[kind] + 3 {
			random := rand.New(rand.NewPCG(p.random.Uint64(), uint64(i)))
			clients.Go(func() {
				for ctx.Err() == nil {
					as(ctx, random, fmt.Sprint(kind, i))
				}
			})
		}
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
			if asked++; !whole && asked%20 == 0 { // only a mail can show that a suspended mail server works again
				p.ask(p.random, fmt.Sprintf("whole%d.%d@example.com", i, asked), known, history.Request{})
			}
			return whole
		})
	}
	p.Await("every send to end", p.list)
	if p.carriers != nil {
		p.carriers.reports.Wait()
		p.list()
	}
}

// report checks these promises in addition to history.Judge.
const (
	reserve = "a stranger leaves the last place"
	secrecy = "the code is nowhere but in the message"
)

// report runs the judge, and prints each promise with its count.
func (p *provingRun) report() {
	p.Helper()
	codes := p.arrived()
	away := p.outages()
	p.observed.Away = append(p.observed.Away, away...)
	found, judged, allowed := history.Judge(p.observed)
	judged[secrecy] = len(codes)
	said := []string{p.Printed.String()}
	for _, q := range p.observed.Requests {
		said = append(said, string(q.Body))
	}
	for _, text := range said {
		for i := range max(0, len(text)-7) {
			if codes[text[i:i+8]] {
				found = append(found, history.Violation{Promise: secrecy, Detail: "a code is in a log line or in an answer"})
			}
		}
	}
	own, judgedOwn, _ := history.Judge(p.strangers())
	judged[reserve] = judgedOwn[history.OverPolicy]
	for _, v := range own {
		if v.Promise == history.OverPolicy {
			found = append(found, history.Violation{Promise: reserve, Detail: v.Detail})
		}
	}
	if p.hooked == 0 && p.carriers == nil {
		p.Error("the hook accepted no send")
	}
	for _, fault := range slices.Sorted(maps.Keys(p.happened)) {
		fmt.Printf("%6d %s\n", p.happened[fault], fault)
	}
	fmt.Printf("%6d requests, of them %d without an answer and %d answered 503\n", len(p.observed.Requests), p.cut, p.unavailable)
	fmt.Printf("%6d reports of recipients\n", p.reported.Load())
	for _, line := range []struct{ promise, of string }{
		{history.OverPolicy, "sends over the policy"},
		{reserve, "sends of a stranger from the reserve"},
		{history.Lost, "sends lost, or told falsely"},
		{history.Doubled, "mails doubled in silence, or unasked"},
		{history.Untrue, "waits untrue"},
		{history.Costs, "figures that count what failed or was refused"},
		{history.SameCode, "resends with another code"},
		{history.Guessing, "checks that let a guess through, or refuse the right code"},
		{secrecy, "codes outside their message"},
		{history.Surface, ""},
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
	if p.Failed() {
		fmt.Println("  " + strings.Join(p.order, "\n  "))
		for _, a := range away {
			fmt.Printf("  %s to %s: a replica without Redis\n", a[0].Format(instants), a[1].Format(instants))
		}
	}
	by := map[string]int{}
	for _, a := range allowed {
		by[a.Sentence]++
	}
	for _, sentence := range slices.Sorted(maps.Keys(by)) {
		fmt.Printf("%6d allowed by PROMISES.md: %s\n", by[sentence], sentence)
		for _, a := range allowed {
			if a.Sentence == sentence && a.Promise == history.Untrue {
				fmt.Printf("         a wait: %s\n", a.Detail)
			}
		}
	}
}

// strangers returns the part of the history that only strangers requested and got. Messages of
// requests without an answer are left out, because it is unknown which request caused them.
func (p *provingRun) strangers() history.History {
	own := history.History{Rules: []history.Rule{strangers}, Crashes: p.observed.Crashes, Skew: p.observed.Skew, Unended: true}
	for _, q := range p.observed.Requests {
		if q.Stranger || q.Kind == history.Look || q.Kind == history.Reset {
			own.Requests = append(own.Requests, q)
		}
	}
	for _, m := range p.observed.Messages {
		if id, _, _ := strings.Cut(m.ID, "."); p.byStrangers[id] {
			own.Messages = append(own.Messages, m)
		}
	}
	return own
}
