// Package core builds the parts that need no port, file or connection: gates, outbox, use cases,
// the deliverer of webhooks and the jobs. Its caller passes all other parts. Package app passes
// those that the configuration selects. Tests pass parts in memory and a clock, for example the
// fake clock of testing/synctest. The demonstration in tools/demo passes its own clock and mail
// servers.
//
// To add a service that Core uses, add a field to Dependencies. Set the field in newCore of package
// app, and set it to a stand-in in New of verificationtest.
package core

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"sendcode/internal/base/logs"
	"sendcode/internal/codes/keys"
	"sendcode/internal/codes/policy"
	"sendcode/internal/deliver/feedback"
	"sendcode/internal/deliver/outbox"
	"sendcode/internal/deliver/testmessage"
	"sendcode/internal/deliver/webhook"
	"sendcode/internal/limit/applimits"
	"sendcode/internal/limit/gates"
	"sendcode/internal/limit/refusals"
	"sendcode/internal/limit/repair"
	"sendcode/internal/run/jobs"
	"sendcode/internal/store"
	"sendcode/internal/verify/humancheck"
	"sendcode/internal/verify/proof"
	"sendcode/internal/verify/support"
	"sendcode/internal/verify/verification"
)

// Settings are the parts of the configuration that Core needs.
type Settings struct {
	Policy    policy.Set
	Outbox    outbox.Config
	Vault     keys.Vault
	HoldUntil time.Time // no send is admitted before this instant
	Webhooks  webhook.Settings
	Limits    applimits.Set
	Humans    map[string]humancheck.Check // by app
	Tick      time.Duration               // between two parts of a job; 0: jobs.DefaultTick
}

// Database is the interface of the database for all parts. Implementation: sqldb.DB.
type Database interface {
	verification.Store
	outbox.Store
	repair.Store
	gates.Database
	refusals.Database
	jobs.Store
	support.Store
	feedback.ReceiptStore
	feedback.EventStore
	proof.Store
	webhook.Database
}

// MailRenderer renders mails. Implementation: message.MailRenderer.
type MailRenderer interface {
	outbox.MailRenderer
	verification.LocaleChooser
	support.MailRenderer
}

// TextRenderer renders text messages. Implementation: message.TextRenderer.
type TextRenderer interface {
	verification.LocaleChooser
	support.TextRenderer
}

// Tracer traces attempts to deliver messages, and attempts to deliver events to webhooks.
// Implementation: traces.Traces.
type Tracer interface {
	outbox.Tracer
	webhook.Tracer
}

// Observer counts events for the metrics. It must not block.
type Observer interface {
	verification.Observer
	outbox.Observer
	jobs.Observer
	webhook.Observer
	LimitAnswered(limit string, o applimits.Operation, outcome string)
	CountRebuild()
}

// Dependencies are the services that a Core uses.
type Dependencies struct {
	DB          Database
	Limiter     gates.Limiter
	SavedEvents *gates.SavedEvents // saves the events of a Limiter in this process; if nil, they are not saved
	Mails       MailRenderer
	Sender      outbox.MailSender
	Texts       TextRenderer          // set if Carrier is set
	Carrier     outbox.Carrier        // nil: there are no text messages
	Receipts    outbox.ReceiptSources // nil: no carrier is asked for receipts
	Budget      verification.Budget   // nil: there is no cap on the cost of text messages
	Observer    Observer
	Tracer      Tracer // nil: there are no traces
	Logger      *slog.Logger
	Now         func() time.Time                  // the database's clock
	LocalNow    func() time.Time                  // this machine's clock; nil: Now is
	Random      func(time.Duration) time.Duration // returns a random duration below the given one; nil: rand.N
	Transport   http.RoundTripper                 // sends webhooks; nil: one that dials only what Settings.Webhooks.Guard allows
	// WrapOutbox wraps the outbox. For example, a wrapper may deliver each send before its request
	// ends. If WrapOutbox is nil, the outbox delivers in the background.
	WrapOutbox func(*outbox.Outbox) verification.Outbox
}

// Core is the part of the service that a process can run without ports, files and connections.
type Core struct {
	Policy         *policy.CurrentSet
	Gates          *gates.Gates
	Repair         *repair.Repair
	Outbox         *outbox.Outbox
	Refusals       *refusals.Batch
	Signer         *proof.Signer
	Codes          *verification.Service
	Administration *support.Administration
	Limits         *applimits.Service
	Proofs         *proof.Redeemer
	Receipts       *feedback.ReceiptRecorder
	ProviderEvents *feedback.ProviderEvents
	Webhooks       *webhook.Deliverer
	Maintenance    *jobs.Maintenance

	settings     Settings
	dependencies Dependencies
}

// New connects the services. Nothing runs in the background until Run.
func New(s Settings, p Dependencies) *Core {
	c := &Core{
		settings: s, dependencies: p, Policy: policy.NewCurrentSet(s.Policy, p.Now),
		Refusals: refusals.New(p.DB, p.Now, p.Logger),
		Signer:   proof.New(s.Vault.Ring),
	}
	c.Webhooks = webhook.New(s.Webhooks, webhook.Dependencies{
		DB: p.DB, Observer: p.Observer, Tracer: p.Tracer, Logger: p.Logger,
		Now: p.Now, Random: p.Random,
		Transport: p.Transport,
	})
	ids := &store.IDGenerator{}
	events := webhook.Events{Policy: c.Policy, Vault: s.Vault, IDs: ids, Now: p.Now, WakeWebhooks: c.Webhooks.Wake}
	if p.LocalNow == nil {
		p.LocalNow = p.Now
	}
	c.Gates = gates.New(p.Limiter, p.DB, c.Policy, p.Observer.CountRebuild, p.Now, p.LocalNow, p.Logger)
	c.Repair = &repair.Repair{
		Store: p.DB, Limiter: c.Gates, Policy: c.Policy, Vault: s.Vault, Now: p.Now, Logger: p.Logger,
		Lease: cmp.Or(s.Outbox.Lease, outbox.DefaultLease), Tick: cmp.Or(s.Outbox.Tick, outbox.DefaultTick),
	}
	c.Outbox = outbox.New(s.Outbox, outbox.Dependencies{
		Events: events, Store: p.DB, Limiter: c.Gates, Repair: c.Repair, Mails: p.Mails, Sender: p.Sender,
		Texts: p.Texts, Carrier: p.Carrier, Receipts: p.Receipts, Observer: p.Observer, Tracer: p.Tracer, Logger: p.Logger,
		Random: p.Random,
	})
	c.addUseCases(events, ids)
	return c
}

func (c *Core) addUseCases(events webhook.Events, ids *store.IDGenerator) {
	s, p := c.settings, c.dependencies
	read := verification.ReadDependencies{
		Policy: c.Policy, Vault: s.Vault, IDs: ids, Now: p.Now, Events: events, Rows: p.DB, Gates: c.Gates, Refusals: c.Refusals,
		Mails: p.Mails, Budget: p.Budget, Observer: p.Observer, Logger: p.Logger,
	}
	send := verification.SendDependencies{
		Store: p.DB, Repair: c.Repair, Outbox: c.Outbox, Lease: c.Outbox.Lease, HoldUntil: s.HoldUntil,
	}
	if p.WrapOutbox != nil {
		send.Outbox = p.WrapOutbox(c.Outbox)
	}
	administration := support.Dependencies{
		Policy: c.Policy, Vault: s.Vault, Now: p.Now, Events: events, Mails: p.Mails, NotMeURL: s.Outbox.NotMeURL, Store: p.DB,
		Limiter: c.Gates, Logger: p.Logger,
	}
	test := testmessage.Sender{Mails: p.Mails, Mail: p.Sender, MailFrom: s.Outbox.MailFrom, Domain: s.Outbox.Domain, Now: p.Now}
	if p.Carrier != nil {
		read.Texts, administration.Texts = p.Texts, p.Texts
		test.Texts, test.Carrier = p.Texts, p.Carrier
	}
	administration.TestMessages = test
	c.Codes = verification.New(read, send, verification.CheckDependencies{Checks: p.DB, ProofSigner: c.Signer}, s.Humans)
	administration.Codes = c.Codes
	c.Administration = support.New(administration)
	c.Proofs = &proof.Redeemer{Store: p.DB, Proofs: c.Signer, Vault: s.Vault, Policy: c.Policy, Now: p.Now}
	c.Limits = applimits.New(c.Gates, s.Vault.IndexKey, s.Limits, p.Observer.LimitAnswered)
	c.Receipts = &feedback.ReceiptRecorder{Vault: s.Vault, Events: events, Store: p.DB, Carriers: p.Receipts, Logger: p.Logger}
	c.ProviderEvents = &feedback.ProviderEvents{Policy: c.Policy, Vault: s.Vault, Events: events, Store: p.DB, Logger: p.Logger}
	c.Maintenance = &jobs.Maintenance{
		Policy: c.Policy, Now: p.Now, Events: events, Store: p.DB, Watch: s.Outbox.Watch, Tick: s.Tick, Observer: p.Observer,
		Logger: p.Logger, AskStrangers: c.Codes.AskStrangers,
	}
}

func (c *Core) jobs() []jobs.Job {
	table := append(c.Maintenance.Jobs(),
		jobs.Job{Name: "refusals", Every: jobs.DefaultTick, Run: jobs.InfallibleRun(c.Refusals.WriteDue)},
		jobs.Job{Name: "wrong codes", Every: jobs.DefaultTick, Run: jobs.InfallibleRun(c.Codes.CountWrongCodes), AtStop: true},
		jobs.Job{Name: "alarms", Every: jobs.DefaultTick, Run: jobs.InfallibleRun(c.Codes.LogAlarms)},
	)
	if k := c.dependencies.SavedEvents; k != nil {
		table = append(table, jobs.Job{Name: "limiter", Every: gates.KeepEvery, Run: k.Sync})
	}
	if c.dependencies.Receipts != nil && c.settings.Outbox.PollAfter > 0 {
		table = append(table, jobs.Job{Name: "receipts", Every: jobs.DefaultTick, Run: c.Receipts.Poll})
	}
	return table
}

// lastWriteWait bounds two steps of a stop: to make the refunds that the limiter has not made yet,
// and to write the last refusals.
const lastWriteWait = 5 * time.Second

// Run delivers messages and webhooks until ctx ends. It also runs the core's own jobs and the jobs
// in more. After ctx ends, Run ends or releases the sends in flight. Last, it writes the unwritten
// events of Dependencies.SavedEvents.
func (c *Core) Run(ctx context.Context, more ...jobs.Job) {
	repairs, endRepairs := context.WithCancel(context.WithoutCancel(ctx))
	var work, repairing sync.WaitGroup
	repairing.Go(func() { c.Repair.Run(repairs) })
	work.Go(func() { c.Outbox.Run(ctx) })
	work.Go(func() {
		jobs.Run(ctx, append(c.jobs(), more...), c.settings.Tick, c.dependencies.Observer, c.dependencies.Logger)
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWriteWait)
		defer cancel()
		c.Refusals.Flush(last)
	})
	work.Go(func() { c.Webhooks.Run(ctx) })
	work.Wait()
	endRepairs() // after the last outcome
	repairing.Wait()
	c.Gates.Stop()
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWriteWait)
	c.Gates.MakePendingRefunds(last) // refunds that the last try of Stop had no time for
	cancel()
	if k := c.dependencies.SavedEvents; k != nil {
		if err := k.Flush(context.WithoutCancel(ctx)); err != nil {
			c.dependencies.Logger.Warn("limiter's last events not written", "error", err, logs.SeeJobs)
		}
	}
}
