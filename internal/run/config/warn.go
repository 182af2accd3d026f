package config

import (
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"sendcode/internal/base/document"
	"sendcode/internal/base/loopback"
	"sendcode/internal/codes/policy"
	"sendcode/internal/deliver/delivery/mailserver"
	"sendcode/quota"
)

// UpdateWarnings sets Warnings. There is a warning for each setting that works but may surprise the
// administrator. Call UpdateWarnings again after Addr or AdminAddr has been set to the real address
// of a listener.
func (c *Config) UpdateWarnings(now time.Time) {
	c.Warnings = nil
	add := func(when bool, format string, args ...any) {
		if when {
			c.Warnings = append(c.Warnings, fmt.Sprintf(format, args...))
		}
	}
	shared := c.DatabaseURL != ""
	add(shared && c.RedisURL == "",
		"SENDCODE_REDIS_URL is not set: rules on recipients stay exact, since Postgres decides them. "+
			"Of the other rules, replicas hear of each other's sends up to two seconds late, and with windows of up to 10 s not at all.")
	add(!shared && c.RedisURL != "",
		"SENDCODE_REDIS_URL is set without SENDCODE_DATABASE_URL: the database is the SQLite file in %s, which only one process can use, "+
			"and one process needs no Redis.",
		document.PrintablePath(c.DataDir))
	add(!shared && c.DatabaseRole != "",
		"SENDCODE_DATABASE_ROLE has no effect without SENDCODE_DATABASE_URL: SQLite has no roles.")
	add(shared && !(c.SecretKeys.IsSet() && c.IndexKey.IsSet()),
		"SENDCODE_SECRET_KEYS and SENDCODE_INDEX_KEY are not both set: the "+
			"generated ones belong to this data directory. A second replica with another directory could not check the "+
			"codes of this one, and would count the same recipients separately.")
	info, err := os.Stat(filepath.Join(c.DataDir, SecretsFile))
	add(err == nil && sharedByFSGroup(info),
		"%s in the data directory can be read by its group, because of fsGroup: give that group to no "+
			"other pod.", SecretsFile)
	add(!c.GeneratesAPIKey() && !c.hasSecretKeys(),
		"No app has a secret key, so no back end can ask for a code: make one with `sendcode key`, and set it as SENDCODE_API_KEY, "+
			"or add its line to the keys of an app.")
	add(c.disposableSkipped != "", "%s", c.disposableSkipped)
	add(c.BaseURL() == "", "SENDCODE_PUBLIC_URL is not set: mails have no link by which their recipients can report them.")
	add(!c.isTrial() && !c.AdminLoginEnabled(),
		"Neither SENDCODE_ADMIN_PASSWORD nor SENDCODE_ADMIN_PASSWORD_HASH nor admin.oidc is set: /admin is off.")
	add(c.PublicConsole() && (c.AdminLoginEnabled() || c.AdminToken.IsSet()),
		"/admin is on %s, with the API, where other machines can reach it: set "+
			"SENDCODE_ADMIN_ADDR to an address of its own, such as 127.0.0.1:8081.", c.Addr)
	add(!c.isTrial() && c.AdminAddr == "" && !c.MetricsToken.IsSet(),
		"/metrics is off, because it is on %s, with the API: set SENDCODE_METRICS_TOKEN, "+
			"or SENDCODE_ADMIN_ADDR to an address of its own.", c.Addr)
	add(c.OIDCSecret.IsSet() && !c.Admin.OIDC.IsSet(), "SENDCODE_OIDC_CLIENT_SECRET has no effect without admin.oidc.")
	add(c.SMTPURL != "" && c.MailDomain() == "localhost",
		"SENDCODE_MAIL_FROM is an address at localhost: other mail servers will not accept it.")
	servers, _ := mailserver.ParseURLs(c.SMTPURL, nil) // none if it is not set
	for n, s := range servers {
		add(s.Hint != "", "SENDCODE_SMTP_URL, server %d: %s.", n+1, s.Hint)
	}
	for _, name := range slices.Sorted(maps.Keys(c.OAuth)) {
		add(!slices.ContainsFunc(servers, func(s mailserver.Config) bool { return s.OAuth == name }),
			"No mail server uses the oauth client %s.", name)
	}
	add(slices.ContainsFunc(servers, func(s mailserver.Config) bool { return !s.RequiresTLS && !loopback.IsHost(s.Host) }),
		"SENDCODE_SMTP_URL allows mail without TLS to another machine: codes can be read in transit.")
	add(len(c.APIKey.Reveal()) > 0 && len(c.APIKey.Reveal()) < minAPIKeyLength,
		"SENDCODE_API_KEY is short: it will be refused once the address is not loopback.")
	for _, name := range slices.Sorted(maps.Keys(c.Policies)) {
		add(name != defaultName && len(c.purposesWithPolicy(name)) == 0, "No purpose uses the policy %s.", name)
	}
	add(len(c.SMS.Carriers) > 0 && len(c.SMS.Spend) == 0,
		"Text messages cost money, and sms.spend has no cap on it: docs/sms.md#spend-caps.")
	c.warnOfReserves(add)
	c.warnOfApps(now, add)
	for _, t := range c.Admin.Tokens {
		warnOfExpiry(now, t.Expires, "The admin token "+t.ID, add)
	}
	if c.GeneratesAPIKey() || c.hasSecretKeys() {
		c.warnOfNetworks(add)
	}
	for i, s := range c.Stops {
		add(s.isOver(now), "Stop %d has ended: take it out of the settings.", i+1)
	}
	for i, t := range c.TestRecipients {
		add(now.Before(t.Expires),
			"Test recipient %d (%s) is admitted with its fixed code until %s.", i+1, t.To.Masked(),
			t.Expires.Format(time.RFC3339))
		add(!now.Before(t.Expires), "Test recipient %d (%s) has expired: it is treated as any other recipient.", i+1,
			t.To.Masked())
	}
}

// expiryNoticePeriod is how long before a key or token expires the warning begins.
const expiryNoticePeriod = 14 * 24 * time.Hour

// warnOfExpiry warns of a key or a token that has expired or expires soon. A zero end means that it
// never expires.
func warnOfExpiry(now, end time.Time, what string, add func(when bool, format string, args ...any)) {
	add(!end.IsZero() && !now.Before(end), "%s has expired.", what)
	add(now.Before(end) && end.Sub(now) < expiryNoticePeriod, "%s expires at %s.", what, end.Format(time.RFC3339))
}

func (c *Config) warnOfApps(now time.Time, add func(when bool, format string, args ...any)) {
	add(c.Page.App == "" && len(c.Page.Channels) > 0, "page.channels has no effect without page.app.")
	for _, a := range c.Apps {
		add(c.Page.App == "" && len(a.ReturnURLs)+len(a.PagePurposes) > 0,
			"return_urls and page_purposes of the app %s have no effect without page.app.", a.Name)
		add(c.Page.App != "" && !c.HasPage(a) && len(a.PagePurposes) > 0,
			"page_purposes of the app %s have no effect without return_urls: page.app is another app.", a.Name)
		add(c.SMTPURL != "" && a.MailFrom != "" && senderDomain(a.MailFrom) == "localhost",
			"mail_from of the app %s is an address at localhost: other mail servers will not accept it.", a.Name)
		const noOrigins = "The app %s has a public key but no origins: no browser can use it%s."
		advice := ""
		if a.Name == defaultName && c.PublicKey.IsSet() {
			advice = ", until SENDCODE_ORIGINS names the pages that may, or SENDCODE_PUBLIC_KEY is taken out"
		}
		add(a.hasPublicKey() && len(a.Origins) == 0, noOrigins, a.Name, advice)
		for _, k := range a.Keys {
			warnOfExpiry(now, k.Expires, "The key "+k.ID+" of the app "+a.Name, add)
		}
		for _, o := range a.Origins {
			u, err := url.Parse(o)
			add(err == nil && u.Scheme == "http" && !loopback.IsHost(u.Hostname()),
				"The origin %s of the app %s is not https: codes can be read in transit.", o, a.Name)
		}
	}
}

// warnOfReserves warns of rules without a reserve, if strangers' browsers reach an app. Without a
// reserve, strangers could use up the whole limit, and sends with a secret key would be refused.
func (c *Config) warnOfReserves(add func(when bool, format string, args ...any)) {
	for _, name := range slices.Sorted(maps.Keys(c.Policies)) {
		purposes := c.purposesWithPolicy(name)
		reached := slices.IndexFunc(c.Apps, func(a App) bool { // a public key reaches all purposes; a page reaches some
			return len(purposes) > 0 && a.hasPublicKey() ||
				c.reachedByStrangers(a) && slices.ContainsFunc(a.PurposesOfPage(), func(p string) bool {
					return slices.Contains(purposes, p)
				})
		})
		open := c.rulesWithoutReserve(name)
		if reached < 0 || len(open) == 0 {
			continue
		}
		add(true,
			"The policy %s has no reserve in %s: browsers of strangers can reach the app %s and use up these limits, so "+
				"that back ends are refused too. Give these rules a limit above 1 and a reserve: docs/policies.md#reserve.",
			name, strings.Join(open, ", "), c.Apps[reached].Name)
	}
}

// rulesWithoutReserve returns the names of a policy's rules to warn about because they have no
// reserve. These are rules that count many recipients together, and rules on single recipients with
// a limit above 1. A rule on single recipients with a limit of 1 cannot have a reserve until its
// limit is raised. It is in the result only if no other rule on single recipients has a reserve or
// is in the result, so that the operator gives at least one of these rules a reserve.
func (c *Config) rulesWithoutReserve(policy string) (names []string) {
	var single []string
	decided := false // a rule on recipients has a reserve, or is among names
	for _, r := range c.Policies[policy] {
		recipients := r.Scope == quota.Recipient
		switch {
		case r.Mode == modeObserve || !recipients && !r.countsManyRecipients():
		case r.Reserve > 0:
			decided = decided || recipients
		case recipients && r.Limit == 1:
			single = append(single, r.Name)
		default:
			names = append(names, r.Name)
			decided = decided || recipients
		}
	}
	if !decided {
		return append(single, names...)
	}
	return names
}

// warnOfNetworks warns of rules on networks. These rules count a send of a back end only if the
// send has the client's address in client_ip.
func (c *Config) warnOfNetworks(add func(when bool, format string, args ...any)) {
	for _, name := range slices.Sorted(maps.Keys(c.Policies)) {
		for _, r := range c.policy(name).Rules {
			add(policy.CountsByClient(r.Scope) && len(c.purposesWithPolicy(name)) > 0,
				"The rule %s of the policy %s has the scope %s: "+
					"it counts sends with a secret key only if they give the client's address in client_ip.", r.Name, name, r.Scope)
		}
	}
}
