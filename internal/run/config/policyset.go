package config

import (
	"cmp"
	"net/mail"
	"slices"
	"time"

	"sendcode/internal/base/message"
	"sendcode/internal/base/recipient"
	"sendcode/internal/base/texts"
	"sendcode/internal/codes/policy"
	"sendcode/quota"
)

// No setting changes these constants; docs/decisions/0012-settings.md says why.
const (
	appFailedChecksPerHour = 10_000              // beyond it an alarm is logged
	suppressionTime        = 30 * 24 * time.Hour // after a permanent bounce, a complaint or an opt-out
)

// PolicySet returns the policies, purposes and apps, and the stops in force at the instant now.
// Stops are blocked recipients, and paused channels and purposes. PolicySet leaves out stops that
// have ended.
func (c Config) PolicySet(now time.Time) policy.Set {
	breaker, hourly := c.Breaker, c.FailedChecksPerHour
	set := policy.Set{
		Purposes: map[string]policy.Purpose{}, Apps: map[string]policy.App{}, Subscriptions: map[string][]string{},
		TestRecipients: policy.TestCodes{},
		Checks: policy.FailedCheckRules{
			Network:     quota.Rule{Name: "network", Scope: quota.IP, Limit: hourly, Window: time.Hour},
			WideNetwork: quota.Rule{Name: "wide_network", Scope: quota.Network, Limit: 3 * hourly, Window: time.Hour},
			App:         quota.Rule{Name: "app", Scope: quota.App, Limit: appFailedChecksPerHour, Window: time.Hour},
		},
		SuppressFor: suppressionTime, Retention: c.Retention,
		Numbers: c.servedNumbers(),
		Reports: map[recipient.Channel]bool{
			recipient.Email: len(c.Providers) > 0,
			recipient.SMS:   c.PublicURL != "" || slices.ContainsFunc(c.SMS.Carriers, SMSCarrier.Polled),
		},
		Breaker: quota.Rule{
			Name: policy.BreakerName, Scope: policy.BreakerScope, Limit: breaker.Limit,
			Window: breaker.Window,
		},
		BreakerReserve: breaker.Reserve,
	}
	set.Blocks, set.Pauses = c.stopsInForce(now)
	for name, p := range c.Purposes {
		set.Purposes[name] = c.purpose(name, p)
	}
	for _, a := range c.Apps {
		app := policy.App{
			Title: c.TitleOf(a), Sender: a.MailFrom, Brand: a.EffectiveBrand(), Site: a.SMSOrigin, AndroidHash: a.SMSHash,
			ReachedByStrangers: c.reachedByStrangers(a),
		}
		if a.SMSWatch != (watchSettings{}) {
			app.Watch = a.SMSWatch.withDefaultsFrom(c.SMS.Watch).PrefixWatch()
		}
		set.Apps[a.Name] = app
		if a.Webhook.URL != "" { // without a URL no event is written
			set.Subscriptions[a.Name] = a.Webhook.Events
		}
	}
	for _, t := range c.TestRecipients {
		set.TestRecipients[t.To.Hash(c.IndexKeyBytes())] = policy.TestCode{Code: t.Code, Expires: t.Expires}
	}
	return set
}

func (c Config) purpose(name string, p purpose) policy.Purpose {
	of := p.Purpose
	of.Name, of.CodeLength, of.Alphabet = name, p.Code.Length, p.Code.Alphabet
	of.Policy, of.Reserve, of.BuiltIn = c.policy(p.PolicyName), map[string]int{}, c.builtIn &&
		p.PolicyName == defaultName
	of.PolicyPurposes, of.Titles = c.purposesWithPolicy(p.PolicyName), message.NewPurposeTitles(p.titles())
	for _, r := range c.Policies[p.PolicyName] {
		if r.Reserve > 0 {
			of.Reserve[r.Name] = r.Reserve
		}
	}
	return of
}

// titles returns the words that say what the purpose's codes are for. The keys of the map are
// languages.
func (p purpose) titles() map[string]string {
	if p.Kind != purposeKindConfirm || len(p.Title) > 0 {
		return p.Title
	}
	built := map[string]string{}
	for _, w := range texts.PageLanguages() {
		built[w.Lang()] = w.Section(texts.PageSection)["ToConfirm"]
	}
	return built
}

// policy returns the policy of this name; without rules if there is none.
func (c Config) policy(name string) quota.Policy {
	p := quota.Policy{Name: name}
	for _, r := range c.Policies[name] {
		p.Rules = append(p.Rules, r.quotaRule(r.Name, r.Scope))
	}
	return p
}

// servedNumbers returns the phone numbers to which codes are sent. The dev mailbox accepts numbers
// of every country, unless the settings list countries.
func (c Config) servedNumbers() policy.ServedNumbers {
	return policy.ServedNumbers{
		Countries:  slices.Sorted(slices.Values(c.SMS.Countries)),
		Everywhere: c.SMSToDevMailbox() && len(c.SMS.Countries) == 0, RefuseVoIP: c.SMS.VoIP == "refuse",
	}
}

// EffectiveBrand returns the app's logo, colour and home link.
func (a App) EffectiveBrand() message.Brand {
	return message.NewBrand(a.Brand.Logo, a.Brand.Accent, a.Brand.Home)
}

// TitleOf returns an app's name in messages: its title, or its name if it has no title. If the app
// named "default" has no title, it has the name of the sender, since "default" means nothing to
// people.
func (c Config) TitleOf(a App) string {
	if a.Name == defaultApp {
		return cmp.Or(a.Title, c.SenderOf(a).Name, a.Name)
	}
	return cmp.Or(a.Title, a.Name)
}

// SenderOf returns the address and name that an app's mails come from.
func (c Config) SenderOf(a App) mail.Address {
	from, err := mail.ParseAddress(cmp.Or(a.MailFrom, c.MailFrom))
	if err != nil {
		return mail.Address{}
	}
	return *from
}
