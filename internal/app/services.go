package app

import (
	"sendcode/internal/gates"
	"sendcode/internal/jobs"
	"sendcode/internal/keys"
	"sendcode/internal/limits"
	"sendcode/internal/outbox"
	"sendcode/internal/policy"
	"sendcode/internal/proof"
	"sendcode/internal/redemption"
	"sendcode/internal/refusals"
	"sendcode/internal/reports"
	"sendcode/internal/support"
	"sendcode/internal/verification"
	"sendcode/internal/webhook"
)

// services are the use cases, and what several of them need.
type services struct {
	policy    *policy.InForce
	gates     *gates.Gates
	keys      keys.Vault
	outbox    *outbox.Outbox
	refused   *refusals.Batch
	signer    *proof.Signer
	codes     *verification.Service
	desk      *support.Desk
	limits    *limits.Service
	proofs    *redemption.Service
	receipts  *reports.Receipts
	providers *reports.Providers
}

// newOutbox creates the outbox and what it needs (templates, keys, policies, gate), and the worker that delivers apps' events. Neither
// runs yet.
func (a *App) newOutbox() error {
	var err error
	if a.mails, err = a.newRenderer(""); err != nil {
		return err
	}
	own, err := a.readAppTemplates(a.cfg)
	if err != nil {
		return err
	}
	a.useTemplates(own)
	a.policy = policy.NewInForce(a.cfg.PolicySet(a.now()), a.now)
	a.hooks = webhook.New(webhookSettings(a.cfg), webhook.Parts{DB: a.db, Logger: a.logger, Observer: a.metrics})
	a.gates = gates.New(a.limiter, a.db, a.policy, a.now, a.logger)
	a.outbox = outbox.New(outbox.Config{
		MailFrom: a.cfg.MailFrom, Domain: a.cfg.MailDomain(), Marks: providerHeaders(a.cfg), Watch: a.prefixWatch(),
		AskAfter: a.receiptPollDelay(),
		Workers:  max(outbox.DefaultWorkers, a.servers.MaxConns()), // a connection without a worker would be of no use
	}, outbox.Parts{
		Store: a.db, Limiter: a.gates, Policy: a.policy, Vault: a.keys, Mails: a.mails, Sender: a.sender, Texts: a.texts, Carrier: a.carrier,
		Receipts: a.receiptPoller(), Observer: a.metrics, IDs: a.ids, Now: a.now, Logger: a.logger, Notify: a.hooks.Wake,
	})
	a.gates.RefundLater = a.outbox.RefundLater
	return nil
}

// newServices creates the use cases on the outbox and the database, and package support on the use cases.
func (a *App) newServices(through verification.Outbox) {
	a.refused = refusals.New(a.db, a.now, a.logger)
	a.signer = proof.New(a.ring)
	codes := verification.Parts{
		Store: a.db, Gates: a.gates, Outbox: through, Refusals: a.refused, Policy: a.policy, Vault: a.keys, Mails: a.mails,
		Prover: a.signer, Observer: a.metrics, Lease: outbox.DefaultLease, IDs: a.ids, Now: a.now, Logger: a.logger, Notify: a.hooks.Wake,
		HoldUntil: a.cfg.HoldUntil,
	}
	teller := webhook.Teller{Policy: a.policy, Vault: a.keys, IDs: a.ids, Now: a.now, Notify: a.hooks.Wake}
	desk := support.Parts{
		Teller: teller,
		Store:  a.db, Limiter: a.gates, Refusals: a.refused, Policy: a.policy, Vault: a.keys, Mails: a.mails, Now: a.now, Logger: a.logger,
	}
	if a.carrier != nil {
		codes.Texts, desk.Texts = a.texts, a.texts
	}
	a.codes = verification.New(codes)
	desk.Codes = a.codes
	a.desk = support.New(desk)
	a.proofs = &redemption.Service{Store: a.db, Proofs: a.signer, Vault: a.keys, Policy: a.policy, Now: a.now}
	a.limits = limits.New(a.gates, a.cfg.IndexKeyBytes(), limitSet(a.cfg), a.metrics.LimitAnswered)
	a.receipts = &reports.Receipts{Store: a.db, Carriers: a.receiptPoller(), Vault: a.keys, Teller: teller, Logger: a.logger}
	a.providers = &reports.Providers{Store: a.db, Policy: a.policy, Vault: a.keys, Teller: teller, Logger: a.logger}
}

// jobs returns the periodic jobs.
func (a *App) jobs() []jobs.Job {
	maintenance := &jobs.Maintenance{Store: a.db, Policy: a.policy, Watch: a.prefixWatch(), Observer: a.metrics, Now: a.now, Logger: a.logger,
		Teller: webhook.Teller{Policy: a.policy, Vault: a.keys, IDs: a.ids, Now: a.now, Notify: a.hooks.Wake}}
	table := append(maintenance.Table(),
		jobs.Job{Name: "keys", Every: keysEvery, Run: a.keyCheck.run},
		jobs.Job{Name: "refusals", Every: jobs.DefaultTick, Run: jobs.Func(a.refused.Flush), AtStop: true},
		jobs.Job{Name: "alarms", Every: jobs.DefaultTick, Run: jobs.Func(a.codes.LogAlarms)},
	)
	if a.receiptPoller() != nil && a.receiptPollDelay() > 0 {
		table = append(table, jobs.Job{Name: "receipts", Every: jobs.DefaultTick, Run: a.receipts.Poll})
	}
	return table
}
