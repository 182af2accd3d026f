package simulate

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"

	"sendcode/internal/base/recipient"
	"sendcode/internal/codes/code"
	"sendcode/internal/codes/keys"
	"sendcode/internal/codes/policy"
	"sendcode/internal/deliver/webhook"
	"sendcode/internal/http/api"
	"sendcode/internal/run/app/core"
	"sendcode/internal/store/sqlite/sqlitetest"
	"sendcode/internal/verify/verification"
	"sendcode/internal/verify/verification/verificationtest"
	"sendcode/quota"
)

// Replica is one process of the service.
type Replica struct {
	*core.Core
	Dependencies core.Dependencies // its parts, which Options.Break may change

	world   *world
	index   int
	name    string
	http    http.Handler
	db      *sqlitetest.DB
	vault   keys.Vault
	cancel  context.CancelFunc
	stopped chan struct{}
	died    chan struct{}

	frozen  time.Time // frozen until this instant; world.mu guards it
	commits []Event   // the faults of the next commits; world.mu guards them
}

const (
	secretKey  = "sk_simulated_back_end_of_the_shop"
	browserKey = "pk_simulated_browser_of_the_shop"
	origin     = "https://shop.example"
	app        = "shop"
)

// ring is the key ring of all worlds.
var ring = sync.OnceValue(func() *keys.Ring {
	key := sha256.Sum256([]byte("simulated"))
	return must(keys.Parse("k1:" + base64.StdEncoding.EncodeToString(key[:])))
})

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// Worlds change between numbered policies. The bits of the number say which limits apply, and
// whether each purpose has a policy of its own.
const otherLimits, split = 1, 2

// policySet returns the policies with this number: the built-in policies with other limits on
// sends, failed sends and an app's failed checks, and with a second purpose. The rule on failed
// sends is in force only with Plan.Failures. Nothing is suppressed, because no oracle takes
// suppressions into account.
func policySet(p Plan, number int) policy.Set {
	without := []string{"failures"}
	if p.Failures {
		without = nil
	}
	s := verificationtest.BuiltIn(without...)
	shared := s.Purposes["default"]
	if p.MonthEnds {
		shared.Policy.Rules = append(shared.Policy.Rules, quota.Rule{Name: "month", Scope: quota.Recipient, Limit: 3, Per: quota.Month})
	}
	limits := map[string]int{"minute": 1, "hour": 5, "day": 10, "failures": 3}
	if number&otherLimits != 0 {
		limits = map[string]int{"minute": 2, "hour": 4, "day": 8, "failures": 3}
	}
	for i, r := range shared.Policy.Rules {
		if limit, ok := limits[r.Name]; ok {
			shared.Policy.Rules[i].Limit = limit
		}
	}
	shared.PolicyPurposes, shared.Reserve = []string{"default", "login"}, map[string]int{"hour": 1, "day": 2, "month": 1}
	shared.TTL, shared.CodeLength, shared.Alphabet = 5*time.Minute, 8, code.Unambiguous
	login := shared
	login.Name, login.CodeLength, login.Alphabet = "login", 6, code.Digits
	if number&split != 0 {
		shared.PolicyPurposes, login.PolicyPurposes, login.Policy.Name = []string{"default"}, []string{"login"}, "other"
	}
	s.Purposes = map[string]policy.Purpose{"default": shared, "login": login}
	s.Apps = map[string]policy.App{app: {Title: "Shop", ReachedByStrangers: true}}
	s.Checks.App.Limit, s.SuppressFor, s.Numbers = 15, 0, policy.ServedNumbers{Everywhere: true}
	s.Subscriptions = map[string][]string{app: {"send.sent", "send.failed", "send.unknown", "verification.approved"}}
	return s
}

func (w *world) policySet(number int) policy.Set {
	s := policySet(w.plan, number)
	if w.options.NoReserve {
		clear(s.Purposes["default"].Reserve) // both purposes share this map
	}
	return s
}

// start starts the replica with this index. life distinguishes its starts.
func (w *world) start(index, life int) *Replica {
	r := &Replica{world: w, index: index, name: fmt.Sprintf("r%d.%d", index, life), stopped: make(chan struct{}), died: make(chan struct{})}
	r.db = w.db.Replica()
	r.db.SetHook(r.access)
	skew := time.Duration(source(w.plan.Seed, "skew "+r.name).IntN(800)-400) * time.Millisecond
	now := func() time.Time { return time.Now().Add(skew) }
	waits := source(w.plan.Seed, "waits "+r.name)
	var mu sync.Mutex
	random := func(d time.Duration) time.Duration {
		mu.Lock()
		defer mu.Unlock()
		return time.Duration(waits.Int64N(int64(d)))
	}
	r.Dependencies = core.Dependencies{
		Limiter: verificationtest.NewLimiter(w.redis, r.reach), DB: r.db, Sender: mailServer{Replica: r}, Carrier: carrier{Replica: r},
		Logger: slog.New(slog.NewTextHandler(w.logged, nil)).With("replica", r.name), Now: now, Random: random, Transport: receiver{r},
	}
	if w.plan.WithoutRedis {
		r.Dependencies.Limiter = quota.NewMemory(now)
	}
	if w.options.Break != nil {
		w.options.Break(r)
	}
	tick, hookTick := w.tick(), w.tick()+oddly(waits)
	settings := verificationtest.Settings{
		Set:   w.policySet(w.policies[len(w.policies)-1].number),
		Vault: keys.Vault{IndexKey: []byte("a simulated index key of 32 bytes or more"), Ring: ring()},
		Webhooks: webhook.Settings{Endpoints: map[string]webhook.Endpoint{app: {
			URL:     "https://shop.example/hook",
			Secrets: [][]byte{make([]byte, 32)},
		}}},
		JobTick: 10 * tick,
	}
	if w.plan.Folding && source(w.plan.Seed, "folding "+r.name).IntN(2) == 0 {
		settings.Vault.Folding = recipient.Folding{"example.com": {PlusTags: true}}
	}
	r.vault = settings.Vault
	settings.Tick, settings.Lease = tick+oddly(waits), 2*tick+oddly(waits)
	process := verificationtest.New(settings, r.Dependencies)
	r.Core, r.http = process.Core, process.Routes(api.Keys{
		{App: app, ID: "secret", Kind: verification.BackEnd, SHA256: sha256.Sum256([]byte(secretKey))},
		{App: app, ID: "public", Kind: verification.Browser, SHA256: sha256.Sum256([]byte(browserKey)), Origins: []string{origin}},
	}, api.Services{})
	r.Webhooks.Tick = hookTick
	ctx, cancel := context.WithCancel(context.Background())
	r.cancel = cancel
	go func() { defer close(r.stopped); r.Run(ctx) }()
	return r
}

// oddly returns less than a millisecond, so that the timers of different replicas end at different
// instants.
func oddly(r *rand.Rand) time.Duration { return time.Duration(r.IntN(1e6)) }

// stop stops a replica as a signal does.
func (r *Replica) stop() {
	r.cancel()
	<-r.stopped
}

func (r *Replica) isDead() bool {
	select {
	case <-r.died:
		return true
	default:
		return false
	}
}

func (r *Replica) thaws() (at time.Time) {
	r.world.locked(func() { at = r.frozen })
	return at
}

// nextCommit removes and returns the fault of the next commit of a method. It returns "" if there
// is none.
func (r *Replica) nextCommit(method string) Kind {
	r.world.mu.Lock()
	defer r.world.mu.Unlock()
	for i, e := range r.commits {
		if e.Method == "" || e.Method == method {
			r.commits = slices.Delete(r.commits, i, i+1)
			return e.Kind
		}
	}
	return ""
}

// serve answers a request. If the replica dies before it has answered, serve returns false.
func (r *Replica) serve(w http.ResponseWriter, request *http.Request) (answered bool) {
	done := make(chan struct{})
	go func() { defer close(done); r.http.ServeHTTP(w, request) }()
	select {
	case <-done:
		return !r.isDead()
	case <-r.died:
		return false
	}
}
