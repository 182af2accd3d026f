// Package prove shows in a minute what sendcode promises: replicas of it, in processes of their
// own, serve a thousand recipients and a stranger with a public key while they are killed and Redis
// is flushed, stalled and replaced by an empty one. A checker that knows only the answers and the
// mailbox then counts what was judged by each promise and what broke it. `make prove` runs it.
package prove

import (
	"context"
	"crypto/sha256"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sendcode/internal/app/apptest"
	"sendcode/internal/delivery/smtptest"
	history "sendcode/internal/historytest"
	"sendcode/internal/servertest"
	"sendcode/tools/ensure/locate"
)

var (
	seed    = flag.Uint64("prove.seed", 0, "chooses faults, recipients and codes; 0: a random one")
	proving = flag.Duration("prove.time", 5*time.Second, "how long faults happen")
)

func TestMain(m *testing.M) { os.Exit(apptest.Main(m, 1, 1)) }

// settings has windows that pass during a run. Of three places in six seconds the last is kept for
// secret keys.
const settings = `policies:
  default:
    - {name: short, scope: recipient, limit: 1, window: 2s}
    - {name: long, scope: recipient, limit: 3, window: 6s, reserve: 1}
purposes: {default: {code: {length: 8, alphabet: unambiguous}}}
trusted_proxies: [127.0.0.1/32]
apps: [{name: default, origins: ["https://shop.example"], keys: [{id: web, kind: public, sha256: %x}]}]
`

// strangers are all that callers without a secret key may get of the rule long.
var strangers = history.Rule{Name: "long, but for its reserve", Limit: 2, Window: 6 * time.Second}

// What is judged beside the checker's promises.
const (
	reserve = "a stranger leaves the last place"
	secrecy = "the code is nowhere but in the message"
)

// proof is one run.
type proof struct {
	*apptest.Load
	random *rand.Rand

	mu        sync.Mutex
	replicas  []*apptest.Process
	byBrowser map[string]bool // sends that the stranger was given, by ID
}

func TestProve(t *testing.T) {
	if *seed == 0 {
		*seed = rand.Uint64()
	}
	p := start(t)
	ctx, cancel := context.WithTimeout(t.Context(), *proving)
	defer cancel()
	var clients sync.WaitGroup
	for i := range 24 {
		random := rand.New(rand.NewPCG(*seed, uint64(i)))
		clients.Go(func() {
			for ctx.Err() == nil {
				p.person(ctx, random)
			}
		})
	}
	for i := range 4 {
		random := rand.New(rand.NewPCG(*seed, uint64(100+i)))
		clients.Go(func() { p.stranger(ctx, random) })
	}
	happened := p.faults(ctx)
	clients.Wait()
	p.report(happened)
}

// start starts the service: two replicas on Redis and Postgres where they are installed, else one
// on its embedded parts.
func start(t *testing.T) *proof {
	t.Helper()
	_, redis := locate.Redis.Find()
	_, postgres := locate.Postgres.Find()
	var s *apptest.Stack
	n, parts := 2, "two replicas on Redis and Postgres"
	if redis == nil && postgres == nil {
		s = apptest.OnOwnPostgres(t)
	} else {
		s = apptest.Embedded(t)
		s.SMTP = smtptest.StartAt(t, servertest.FreePort(t), smtptest.Script{})
		s.Env["SENDCODE_SMTP_URL"] = s.SMTP.URL()
		n, parts = 1, "one process on its embedded parts, for Redis or Postgres is not installed"
	}
	fmt.Printf("%s, %v, seed %d\n", parts, *proving, *seed)
	p := &proof{Load: apptest.NewLoad(s.Write(fmt.Sprintf(settings, sha256.Sum256([]byte(apptest.PublicKey))))),
		random: rand.New(rand.NewPCG(*seed, 1000)), byBrowser: map[string]bool{}}
	p.Seen.Slack = 200 * time.Millisecond // Postgres and the clocks are not disturbed
	for len(p.replicas) < n {
		p.replicas = append(p.replicas, s.Spawn())
	}
	return p
}

// base returns the address of some replica.
func (p *proof) base(random *rand.Rand) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.replicas[random.IntN(len(p.replicas))].Base
}

// person asks for a code as a back end does: mostly for one of a thousand recipients, else for one
// of eight whose rules are at their end, and whom the stranger attacks. It enters wrong codes and
// the right one, in any order and number, and asks again once it has waited as told.
func (p *proof) person(ctx context.Context, random *rand.Rand) {
	to := fmt.Sprintf("r%d@example.com", random.IntN(1000))
	if random.IntN(4) == 0 {
		to = fmt.Sprintf("crowd%d@example.com", random.IntN(8))
	}
	a := p.AskAt(p.base(random), to, false)
	if a.StatusCode == http.StatusAccepted && random.IntN(2) == 0 {
		code := p.codeOf(ctx, a.Send.ID)
		for range random.IntN(8) {
			entered := code
			switch {
			case code == "":
				entered = "BCDFGHJK"
			case random.IntN(3) > 0:
				entered = p.Wrong(code)
			}
			_, _ = p.Call(p.base(random), http.MethodPost, "/v1/verifications/"+a.ID+"/check",
				fmt.Sprintf(`{"code":%q}`, entered),
				history.Request{Kind: history.Check, Recipient: to, Verification: a.ID, Code: entered})
		}
	}
	if wait := time.Duration(a.RetryAfterMS) * time.Millisecond; wait > 0 && wait < time.Second {
		sleep(ctx, wait)
	} else {
		sleep(ctx, time.Duration(random.IntN(200))*time.Millisecond)
	}
}

// stranger asks in browsers of many networks for codes of other people, as often as it is let.
func (p *proof) stranger(ctx context.Context, random *rand.Rand) {
	for ctx.Err() == nil {
		a := p.AskAt(p.base(random), fmt.Sprintf("crowd%d@example.com", random.IntN(16)), true,
			apptest.As(apptest.PublicKey), func(r *http.Request) {
				r.Header.Set("X-Forwarded-For",
					fmt.Sprintf("198.%d.%d.%d", 18+random.IntN(2), random.IntN(256), random.IntN(256)))
			})
		if a.StatusCode == http.StatusAccepted {
			p.mu.Lock()
			p.byBrowser[a.Send.ID] = true
			p.mu.Unlock()
		}
		sleep(ctx, 50*time.Millisecond)
	}
}

// codeOf returns the code of a send's mail, or "" if none came in time.
func (p *proof) codeOf(ctx context.Context, send string) string {
	for range 40 {
		for _, m := range slices.Backward(p.SMTP.Messages()) {
			if strings.HasPrefix(m.ID, send) {
				return p.CodeIn(apptest.Letter{Text: string(m.Data)})
			}
		}
		sleep(ctx, 25*time.Millisecond)
	}
	return ""
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// kinds are what fails.
var kinds = []string{"kills", "flushes", "stalls", "failovers to an empty Redis"}

// faults has something fail about every second until the context ends, and returns how often what
// happened.
func (p *proof) faults(ctx context.Context) map[string]int {
	happened := map[string]int{}
	possible := kinds[:1]
	if p.Redis != nil {
		possible = kinds
	}
	var next []int // each once, in some order, again and again
	for sleep(ctx, time.Second); ctx.Err() == nil; sleep(ctx, time.Duration(300+p.random.IntN(1000))*time.Millisecond) {
		if len(next) == 0 {
			next = p.random.Perm(len(possible))
		}
		fault := possible[next[0]]
		next = next[1:]
		happened[fault]++
		switch fault {
		case "kills":
			i := p.random.IntN(len(p.replicas))
			p.replicas[i].Kill()
			p.Crash()
			reborn := p.Spawn()
			p.mu.Lock()
			p.replicas[i] = reborn
			p.mu.Unlock()
		case "flushes":
			p.Flush()
		case "stalls":
			apptest.Must(p.T, p.Redis.Pause())
			sleep(ctx, time.Duration(1+p.random.IntN(3))*time.Second)
			resumed := time.Now()
			apptest.Must(p.T, p.Redis.Resume())
			p.Seen.Stalls = append(p.Seen.Stalls, resumed, time.Now()) // Redis answers again between them
		default:
			p.Redis.Stop()
			sleep(ctx, 200*time.Millisecond)
			apptest.Must(p.T, p.Redis.Start())
		}
	}
	return happened
}

// report waits until every send has ended, judges, and prints each promise with its count.
func (p *proof) report(happened map[string]int) {
	p.Helper()
	p.Await("every send to end", func() bool { return p.List(p.replicas[0].Base) })
	codes := map[string]bool{}
	for _, m := range p.Arrived() {
		codes[p.CodeIn(m)] = true
	}
	found, judged := history.Judge(p.Seen)
	judged[secrecy] = len(codes)
	said := p.Printed.String()
	for _, q := range p.Seen.Requests {
		said += string(q.Body)
	}
	for code := range codes {
		if strings.Contains(said, code) {
			found = append(found, history.Violation{Promise: secrecy,
				Detail: "a code is in a log line or in an answer"})
		}
	}
	own := p.strangers()
	overReserve, judgedOwn := history.Judge(own)
	judged[reserve] = judgedOwn[history.OverPolicy]
	for _, v := range overReserve {
		if v.Promise == history.OverPolicy {
			found = append(found, history.Violation{Promise: reserve, Detail: v.Detail})
		}
	}
	for _, fault := range kinds {
		if n := happened[fault]; n > 0 {
			fmt.Printf("%6d %s\n", n, fault)
		}
	}
	fmt.Printf("%6d requests, of them %d without an answer and %d answered 503\n", len(p.Seen.Requests), p.Cut.Load(),
		p.Unavailable.Load())
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
	if p.Failed() {
		fmt.Printf("FAILED with seed %d\n", *seed)
	}
}

// strangers returns what the stranger alone asked for and got. Nothing of a request without an
// answer is its for sure.
func (p *proof) strangers() history.History {
	own := history.History{Rules: []history.Rule{strangers}, Crashes: p.Seen.Crashes, Unended: true}
	for _, q := range p.Seen.Requests {
		if q.Browser || q.Kind == history.Look {
			own.Requests = append(own.Requests, q)
		}
	}
	for _, m := range p.Seen.Messages {
		if id, _, _ := strings.Cut(m.ID, "@"); p.byBrowser[id] {
			own.Messages = append(own.Messages, m)
		}
	}
	return own
}
