// Package verificationtest runs the core of the service in tests that need no server. Such tests
// make the core only by New. A Rig has a database and a limiter in memory, in a bubble with its own
// clock. Packages pagetest and simulate pass their own parts to New, since they decide when each
// message ends, or what goes wrong. Package apptest runs the whole service on real servers.
package verificationtest

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/labstack/echo/v4"

	"sendcode/internal/base/message"
	"sendcode/internal/codes/keys"
	"sendcode/internal/codes/policy"
	"sendcode/internal/deliver/outbox"
	"sendcode/internal/deliver/sms"
	"sendcode/internal/deliver/webhook"
	"sendcode/internal/http/api"
	"sendcode/internal/http/server"
	"sendcode/internal/run/app/core"
	"sendcode/internal/run/config"
	"sendcode/internal/store/sqlite/sqlitetest"
	"sendcode/internal/verify/humancheck"
	"sendcode/internal/verify/verification"
	"sendcode/quota"
	"sendcode/templates"
)

// Settings has the settings of a process that tests choose.
type Settings struct {
	policy.Set
	outbox.Config
	Vault    keys.Vault
	Webhooks webhook.Settings
	JobTick  time.Duration         // core.Settings.Tick; 0: that of the outbox
	Receipts outbox.ReceiptSources // nil: no carrier is polled
	Form     Form                  // the form of a Rig's service
	Humans   map[string]humancheck.Check
}

// templatesOnce parses the templates of the service once for all tests, since parsing takes longer
// than most tests.
var templatesOnce = sync.OnceValues(func() (*message.MailRenderer, *message.TextRenderer) {
	mails, err := message.NewMailRenderer(templates.FS)
	texts, errTexts := message.NewTextRenderer(message.TextLimits{Segments: 1, Measure: sms.Segments}, templates.FS)
	if err := errors.Join(err, errTexts); err != nil {
		panic(err)
	}
	return mails, texts
})

// builtIn is the configuration of a service without settings.
var builtIn = sync.OnceValue(func() config.Config {
	c, err := config.Load(nil, nil)
	if err != nil {
		panic(err)
	}
	return c
})

// BuiltIn returns the policies of a service without settings, but without the rules of these names.
// Every set of a test begins with it, so that a new built-in rule or bound affects all tests.
func BuiltIn(without ...string) policy.Set {
	set := builtIn().PolicySet(time.Now())
	named := func(r quota.Rule) bool { return slices.Contains(without, r.Name) }
	for name, p := range set.Purposes {
		p.Policy.Rules = slices.DeleteFunc(p.Policy.Rules, named)
		set.Purposes[name] = p
	}
	if named(set.Breaker) {
		set.Breaker = quota.Rule{}
	}
	return set
}

// DefaultRules returns the default policy's rules without the rule on failures.
func DefaultRules() []quota.Rule { return BuiltIn("failures").Purposes["default"].Policy.Rules }

// Process is a core with its use cases.
type Process struct {
	*core.Core
	*verification.Service
	logger *slog.Logger
}

// New makes a process over a database, with the service's own templates. If parts are missing, it
// uses time.Now, a limiter in memory, a mail server that accepts everything, an Observer that does
// nothing, and a Logger that discards. Without a Carrier there are no text messages. Nothing runs
// in the background until Run.
func New(s Settings, p core.Dependencies) *Process {
	p.Mails, p.Texts = templatesOnce()
	if p.Observer == nil {
		p.Observer = &Metrics{}
	}
	if p.Logger == nil {
		p.Logger = slog.New(slog.DiscardHandler)
	}
	if p.Now == nil {
		p.Now = time.Now
	}
	if p.Limiter == nil {
		p.Limiter = quota.NewMemory(p.Now)
	}
	if p.Sender == nil {
		p.Sender = &MailServer{}
	}
	p.Receipts = s.Receipts
	s.MailFrom, s.Domain = "Shop <no-reply@shop.example>", "shop.example"
	c := core.New(core.Settings{
		Policy: withChecks(s.Set), Outbox: s.Config, Vault: s.Vault, Webhooks: s.Webhooks, Humans: s.Humans,
		Tick: cmp.Or(s.JobTick, s.Tick),
	}, p)
	c.Webhooks.Tick = cmp.Or(s.Tick, c.Webhooks.Tick)
	return &Process{Core: c, Service: c.Codes, logger: p.Logger}
}

// Start makes a process over its own database, and runs the process until the test ends.
func Start(t testing.TB, s Settings) *Process {
	t.Helper()
	p := New(s, core.Dependencies{DB: sqlitetest.Open(t, time.Now)})
	t.Cleanup(p.Background())
	return p
}

// Background runs the process until stop is called. stop waits for the process's end.
func (p *Process) Background() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	stopped := make(chan struct{})
	go func() { defer close(stopped); p.Run(ctx) }()
	return func() { cancel(); <-stopped }
}

// NewAPI makes the HTTP API of the process, for callers with these keys. s has the use cases, which
// a test may have wrapped; Limits and Proofs are the process's.
func (p *Process) NewAPI(s api.Services, keys api.Keys) *api.API {
	s.Limits, s.Proofs = p.Limits, p.Proofs
	return api.New(s, keys)
}

// Routes returns the HTTP API of the process, for callers with these keys. Of s, only Requests may
// be set.
func (p *Process) Routes(keys api.Keys, s api.Services) *echo.Echo {
	s.Codes = p.Service
	e := server.New(server.Config{Logger: p.logger})
	p.NewAPI(s, keys).Register(e)
	return e
}

// Policies returns the policies in force.
func (p *Process) Policies() policy.Set { return p.Policy.Get() }

// Change puts other policies in force.
func (p *Process) Change(to policy.Set) { p.Policy.Change(withChecks(to)) }

// Checks has the bounds on failed checks in tests that set none.
var Checks = BuiltIn().Checks

func withChecks(s policy.Set) policy.Set {
	s.Checks = cmp.Or(s.Checks, Checks)
	return s
}

// SetVault changes the keys of the parts that have a Vault.
func (p *Process) SetVault(to keys.Vault) {
	for _, of := range []*keys.Vault{
		&p.Vault, &p.Administration.Vault, &p.Outbox.Vault, &p.Repair.Vault, &p.Receipts.Vault, &p.ProviderEvents.Vault, &p.Proofs.Vault,
		&p.Service.Events.Vault, &p.Administration.Events.Vault, &p.Receipts.Events.Vault, &p.ProviderEvents.Events.Vault,
	} {
		*of = to
	}
}
