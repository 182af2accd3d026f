package app

import (
	"context"
	"time"

	"sendcode/internal/feedback"
	"sendcode/internal/gates"
	"sendcode/internal/jobs"
	"sendcode/internal/limits"
	"sendcode/internal/metrics"
	"sendcode/internal/outbox"
	"sendcode/internal/policy"
	"sendcode/internal/proof"
	"sendcode/internal/redemption"
	"sendcode/internal/refusals"
	"sendcode/internal/store"
	"sendcode/internal/support"
	"sendcode/internal/vault"
	"sendcode/internal/verification"
)

// services are what everything else is an edge of.
type services struct {
	policy    *policy.InForce
	gate      *gates.Gate
	outbox    *outbox.Outbox
	codes     *verification.Service
	desk      *support.Desk
	limits    *limits.Service
	proofs    *redemption.Service
	receipts  *feedback.Receipts
	providers *feedback.Providers
	jobs      []jobs.Job
}

// newServices puts them together: the use cases upon the outbox and the gate, support upon the use cases, and the table of jobs.
func (a *App) newServices(m *metrics.Metrics) (services, error) {
	ring, err := a.ring()
	if err != nil {
		return services{}, err
	}
	if a.mails, err = a.renderer(); err != nil {
		return services{}, err
	}
	own, err := a.templatesOf(a.cfg)
	if err != nil {
		return services{}, err
	}
	a.use(own)
	keys := vault.Vault{IndexKey: a.cfg.IndexKeyBytes(), Folding: a.cfg.Folding(), Ring: ring}
	ids := &store.IDs{}
	s := services{policy: policy.NewInForce(policies(a.cfg), time.Now)}
	s.gate = gates.New(a.limiter, a.log, s.policy, time.Now, a.logger)
	s.outbox = outbox.New(outbox.Config{
		MailFrom: a.cfg.MailFrom, Domain: a.cfg.MailDomain(), Marks: marks(a.cfg), Watch: a.watchOf(), AskAfter: a.askAfter(),
		Workers: max(outbox.DefaultWorkers, a.mail.Conns()), // a connection without a worker would be of no use
	}, outbox.Parts{
		Store: a.log, Gate: s.gate, Policy: s.policy, Vault: keys, Renderer: a.mails, Sender: a.mail, Texts: a.texts, Carrier: a.carrier,
		Receipts: a.pollable(), Observer: m, IDs: ids, Now: time.Now, Logger: a.logger, Notify: a.hooks.Wake,
	})
	refused := refusals.New(a.log, time.Now, a.logger)
	codes := verification.Parts{
		Store: a.log, Gate: s.gate, Outbox: s.outbox, Refusals: refused, Policy: s.policy, Vault: keys, Mails: a.mails,
		Prover: proof.New(ring), Observer: m, Lease: outbox.DefaultLease, IDs: ids, Now: time.Now, Logger: a.logger, Notify: a.hooks.Wake,
	}
	desk := support.Parts{
		Store: a.log, Limiter: s.gate, Refusals: refused, Policy: s.policy, Vault: keys, Mails: a.mails,
		Now: time.Now, Logger: a.logger,
	}
	if a.carrier != nil {
		codes.Texts, desk.Texts = a.texts, a.texts
	}
	s.codes = verification.New(codes)
	s.proofs = &redemption.Service{Store: a.log, Proofs: proof.New(ring), Vault: keys, Policy: s.policy, Now: time.Now, Logger: a.logger}
	s.limits = limits.New(s.gate, a.cfg.IndexKeyBytes(), limitSet(a.cfg), m.Limited)
	desk.Codes = s.codes
	s.desk = support.New(desk)
	s.receipts = &feedback.Receipts{Store: a.log, Carriers: a.pollable(), Vault: keys, Logger: a.logger}
	s.providers = &feedback.Providers{Store: a.log, Policy: s.policy, Vault: keys, Logger: a.logger}
	s.jobs = a.jobTable(s, refused.Flush, m)
	return s, nil
}

// jobTable is what is done from time to time.
func (a *App) jobTable(s services, flushRefusals func(context.Context), m *metrics.Metrics) []jobs.Job {
	log := &jobs.Log{Store: a.log, Policy: s.policy, Watch: a.watchOf(), Observer: m, Now: time.Now, Logger: a.logger}
	table := append(log.Table(),
		jobs.Job{Name: "refusals", Every: jobs.DefaultTick, Run: jobs.Simple(flushRefusals), AtStop: true},
		jobs.Job{Name: "alarms", Every: jobs.DefaultTick, Run: jobs.Simple(s.codes.LogAlarms)},
	)
	if a.pollable() != nil && a.askAfter() > 0 {
		table = append(table, jobs.Job{Name: "receipts", Every: jobs.DefaultTick, Run: s.receipts.Poll})
	}
	return table
}
