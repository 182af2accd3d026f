package config

import (
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// sections reads the parts of the file that are more than one value each, straight into a Config. What refers to
// something else is remembered with its place, and looked at by complete, when everything has been read.
type sections struct {
	document
	config   *Config
	readFile func(string) ([]byte, error)
	getenv   func(string) string // of any name, where the file asks for it

	badPolicies []string // there, but with mistakes: no reason to complain about those who name them
	references  []reference
	testAt      []string // places of the test recipients
	hookAt      []hookPlace
	pageGiven   bool

	pageSMSAt, pageCountryAt string // where the page asks for what text messages have to allow; empty: it does not
}

// reference is a name that must be declared somewhere.
type reference struct {
	kind, name, where string // kind is "policy", "purpose" or "app"
}

// read goes through the whole file. Settings of one value each are put into settings.
func (s *sections) read(root *yaml.Node, settings map[string]setting) {
	known := map[string]func(*yaml.Node, string){
		"templates":           s.templates,
		"policies":            s.policies,
		"purposes":            s.purposes,
		"apps":                s.apps,
		"trusted_proxies":     s.trustedProxies,
		"checks":              s.checks,
		"breaker":             s.breaker,
		"spellings":           s.spellings,
		"test_recipients":     s.testRecipients,
		"block":               s.block,
		"paused":              s.paused,
		"suppressions":        s.suppressions,
		"retention":           s.retention,
		"requests_per_minute": s.requestsPerMinute,
		"disposable_domains":  s.disposable,
		"folding":             s.folding,
		"sms":                 s.sms,
		"webhooks":            s.webhooks,
		"provider_events":     s.providerEvents,
		"page":                s.page,
		"admin":               s.admin,
	}
	for _, v := range variables {
		if v.key != keyConfig && !v.list {
			known[v.key] = s.single(v, settings)
		}
	}
	s.fields(root, "", known)
}

// single reads a setting that the environment may give as well.
func (s *sections) single(v variable, settings map[string]setting) func(*yaml.Node, string) {
	return func(n *yaml.Node, path string) {
		if !v.inFile {
			s.mistake(n, path, "is a secret and does not belong in this file; give %s or %[1]s_FILE", envName(v.key))
			return
		}
		if text, ok := s.text(n, path); ok && text != "" {
			settings[v.key] = setting{text, s.where(n, path)}
		}
	}
}

func (s *sections) templates(n *yaml.Node, path string) {
	if text, ok := s.text(n, path); ok {
		s.config.Templates = text
	}
}

func (s *sections) trustedProxies(n *yaml.Node, path string) {
	s.networks(n, path, trustsEverybody, func(p netip.Prefix) {
		s.config.TrustedProxies = append(s.config.TrustedProxies, p)
	})
}

// networks takes networks, and single addresses as networks of one. everybody says what is wrong with all addresses.
func (s *sections) networks(n *yaml.Node, path, everybody string, yield func(netip.Prefix)) {
	s.items(n, path, func(v *yaml.Node, path string) {
		text, ok := s.text(v, path)
		if !ok {
			return
		}
		network, problem := readNetwork(text, everybody)
		if problem != "" {
			s.mistake(v, path, "%s", problem)
			return
		}
		yield(network)
	})
}

func readNetwork(text, everybody string) (netip.Prefix, string) {
	network, err := netip.ParsePrefix(text)
	if address, notAlone := netip.ParseAddr(text); err != nil && notAlone == nil && address.Zone() == "" {
		network, err = netip.PrefixFrom(address, address.BitLen()), nil
	}
	switch {
	case err != nil:
		return network, "is not a network such as 10.0.0.0/8 or fd00::/8"
	case network.Addr().Is4In6():
		return network, "is an IPv4 network in IPv6 form; write it as IPv4"
	case network.Bits() == 0:
		return network, everybody
	}
	return network.Masked(), ""
}

// readProxies takes the networks of SENDCODE_TRUSTED_PROXIES instead of those of the file.
func (c *Config) readProxies(s setting, errs *Errors) {
	if s.value == "" {
		return
	}
	c.TrustedProxies = nil
	for text := range strings.SplitSeq(s.value, ",") {
		network, problem := readNetwork(strings.TrimSpace(text), trustsEverybody)
		if problem != "" {
			errs.add(s.where, "%s", problem)
			continue
		}
		c.TrustedProxies = append(c.TrustedProxies, network)
	}
}

const trustsEverybody = "would trust everybody, and let every client choose the address that the rules look at"

// page is {app: name, channels: [email, sms], country: DE}; an empty name turns the page off.
func (s *sections) page(n *yaml.Node, path string) {
	at := &s.config.Page
	s.fields(n, path, map[string]func(*yaml.Node, string){
		"app": func(v *yaml.Node, path string) {
			text, ok := s.text(v, path)
			s.pageGiven = true
			if at.App = text; ok && text != "" {
				s.references = append(s.references, reference{"app", text, s.where(v, path)})
			}
		},
		"channels": func(v *yaml.Node, path string) { s.pageChannels(v, path) },
		"country": func(v *yaml.Node, path string) {
			text, ok := s.text(v, path)
			if at.Country = text; !ok || text == "" {
				return
			}
			if s.checkCountry(v, path, text) {
				s.pageCountryAt = s.where(v, path)
			}
		},
	})
}

// complete adds what always exists and then looks up every name.
func (s *sections) complete() {
	s.completePolicies()
	s.completePurposes()
	s.completeApps()
	s.completeFolding()
	s.completePage()
	declared := map[string][]string{"policy": append(sortedKeys(s.config.Policies), s.badPolicies...), "purpose": sortedKeys(s.config.Purposes)}
	for _, a := range s.config.Apps {
		declared["app"] = append(declared["app"], a.Name)
	}
	for _, r := range s.references {
		if names := declared[r.kind]; !slices.Contains(names, r.name) {
			s.errs.add(r.where, "there is no %s %s%s", r.kind, plain(r.name), didYouMean(r.name, names))
		}
	}
}

// Names of purposes, apps and keys. They stand in answers, headers, metrics and keys of Redis.
var namePattern = regexp.MustCompile(`^[a-z0-9_-]{1,32}$`)

func (s *sections) checkName(n *yaml.Node, path, name string) bool {
	if !namePattern.MatchString(name) {
		s.mistake(n, path, "a name has 1 to 32 of a-z 0-9 _ -")
		return false
	}
	return true
}
