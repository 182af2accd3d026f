// Package verificationtest joins the use cases, the outbox, the jobs and support into one process for tests, as internal/app does it
// for the service. A Rig is such a process over a database and a limiter in memory, in a bubble with a clock of its own.
package verificationtest

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"

	"sendcode/internal/gates"
	"sendcode/internal/jobs"
	"sendcode/internal/keys"
	"sendcode/internal/outbox"
	"sendcode/internal/policy"
	"sendcode/internal/refusals"
	"sendcode/internal/reports"
	"sendcode/internal/store"
	"sendcode/internal/support"
	"sendcode/internal/verification"
	"sendcode/internal/webhook"
	"sendcode/quota"
)

// Settings are what tests choose.
type Settings struct {
	policy.Set
	outbox.Config
	Vault    keys.Vault
	Receipts outbox.Receipts // nil: no carrier is asked
}

// Database is the database as all parts of a process need it.
type Database interface {
	verification.Store
	outbox.Store
	gates.Database
	refusals.Database
	jobs.Store
	support.Store
	reports.ReceiptStore
	reports.EventStore
}

// Mails are the templates of mails.
type Mails interface {
	outbox.MailRenderer
	support.Mails
	verification.Languages
}

// Texts are the templates of text messages.
type Texts interface {
	support.Texts
	verification.Languages
}

// Parts are what a process works with.
type Parts struct {
	Limiter gates.Limiter
	DB      Database
	Mails   Mails
	Sender  outbox.Sender
	Texts   Texts          // with Carrier
	Carrier outbox.Carrier // nil: there are no text messages
	Logger  *slog.Logger
	Now     func() time.Time                  // nil: time.Now
	Random  func(time.Duration) time.Duration // below the one given; nil: rand.N
	Notify  func()                            // called when an app's event is in the database
	Prover  verification.Prover
}

// Process is the use cases with all that works beside them.
type Process struct {
	*verification.Service
	Desk        *support.Desk
	Rebuilder   *gates.Gates
	Queue       *outbox.Outbox
	Receipts    *reports.Receipts
	Providers   *reports.Providers
	Maintenance *jobs.Maintenance
	Table       []jobs.Job
	tick        time.Duration
}

// New puts a process together. Nothing runs in the background until Run.
func New(s Settings, p Parts) *Process {
	if p.Now == nil {
		p.Now = time.Now
	}
	if p.Notify == nil {
		p.Notify = func() {}
	}
	in := policy.NewInForce(withChecks(s.Set), p.Now)
	both := gates.New(p.Limiter, p.DB, in, p.Now, p.Logger)
	refused := refusals.New(p.DB, p.Now, p.Logger)
	ids := &store.IDs{}
	s.MailFrom, s.Domain = "Shop <no-reply@shop.example>", "shop.example"
	queue := outbox.New(s.Config, outbox.Parts{
		Store: p.DB, Limiter: both, Policy: in, Vault: s.Vault, Mails: p.Mails, Sender: p.Sender, Texts: p.Texts, Carrier: p.Carrier,
		Receipts: s.Receipts, Observer: &Observed{}, IDs: ids, Now: p.Now, Logger: p.Logger, Random: p.Random, Notify: p.Notify,
	})
	both.RefundLater = queue.RefundLater
	codes := verification.Parts{
		Store: p.DB, Gates: both, Outbox: queue, Refusals: refused, Policy: in, Vault: s.Vault, Mails: p.Mails,
		Observer: &Observed{}, Lease: queue.Lease, IDs: ids, Now: p.Now, Logger: p.Logger, Prover: p.Prover, Notify: p.Notify,
	}
	teller := webhook.Teller{Policy: in, Vault: s.Vault, IDs: ids, Now: p.Now, Notify: p.Notify}
	desk := support.Parts{
		Teller: teller, Store: p.DB, Limiter: both, Refusals: refused, Policy: in, Vault: s.Vault, Mails: p.Mails, Now: p.Now, Logger: p.Logger,
	}
	if p.Carrier != nil {
		codes.Texts, desk.Texts = p.Texts, p.Texts
	}
	o := &Process{
		Service: verification.New(codes), Rebuilder: both, Queue: queue, tick: s.Tick,
		Receipts:    &reports.Receipts{Store: p.DB, Carriers: s.Receipts, Vault: s.Vault, Teller: teller, Logger: p.Logger},
		Providers:   &reports.Providers{Store: p.DB, Policy: in, Vault: s.Vault, Teller: teller, Logger: p.Logger},
		Maintenance: &jobs.Maintenance{Store: p.DB, Policy: in, Watch: s.Watch, Tick: s.Tick, Now: p.Now, Teller: teller, Logger: p.Logger},
	}
	desk.Codes = o.Service
	o.Desk = support.New(desk)
	o.Table = append(o.Maintenance.Table(),
		jobs.Job{Name: "refusals", Run: jobs.Func(refused.Flush), AtStop: true},
		jobs.Job{Name: "alarms", Run: jobs.Func(o.LogAlarms)},
	)
	if s.Receipts != nil && s.AskAfter > 0 {
		o.Table = append(o.Table, jobs.Job{Name: "receipts", Run: o.Receipts.Poll})
	}
	return o
}

// Run works in the background until ctx ends.
func (p *Process) Run(ctx context.Context) {
	var work sync.WaitGroup
	work.Go(func() { p.Queue.Run(ctx) })
	work.Go(func() { jobs.Run(ctx, p.Table, p.tick, p.Logger) })
	work.Wait()
}

// Terms are the policies in force.
func (p *Process) Terms() policy.Set { return p.Policy.Get() }

// Change puts other policies in force.
func (p *Process) Change(to policy.Set) bool { return p.Policy.Change(withChecks(to)) }

// Checks are the bounds on failed checks where a test sets none.
var Checks = policy.Checks{
	Network:     quota.Rule{Name: "network", Scope: quota.IP, Limit: 100, Window: time.Hour},
	WideNetwork: quota.Rule{Name: "wide_network", Scope: quota.Network, Limit: 300, Window: time.Hour},
	App:         quota.Rule{Name: "app", Scope: quota.App, Limit: 10_000, Window: time.Hour},
}

func withChecks(s policy.Set) policy.Set {
	s.Checks = cmp.Or(s.Checks, Checks)
	return s
}

// Use changes the keys of all parts.
func (p *Process) Use(keys keys.Vault) {
	p.Vault, p.Desk.Vault, p.Queue.Vault, p.Receipts.Vault, p.Providers.Vault = keys, keys, keys, keys, keys
}

// Observer is all that a process may observe.
type Observer interface {
	verification.Observer
	outbox.Observer
	jobs.Observer
}

// Observe changes the observer of all parts.
func (p *Process) Observe(o Observer) { p.Observer, p.Queue.Observer, p.Maintenance.Observer = o, o, o }
