package vendors

import (
	"cmp"
	"net/url"
	"slices"

	"sendcode/internal/base/document"
	"sendcode/internal/verify/humancheck"
)

// Settings is the section human_check of an app: how strangers are asked.
type Settings struct {
	// Who checks: `work` is a proof of work without a vendor. `http` is a service of your own. The
	// others are vendors.
	By string `yaml:"by,omitempty" oneof:"work turnstile hcaptcha recaptcha http"`
	// `pressed`: strangers get the check when they have used half of their shared limits. `always`:
	// a stranger also gets the check before the first send of each verification.
	When string `yaml:"when,omitempty" oneof:"pressed always"`
	// The public key of your site at the vendor. `recaptcha` needs a key of version 2.
	SiteKey               string `yaml:"site_key,omitempty"`
	document.SecretSource `yaml:",inline"`
	// The URL to use in place of the vendor's own URL. With `by: http` it is the URL of your own
	// service. The URL begins with `https`, or on loopback with `http`.
	URL string `yaml:"url,omitempty"`
	// The hosts of the pages that show the check. With `recaptcha` the default is the hosts of
	// `origins`. `turnstile` and `hcaptcha` need no list, because they tie a site key to its hosts
	// themselves.
	Hostnames []string `yaml:"hostnames,omitempty" unique:"yes"`
	// Whether the vendor gets the person's IP address. By default it does not.
	SendIP bool `yaml:"send_ip,omitempty"`
	// How many requests about this app the vendor may get in an hour, by default 10000. Above this
	// number, strangers get a proof of work instead.
	AsksPerHour int `yaml:"asks_per_hour,omitempty" range:"1 1000000"`
}

const always = "always"

// Check finds settings that are incomplete or don't fit the vendor.
func (s *Settings) Check(p *document.Mapping) {
	if !p.Valid() {
		return
	}
	v, asks := s.Vendor(nil)
	switch {
	case s.By == "" && len(p.Given) > 0:
		p.AddMistake("", "by is missing")
	case s.By != "" && !asks:
		for _, key := range []string{"site_key", "secret_env", "url", "hostnames", "send_ip", "asks_per_hour"} {
			if p.Given[key] != nil {
				p.AddMistake(key, "is only for a vendor, but by is %s", s.By)
			}
		}
	}
	if s.By == "http" && len(s.Hostnames) > 0 {
		p.AddMistake("hostnames", "cannot be used with by: http, because your own service checks the host")
	}
	if !asks {
		return
	}
	wrong := v.Check()
	for _, key := range []string{"secret", "site_key", "url"} {
		if wrong[key] == nil {
			continue
		}
		if key == "secret" {
			p.AddMistake("", "secret_env %s", wrong[key])
		} else {
			p.AddMistake("", "%s %s", key, wrong[key])
		}
	}
}

// HostsProblem returns an error if the vendor needs the hosts of pages, and neither Hostnames nor
// the app's origins name one. Call it when all origins are known.
func (s Settings) HostsProblem(origins []string) error {
	v, asks := s.Vendor(origins)
	if !asks {
		return nil
	}
	return v.Check()["hostnames"]
}

// Vendor returns the vendor for an app with these origins, or false if the check has none.
func (s Settings) Vendor(origins []string) (Config, bool) {
	if s.By == "" || s.By == humancheck.ByWork {
		return Config{}, false
	}
	hosts := slices.Clone(s.Hostnames)
	for _, origin := range origins {
		if u, err := url.Parse(origin); err == nil && len(s.Hostnames) == 0 && !slices.Contains(hosts, u.Hostname()) {
			hosts = append(hosts, u.Hostname())
		}
	}
	return Config{
		By: s.By, SiteKey: s.SiteKey, Secret: s.Secret.Reveal(), URL: s.URL, Hostnames: hosts, OwnHostnames: len(s.Hostnames) > 0,
		SendIP: s.SendIP, AsksPerHour: cmp.Or(s.AsksPerHour, 10_000),
	}, true
}

// HumanCheck returns the check without its vendor, or false if there is none.
func (s Settings) HumanCheck() (humancheck.Check, bool) {
	return humancheck.Check{Always: s.When == always, Cost: humancheck.DefaultCost}, s.By != ""
}
