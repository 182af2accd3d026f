package config

import (
	"cmp"
	"errors"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"sendcode/internal/base/document"
	"sendcode/internal/base/loopback"
	"sendcode/internal/base/recipient"
	"sendcode/internal/deliver/sms"
	"sendcode/internal/deliver/sms/generic"
	"sendcode/internal/store"
	"sendcode/quota"
)

// carrierTypes has the settings of each type of carrier. A new type is a file of package sms and a
// line here.
var carrierTypes = []struct {
	name     string
	settings func() sms.CarrierSettings
}{
	{"http", func() sms.CarrierSettings { return new(generic.Config) }},
	{"twilio", func() sms.CarrierSettings { return new(sms.Twilio) }},
	{"aliyun", func() sms.CarrierSettings { return new(sms.Aliyun) }},
	{"aliyun-verify", func() sms.CarrierSettings { return new(sms.AliyunVerify) }},
	{"tencent", func() sms.CarrierSettings { return new(sms.Tencent) }},
}

// smsSettings describe how text messages are sent. Without a carrier, text messages go to the dev
// mailbox if SMSToDevMailbox returns true. Otherwise the service sends no text messages.
type smsSettings struct {
	// The countries whose numbers get codes, by ISO 3166-1 (`DE`). `"001"` means satellite and
	// international networks. Other numbers are refused (422 `country_not_served`). If the browser
	// suggests no country of this list, the page selects the first country.
	Countries []string `yaml:"countries" check:"country" unique:"yes"`
	// `allow` or `refuse`: whether numbers of internet telephony get codes or a 422. Premium-rate
	// and shared-cost numbers are always refused.
	VoIP string `yaml:"voip" default:"allow" oneof:"allow refuse"`
	// How many segments a text message may have, 1 to 4. When the service starts, it checks the
	// text messages of every language and app.
	Segments int `yaml:"segments" default:"1" range:"1 4"`
	// The sender for each country: a number, a short code, or a name of up to 11 characters.
	// `default` is the sender for all other countries. If a country has no sender, the carrier
	// chooses one.
	Senders map[string]string `yaml:"senders" keys:"country_or_default" check:"sender"`
	// The carriers, the preferred one first.
	Carriers []SMSCarrier `yaml:"carriers" unique:"name"`
	// [Caps](#spend-caps) on what text messages may cost.
	Spend []spendCap `yaml:"spend"`
	// Prefixes that are never [paused](#the-watch-on-pumping), even if their codes are rarely
	// entered. A prefix has up to six digits: `"+49"`. With `"+"` no prefix is ever paused.
	Unwatched []string `yaml:"unwatched" check:"unwatched"`
	// When text messages to all other prefixes are [paused](#the-watch-on-pumping).
	Watch watchSettings `yaml:"watch"`
}

// watchSettings say when text messages to a prefix are paused. A field with the zero value gets the
// value of defaultWatch. In the settings of an app, such a field gets the value of sms.watch.
type watchSettings struct {
	// How many messages in an hour a prefix must have before it can be paused, 1 to 100000.
	Sends int `yaml:"sends,omitempty" range:"1 100000"`
	// The percentage of a prefix's codes that must be entered, 1 to 50. If fewer codes were
	// entered, the prefix is paused for an hour.
	ApprovedPercent int `yaml:"approved_percent,omitempty" range:"1 50"`
}

var defaultWatch = watchSettings{Sends: 20, ApprovedPercent: 10}

// withDefaultsFrom fills the gaps of the settings with those of other.
func (w watchSettings) withDefaultsFrom(other watchSettings) watchSettings {
	return watchSettings{cmp.Or(w.Sends, other.Sends), cmp.Or(w.ApprovedPercent, other.ApprovedPercent)}
}

// PrefixWatch converts the settings for the database. The caller sets the other fields.
func (w watchSettings) PrefixWatch() store.PrefixWatch {
	return store.PrefixWatch{MinSends: w.Sends, MinApprovedPercent: w.ApprovedPercent}
}

// SMSCarrier is one carrier. Settings has the settings that only carriers of this Type have.
type SMSCarrier struct {
	// The carrier's name in the database, in metrics and in URLs for receipts.
	Name string `yaml:"name" required:"yes" check:"name"`
	// `http`, `twilio`, `aliyun`, `aliyun-verify` or `tencent`.
	Type                  string `yaml:"type" required:"yes"`
	document.SecretSource `yaml:",inline"`
	// Prefixes of the numbers that the carrier accepts. The default is all numbers, and `["+86"]`
	// for `aliyun-verify`. Each country needs a carrier that accepts its numbers.
	Prefixes []string `yaml:"prefixes,omitempty" check:"prefix"`
	// The price of a segment by country; `default` for all others.
	Prices   map[string]int64    `yaml:"prices,omitempty" keys:"country_or_default"`
	Settings sms.CarrierSettings `yaml:",inline"`
}

// Prepare sets Settings to the settings of the carrier's type. The type decides which other keys
// are valid. If the type is unknown, Prepare returns false.
func (c *SMSCarrier) Prepare(p *document.Mapping) bool {
	var names []string
	_, kind := document.FindEntry(p.Node, "type")
	for _, t := range carrierTypes {
		if kind != nil && kind.Value == t.name {
			c.Settings = t.settings()
			return true
		}
		names = append(names, t.name)
	}
	p.AddMistakeAt(p.Node, p.Path, "type must be %s", document.JoinOr(names))
	return false
}

// Check implements document.checker: the carrier's own settings must be right, and it must have a
// secret if it needs one.
func (c *SMSCarrier) Check(p *document.Mapping) {
	if !p.Valid() {
		return // a setting with a mistake would also be reported as missing
	}
	wrong := c.Settings.Check()
	if c.Settings.NeedsSecret() && !c.Secret.IsSet() {
		wrong["secret_env"] = errors.New("is missing")
	}
	if only, ok := c.Settings.(sms.SettingsWithPrefixes); ok && len(c.Prefixes) == 0 {
		c.Prefixes = only.OnlyPrefixes()
	}
	for _, key := range slices.Sorted(maps.Keys(wrong)) {
		p.AddMistakeAt(p.Node, document.JoinPath(p.Path, key), "%s", wrong[key])
	}
}

// Open makes the carrier.
func (c SMSCarrier) Open() sms.Carrier {
	return c.Settings.Open(sms.Setup{Name: c.Name, Secret: c.Secret.Reveal()})
}

// Polled reports whether the service asks the carrier for the outcome of messages.
func (c SMSCarrier) Polled() bool { return c.Settings.CanBePolled() }

// maxCarriers bounds how many carriers can be tried for one message.
const maxCarriers = 20

// Check implements document.checker: carriers, countries and spend fit each other.
func (s *smsSettings) Check(p *document.Mapping) {
	if len(s.Carriers) > maxCarriers {
		p.AddMistake("carriers", "must have at most %d entries", maxCarriers)
	}
	if p.Valid() { // a mistyped prefix would be reported twice
		s.checkRoutes(p)
	}
	s.checkSpend(p)
	if len(s.Carriers) > 0 && p.Given["countries"] == nil {
		p.AddMistake("", "countries is missing: list the countries to send to, such as [DE, AT]; all others are refused")
	}
}

// checkRoutes reports each served country that no carrier accepts. Codes to such a country would
// wait in the queue until they expire.
func (s *smsSettings) checkRoutes(p *document.Mapping) {
	for _, country := range s.Countries {
		code := recipient.DialCode(country) // "" for "001", whose numbers have several calling codes
		reaches := func(prefix string) bool {
			return strings.HasPrefix(code, prefix) ||
				strings.HasPrefix(prefix, code)
		}
		takes := func(c SMSCarrier) bool { return len(c.Prefixes) == 0 || slices.ContainsFunc(c.Prefixes, reaches) }
		if code != "" && len(s.Carriers) > 0 && !slices.ContainsFunc(s.Carriers, takes) {
			p.AddMistake("", "no carrier accepts numbers of %s, which begin with %s: check the carriers' prefixes",
				country, code)
		}
	}
}

// checkSpend reports each country without a price, if there are caps. The cost of messages without
// a price would never count toward a cap. checkSpend also reports a cap with the same scope and
// period as another cap.
func (s *smsSettings) checkSpend(p *document.Mapping) {
	for i, c := range s.Spend {
		same := func(other spendCap) bool { return other.Scope == c.Scope && other.Per == c.Per }
		if c.Scope != "" && c.Per != "" && slices.ContainsFunc(s.Spend[:i], same) {
			p.Children["spend"][i].AddMistake("", "there is another cap with this scope and period; keep the lower one")
		}
	}
	for i, c := range s.Carriers {
		for _, country := range s.Countries {
			_, priced := c.Prices[country]
			if _, all := c.Prices[defaultName]; len(s.Spend) > 0 && !priced && !all {
				p.AddMistake("", "carriers[%d] has no price for %s and no default price; spend needs one of them", i, country)
			}
		}
	}
}

// spendCap bounds what text messages may cost.
type spendCap struct {
	Name string `yaml:"-"` // in metrics and the log: scope and period, as in country_day
	// Which messages the cap adds up: `global` means all messages, `app` the messages of each app,
	// `country` the messages to each country.
	Scope quota.Scope `yaml:"scope" required:"yes" oneof:"global app country"`
	// A `day` or a `month`, in UTC.
	Per quota.Period `yaml:"per" required:"yes" oneof:"day month"`
	// The most that the messages may cost in a period, in the unit of `prices`.
	Limit int64 `yaml:"limit" required:"yes"` // kept in millionths of the unit
	// How much of `limit` [strangers](policies.md#reserve) may not use. By
	// default it is a fifth.
	Reserve int64 `yaml:"reserve,omitempty"` // kept in millionths of the unit
}

// Check implements document.checker. It also sets the name and the default reserve.
func (c *spendCap) Check(p *document.Mapping) {
	c.Name = string(c.Scope) + "_" + string(c.Per)
	checkReserve(p, c.Reserve, c.Limit)
	c.Reserve = cmp.Or(c.Reserve, defaultReserve(c.Limit))
}

// checkCountry returns a problem unless country is a country's code or "001". The text NO is the
// code of Norway here, although YAML 1.1 reads NO as false.
func checkCountry(country string) string {
	return problemIf(!recipient.KnownCountry(country), document.Printable(country)+
		` is not the code of a country, such as DE (ISO 3166-1), nor "001" for satellite and international numbers`)
}

// senderPattern matches a number, a short code, or a name. A name has at most 11 characters (3GPP
// TS 23.040 section 9.1.2.5), and checkSender checks this length.
var senderPattern = regexp.MustCompile(`^(\+?[0-9]{3,15}|[A-Za-z0-9 ._-]{0,10}[A-Za-z][A-Za-z0-9 ._-]{0,10})$`)

func checkSender(text string) string {
	digits := strings.Trim(text, "+0123456789") == ""
	return problemIf(!senderPattern.MatchString(text) || !digits && len(text) > 11,
		"must be a number, a short code, or a name of at most 11 letters and digits")
}

// PageHost returns the public page's host. The last line of text messages has this host (WICG
// sms-one-time-codes). If there is no page, or the page's URL is not https at the default port,
// PageHost returns "".
func (c Config) PageHost() string {
	u, err := url.Parse(c.PublicURL)
	if err != nil || c.Page.App == "" || u.Scheme != "https" || u.Port() != "" {
		return ""
	}
	return strings.ToLower(u.Host)
}

// checkPageHost returns the problem with the host of a page, or "". The last line of a text message
// has the host without scheme and port.
func checkPageHost(text string) string {
	return problemIf(normalizeMailDomain(text) != text || strings.ContainsAny(text, ":/"),
		"must be only the page's host, in lower case, such as shop.example")
}

// checkPublicURL returns the problem with the service's own address, or "". The address must not
// have a path. The service answers at the root of its host, so links with the path would not lead
// to its pages and files.
func checkPublicURL(text string) string {
	problem := loopback.URLProblem(text)
	if problem != "" {
		return problem
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || strings.ContainsAny(text, "?#{}"):
		return "must end with the host"
	case strings.Trim(u.Path, "/") != "":
		return "must have no path: the service answers at the root of a host of its own, such as https://codes.shop.example"
	}
	return ""
}
