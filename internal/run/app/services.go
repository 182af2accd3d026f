package app

import (
	"sendcode/internal/base/recipient"
	"sendcode/internal/deliver/outbox"
	"sendcode/internal/http/page"
	"sendcode/internal/run/app/core"
)

// notMeURL returns the URL at which recipients report unwanted mails, without the token of a mail.
// It is "" if the service's URL is not known.
func (a *App) notMeURL() string {
	if base := a.cfg.BaseURL(); base != "" {
		return base + page.NotMePath
	}
	return ""
}

// newCore starts no background work except the probes of the human checks' vendors.
func (a *App) newCore() error {
	var err error
	if a.mails, err = NewMailRenderer(a.cfg, ""); err != nil {
		return err
	}
	own, err := a.readAppTemplates(a.cfg)
	if err != nil {
		return err
	}
	a.useTemplates(own)
	a.core = core.New(core.Settings{
		Policy: a.cfg.PolicySet(a.now()), Vault: a.keys, HoldUntil: a.cfg.HoldUntil, Webhooks: webhookSettings(a.cfg),
		Limits: limitSet(a.cfg),
		Outbox: outbox.Config{
			MailFrom: a.cfg.MailFrom, Domain: a.cfg.MailDomain(), IDHeaders: providerHeaders(a.cfg), Watch: a.prefixWatch(),
			NotMeURL: a.notMeURL(), PollAfter: a.receiptPollDelay(),
			ResendOther: map[recipient.Channel]bool{
				recipient.Email: a.cfg.ResendsOther() && len(a.servers) > 1,
				recipient.SMS:   a.cfg.ResendsOther() && len(a.cfg.SMS.Carriers) > 1,
			},
			// Each worker uses one connection. With fewer workers some connections would stay idle.
			Workers: max(outbox.DefaultWorkers, a.servers.MaxConns()),
		},
	}, a.traceCore(core.Dependencies{
		DB: a.db, Limiter: a.limiter, SavedEvents: a.savedEvents, Mails: a.mails, Sender: a.servers, Texts: a.texts, Carrier: a.carrier,
		Receipts: a.receiptSources(), Budget: a.budget,
		Observer: a.metrics, Logger: a.logger, Now: a.now, LocalNow: a.localNow,
	}))
	checks, err := a.prepareHumanChecks(a.cfg)
	if err != nil {
		return err
	}
	a.metrics.RegisterHumanCheckVendors(a.vendorHealth)
	a.onClose(a.stopVendors)
	a.useHumanChecks(checks)
	return nil
}
