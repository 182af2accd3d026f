package config

import (
	"cmp"
	"net/url"
	"slices"

	"sendcode/internal/run/config/document"
	"sendcode/internal/verify/humancheck"
	"sendcode/internal/verify/humancheck/vendors"
)

// humanCheckSettings are how an app asks strangers.
type humanCheckSettings struct {
	// `work`: a proof of work, without a vendor. Or the vendor.
	By string `yaml:"by,omitempty" oneof:"work turnstile hcaptcha recaptcha http"`
	// `pressed`: strangers get the check when they have used half of their shared limits. `always`:
	// a stranger also gets the check before the first send of each verification.
	When string `yaml:"when,omitempty" oneof:"pressed always"`
	// The vendor's public key of the site; of `recaptcha` one of v2.
	SiteKey               string `yaml:"site_key,omitempty"`
	document.SecretSource `yaml:",inline"`
	// The URL to use in place of the vendor's own URL. With `by: http` it is the URL of your own
	// service. The URL begins with `https`, or on loopback with `http`.
	URL string `yaml:"url,omitempty"`
	// The hosts of the pages that show the check. With `recaptcha` the default is the hosts of
	// `origins`. `turnstile` and `hcaptcha` need no list, because they tie a site key to its hosts
	// themselves.
	Hostnames []string `yaml:"hostnames,omitempty" unique:"yes"`
	// The person's address goes to the vendor.
	SendIP bool `yaml:"send_ip,omitempty"`
	// How many requests about this app the vendor may get in an hour, by default 10000. Above this
	// number, strangers get a proof of work instead.
	AsksPerHour int `yaml:"asks_per_hour,omitempty" range:"1 1000000"`
}

// always is the When of a check that is asked also without pressure.
const always = "always"

// checkHumanCheck reports what is wrong with the app's human check.
func (a App) checkHumanCheck(p *document.Mapping) {
	at := p.Children["human_check"]
	if len(at) == 0 || !at[0].Valid() {
		return
	}
	h := a.HumanCheck
	_, asks := a.HumanCheckVendor()
	switch {
	case h.By == "" && len(at[0].Given) > 0:
		at[0].AddMistake("", "by is missing")
	case h.By != "" && !asks:
		for _, key := range []string{"site_key", "secret_env", "url", "hostnames", "send_ip", "asks_per_hour"} {
			if at[0].Given[key] != nil {
				at[0].AddMistake(key, "is only for a vendor, but by is %s", h.By)
			}
		}
	}
	if h.By == "http" && len(h.Hostnames) > 0 {
		at[0].AddMistake("hostnames", "has no effect with by: http, whose service judges the host itself")
	}
	if v, asks := a.HumanCheckVendor(); asks {
		wrong := v.Check()
		for _, key := range []string{"secret", "site_key", "url"} {
			if wrong[key] == nil {
				continue
			}
			if key == "secret" {
				at[0].AddMistake("", "secret_env %s", wrong[key])
			} else {
				at[0].AddMistake("", "%s %s", key, wrong[key])
			}
		}
	}
}

// HumanCheckVendor returns the vendor of the app's human check. The bool is false if the check has
// no vendor.
func (a App) HumanCheckVendor() (vendors.Config, bool) {
	h := a.HumanCheck
	if h.By == "" || h.By == humancheck.ByWork {
		return vendors.Config{}, false
	}
	hosts := slices.Clone(h.Hostnames)
	for _, origin := range a.Origins {
		if u, err := url.Parse(origin); err == nil && len(h.Hostnames) == 0 && !slices.Contains(hosts, u.Hostname()) {
			hosts = append(hosts, u.Hostname())
		}
	}
	return vendors.Config{
		By: h.By, SiteKey: h.SiteKey, Secret: h.Secret.Reveal(), URL: h.URL, Hostnames: hosts, OwnHostnames: len(h.Hostnames) > 0,
		SendIP: h.SendIP, AsksPerHour: cmp.Or(h.AsksPerHour, 10_000),
	}, true
}

// HumanCheckOf returns the app's human check, without its vendor. The bool is false if the app has
// no human check.
func (a App) HumanCheckOf() (humancheck.Check, bool) {
	h := a.HumanCheck
	return humancheck.Check{Always: h.When == always, Cost: humancheck.DefaultCost}, h.By != ""
}

// checkHumanChecks adds a mistake for each app that has a human check but cannot use one. An app
// with a hook cannot use one, since sends through a hook come without a browser. It also adds a
// mistake for a check whose vendor needs hosts and has none. The default hosts are those of the
// origins, so checkHumanChecks must run when all origins are known.
func (l *loader) checkHumanChecks() {
	c := l.config
	for i, app := range l.root.Children["apps"] {
		at := app.Children["human_check"]
		if len(at) == 0 || i >= len(c.Apps) {
			continue
		}
		j := slices.IndexFunc(c.Apps, func(a App) bool { return app.Given["name"] != nil && a.Name == app.Given["name"].Value })
		if j < 0 || c.Apps[j].HumanCheck.By == "" {
			continue
		}
		a := c.Apps[j]
		if slices.ContainsFunc(c.Hooks, func(h authHook) bool { return h.App == a.Name }) {
			at[0].AddMistake("by", "does not work in an app with a hook, whose sends come without a browser; give the hook its own app")
		}
		if j == 0 && c.Origins.IsSet() { // SENDCODE_ORIGINS are those of the app default
			continue
		}
		if v, asks := a.HumanCheckVendor(); asks && v.Check()["hostnames"] != nil {
			at[0].AddMistake("", "hostnames %s", v.Check()["hostnames"])
		}
	}
}
