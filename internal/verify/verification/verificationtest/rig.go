package verificationtest

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"log/slog"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sendcode/internal/base/recipient"
	"sendcode/internal/codes/code/codetest"
	"sendcode/internal/codes/keys"
	"sendcode/internal/codes/policy"
	"sendcode/internal/deliver/outbox"
	"sendcode/internal/kit/servertest"
	"sendcode/internal/limit/gates"
	"sendcode/internal/run/app/core"
	"sendcode/internal/store"
	"sendcode/internal/store/sqlite/sqlitetest"
	"sendcode/quota"
)

var (
	OldKey = keyFrom("old") // the key in TestSettings
	NewKey = keyFrom("new")
)

func keyFrom(seed string) string {
	sum := sha256.Sum256([]byte(seed))
	return base64.StdEncoding.EncodeToString(sum[:])
}

// KeyRing returns the key ring for a value of SENDCODE_SECRET_KEYS.
func KeyRing(t testing.TB, entries string) *keys.Ring {
	t.Helper()
	ring, err := keys.Parse(entries)
	servertest.OK(t, err)
	return ring
}

// Rig is a service over a database and a limiter in memory, with a mail server and a carrier whose
// answers the test chooses.
type Rig struct {
	*testing.T
	Svc        *Service
	Store      *sqlitetest.DB
	Limiter    *Limiter
	MailServer *MailServer
	Carrier    *Carrier
	Printed    *servertest.Text // the log
	Logger     *slog.Logger     // writes to Printed
	Metrics    *Metrics         // written by all processes
	Settings   Settings
	now        func() time.Time
	Stop       context.CancelFunc
	Stopped    chan struct{}
	WrongCode  func(right string) string // returns another wrong code at each call; see codetest.WrongCodes
}

// Service is one process, with a limiter that can be exchanged.
type Service struct {
	*Process
	Limiter *Limiter
}

// InBubble runs a test of a running service inside a bubble with its own clock. After the test, it
// searches the log lines for codes and recipients.
func InBubble(t *testing.T, test func(r *Rig)) {
	t.Helper()
	InBubbleWith(t, nil, test)
}

// InBubbleWith is InBubble with changed settings.
func InBubbleWith(t *testing.T, change func(*Settings), test func(r *Rig)) {
	t.Helper()
	InBubbleIdle(t, change, func(r *Rig) {
		r.Start()
		test(r)
	})
}

// EachInBubble runs InBubbleWith for each case, in a separate bubble.
func EachInBubble[Case any](t *testing.T, cases map[string]Case, change func(*Settings), test func(r *Rig, c Case)) {
	t.Helper()
	for name, c := range cases {
		t.Run(name, func(t *testing.T) { InBubbleWith(t, change, func(r *Rig) { test(r, c) }) })
	}
}

// InBubbleIdle is InBubbleWith for tests that start the service themselves, or not at all.
func InBubbleIdle(t *testing.T, change func(*Settings), test func(r *Rig)) {
	t.Helper()
	servertest.Bubble(t, func(t *testing.T) {
		r := NewRig(t, change)
		test(r)
		r.Quit()
		r.NoSecretLogged()
	})
}

// DefaultTick makes the jobs, the outbox and the webhooks look for work as often as in production.
// Without it, a Rig looks once in ten seconds, because most tests await no such look, and hours
// pass in some of them.
func DefaultTick(change func(*Settings)) func(*Settings) {
	return func(s *Settings) {
		s.Tick = 0
		if change != nil {
			change(s)
		}
	}
}

// MinuteTick makes the jobs, the outbox and the webhooks look for work once a minute: for tests in
// which hours or days pass.
func MinuteTick(change func(*Settings)) func(*Settings) {
	return func(s *Settings) {
		if change != nil {
			change(s)
		}
		s.Tick = time.Minute
	}
}

// DayTick is MinuteTick with a day, for tests in which nothing is tried again and no replica takes
// over.
func DayTick(change func(*Settings)) func(*Settings) {
	return func(s *Settings) {
		change(s)
		s.Tick, s.Lease = 24*time.Hour, 24*time.Hour
	}
}

// NewRig returns a service that does not run yet.
func NewRig(t *testing.T, change func(*Settings)) *Rig {
	t.Helper()
	return NewRigAt(t, time.Now, change)
}

// NewRigAt is NewRig on another clock.
func NewRigAt(t *testing.T, now func() time.Time, change func(*Settings)) *Rig {
	t.Helper()
	r := &Rig{
		T: t, Store: sqlitetest.Open(t, now), Limiter: NewLimiter(quota.NewMemory(now), nil), now: now,
		MailServer: &MailServer{}, Carrier: &Carrier{}, Printed: &servertest.Text{}, Settings: TestSettings(t),
		WrongCode: codetest.WrongCodes(t.Name()), Metrics: &Metrics{counts: map[string]int{}},
	}
	r.Logger = slog.New(slog.NewTextHandler(r.Printed, &slog.HandlerOptions{Level: slog.LevelDebug}))
	r.Settings.Tick = 10 * time.Second
	if change != nil {
		change(&r.Settings)
	}
	r.Svc = r.Replica(r.MailServer)
	if r.Settings.Form == RedisAway {
		r.LoseLimiter()
	}
	return r
}

// Replica returns another process over the same database and limiter.
func (r *Rig) Replica(s outbox.MailSender) *Service { return r.ReplicaOn(r.Store, s, r.Carrier) }

// ReplicaOn returns another process over the same limiter, or with its own one in the form
// WithoutRedis.
func (r *Rig) ReplicaOn(db core.Database, sender outbox.MailSender, c outbox.Carrier) *Service {
	limiter := NewLimiter(r.Limiter, nil)
	parts := core.Dependencies{
		Limiter: limiter, DB: db, Sender: sender, Carrier: c, Observer: r.Metrics,
		Logger: r.Logger, Now: r.now,
	}
	if r.Settings.Form == WithoutRedis {
		parts.SavedEvents = gates.NewSavedEvents(unfilteredEvents{r.Store}, NotAhead, r.now, r.Settings.Vault.SealBucket,
			r.Settings.Vault.OpenBucket, r.Logger)
		parts.Limiter = parts.SavedEvents.Limiter()
		r.NoError(parts.SavedEvents.Load(r.Context()))
	}
	p := New(r.Settings, parts)
	if r.Settings.Form == RedisAway {
		p.Gates.Stop() // the limiter stays away, and to try it once a second for a month would take minutes
	}
	return &Service{Limiter: limiter, Process: p}
}

// NotAhead returns how far a process's clock is ahead of the database's: not at all, because all
// processes use one clock.
func NotAhead() time.Duration { return 0 }

// unfilteredEvents is a database whose LimiterEvents ignores the number after which to read, so
// that each read returns all events.
type unfilteredEvents struct{ gates.EventDatabase }

func (u unfilteredEvents) LimiterEvents(ctx context.Context, reader, _ int64, limit int, yield func(store.LimiterEvent) error) error {
	return u.EventDatabase.LimiterEvents(ctx, reader, -1, limit, yield)
}

// Form says which limiter a service has beside the database.
type Form int

const (
	OnRedis      Form = iota
	RedisAway         // from the start
	WithoutRedis      // each process counts what the rows do not have, and reads what other processes counted
)

// InForms is InBubbleWith in each form of the service. It runs the form WithoutRedis also with a
// rule that the rows do not count.
func InForms(t *testing.T, change func(*Settings), test func(r *Rig)) {
	t.Helper()
	EachInForm(t, map[string]bool{"": true}, change, func(r *Rig, _ bool) { test(r) })
}

// EachInForm is InForms for each case.
func EachInForm[Case any](t *testing.T, cases map[string]Case, change func(*Settings), test func(r *Rig, c Case)) {
	t.Helper()
	unused := AlsoRules(quota.Rule{Name: "unused", Scope: quota.App, Limit: 10_000, Window: time.Hour, Observe: true})
	for name, form := range map[string]func(*Settings){
		"on Redis": func(*Settings) {}, "Redis away": func(s *Settings) { s.Form = RedisAway },
		"rows alone":        func(s *Settings) { s.Form = WithoutRedis },
		"memory for others": func(s *Settings) { s.Form = WithoutRedis; unused(s) },
	} {
		t.Run(name, func(t *testing.T) {
			EachInBubble(t, cases, func(s *Settings) {
				if change != nil {
					change(s)
				}
				form(s)
			}, test)
		})
	}
}

// TestSettings returns the built-in policies, shared by the purposes default and login of an app
// shop. They lack what would change the results of most tests: the rule on failures and
// suppressions (SuppressBounces adds these), a reserve (WithReserve), and retention. They serve no
// phone numbers (ServeCountries).
func TestSettings(t testing.TB) Settings {
	t.Helper()
	set := BuiltIn("failures")
	set.SuppressFor, set.Retention, set.Numbers = 0, 0, policy.ServedNumbers{}
	purpose := set.Purposes["default"]
	purpose.PolicyPurposes, purpose.BuiltIn, purpose.Reserve = []string{"default", "login"}, false, nil
	login := purpose
	login.Name = "login"
	set.Purposes = map[string]policy.Purpose{"default": purpose, "login": login}
	set.Apps = map[string]policy.App{"shop": {Title: "Shop"}}
	return Settings{Set: set, Vault: keys.Vault{IndexKey: []byte("an index key of 32 bytes or more"), Ring: KeyRing(t, "k1:"+OldKey)}}
}

// PoliciesWith returns the settings' policies with p for all purposes.
func (r *Rig) PoliciesWith(p quota.Policy) policy.Set {
	t := r.Settings.Set
	t.Purposes = maps.Clone(t.Purposes)
	for name, purpose := range t.Purposes {
		purpose.Policy = p
		t.Purposes[name] = purpose
	}
	return t
}

// Change puts p in force for all purposes.
func (r *Rig) Change(p quota.Policy) { r.Svc.Change(r.PoliciesWith(p)) }

// Pause replaces the pauses in force by these pauses.
func (r *Rig) Pause(pauses ...policy.Pause) {
	next := r.Svc.Policies()
	next.Pauses = pauses
	r.Svc.Change(next)
}

// WithRules gives all purposes these rules.
func WithRules(rules ...quota.Rule) func(*Settings) {
	return func(s *Settings) {
		for name, p := range s.Purposes {
			p.Policy.Rules = rules
			s.Purposes[name] = p
		}
	}
}

// WithReserve gives the rules of all purposes these reserves, by name.
func WithReserve(reserve map[string]int, change func(*Settings)) func(*Settings) {
	return func(s *Settings) {
		change(s)
		for name, p := range s.Purposes {
			p.Reserve = reserve
			s.Purposes[name] = p
		}
	}
}

// AlsoRules gives all purposes the default purpose's rules and these.
func AlsoRules(rules ...quota.Rule) func(*Settings) {
	return func(s *Settings) { WithRules(slices.Concat(s.Purposes["default"].Policy.Rules, rules)...)(s) }
}

// TestRecipient makes a mail address a test recipient for an hour.
func TestRecipient(t testing.TB, address, code string) func(*Settings) {
	return func(s *Settings) {
		s.TestRecipients = policy.TestCodes{
			s.Vault.AddressHash(ParseEmail(t, address)): {Code: code, Expires: time.Now().Add(time.Hour)},
		}
	}
}

// SubscribeAll sets a webhook of the shop for all events.
func SubscribeAll(s *Settings) {
	s.Subscriptions = map[string][]string{}
	for _, t := range store.EventTypes {
		s.Subscriptions["shop"] = append(s.Subscriptions["shop"], t.Name)
	}
}

// FoldGmail makes tags and dots of gmail.com addresses one mailbox.
func FoldGmail(s *Settings) {
	s.Vault.Folding = recipient.Folding{"gmail.com": {PlusTags: true, Dots: true}}
}

// ServeCountries limits text messages to these countries.
func ServeCountries(countries ...string) func(*Settings) {
	return func(s *Settings) { s.Numbers.Countries = countries }
}

// Start runs the background work of the service until Quit.
func (r *Rig) Start() {
	ctx, stop := context.WithCancel(context.Background())
	r.Stop = stop
	r.Stopped = make(chan struct{})
	go func() { defer close(r.Stopped); r.Svc.Run(ctx) }()
}

// StartReplica runs another process over the same database and limiter until the returned function
// is called.
func (r *Rig) StartReplica(s outbox.MailSender) (other *Service, stop func()) {
	other = r.Replica(s)
	return other, other.Background()
}

// Quit stops the service, and waits until all other goroutines of the bubble have ended or wait.
func (r *Rig) Quit() {
	if r.Stop != nil {
		r.Stop()
		<-r.Stopped
	}
	synctest.Wait()
}

// Sleep lets time pass in the bubble, and waits until all goroutines of the bubble wait again.
func (r *Rig) Sleep(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// Line prints values with spaces between them.
func Line(values ...any) string { return strings.TrimSuffix(fmt.Sprintln(values...), "\n") }

// Want fails the test unless got prints as want does.
func (r *Rig) Want(what string, got, want any) {
	r.Helper()
	if got, want := fmt.Sprint(got), fmt.Sprint(want); got != want {
		r.Errorf("%s: %s, want %s", what, got, want)
	}
}

// Equal is [servertest.Same].
func Equal[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	servertest.Same(t, what, got, want)
}

// NoError ends the test unless err is nil.
func (r *Rig) NoError(err error) {
	r.Helper()
	servertest.OK(r, err)
}

// ids matches UUIDs, which NoSecretLogged ignores: in one of a few thousand runs, a UUID would
// contain the digits of a code.
var ids = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)

// NoSecretLogged fails the test if a code or a recipient was logged.
func (r *Rig) NoSecretLogged() {
	r.Helper()
	out := ids.ReplaceAllString(r.Printed.String(), "")
	for _, m := range r.MailServer.Attempts() {
		if strings.Contains(out, CodeIn(m)) {
			r.Errorf("a code was logged")
		}
	}
	for _, m := range r.Carrier.Accepted() {
		if strings.Contains(out, m.Code) || strings.Contains(out, m.To[3:]) {
			r.Errorf("a code or a number was logged")
		}
	}
	if strings.Contains(out, "ana.maria") {
		r.Errorf("a recipient was logged: %s", out)
	}
}

// FailStore makes these methods of the database fail. If no method is named, the methods that write
// for the gates, the outbox and redemptions fail.
func (r *Rig) FailStore(how sqlitetest.Fault, methods ...string) {
	if len(methods) == 0 {
		methods = []string{"Begin", "Redeem", "Refused", "RenewLeases", "Finish", "Postpone", "TakeOver", "LeaseDueRefunds"}
	}
	r.Store.Fail(how, methods...)
}

// LoseStore makes the database unavailable to the gates and the outbox.
func (r *Rig) LoseStore() { r.FailStore(sqlitetest.Down) }

// EndStoreFaults ends all faults of the database.
func (r *Rig) EndStoreFaults() { r.Store.SetFault(nil) }
