// Package config turns the environment, one YAML file and the defaults into a checked Config, or into the whole list
// of what is wrong with them.
//
// It stands first: cmd/sendcode calls Load before a port, a database or a file of the data directory is opened, and
// hands the Config to package app, which alone puts the parts together. Load touches nothing but the files that the
// settings name. What the settings leave out and only the data directory can hold, generated keys, is added by
// FillSecrets once that directory is locked.
//
// Two rules keep secrets in: a Secret prints as "[secret]" under every verb, and no mistake repeats the value of a
// setting that may hold one.
package config

import (
	"log/slog"
	"net/netip"
	"slices"
	"time"

	"sendcode/internal/recipient"
	"sendcode/quota"
)

// Config is the effective configuration. Empty URLs mean the embedded part.
type Config struct {
	File         string // the YAML file of SENDCODE_CONFIG; empty: there is none
	Addr         string // host:port of the API, the page and, without AdminAddr, the console
	AdminAddr    string // host:port of /admin and /metrics; empty: they are on Addr
	DataDir      string // SQLite file and generated secrets
	DatabaseURL  string // postgres://…; empty: SQLite in DataDir
	DatabaseRole string // the role that the service works as; empty: the one that DatabaseURL logs in as
	RedisURL     string // redis://…, redis+sentinel://…, redis+cluster://…, or with rediss; empty: rules are counted in process
	SMTPURL      string // one or more mail servers; empty: the dev mailbox
	MailFrom     string // Name <addr>, checked
	DKIMSelector string // of the key that the mail server signs with, for the doctor; empty: not known
	Templates    string // directory whose files replace mail templates; empty: the built-in ones
	LogLevel     slog.Level

	SecretKeys        Secret // id:base64,…; the first is used for new codes
	IndexKey          Secret // base64, standard alphabet, padded; IndexKeyBytes decodes it
	APIKey            Secret // sk_…, of the app DefaultApp; empty if that app has keys of its own in the file
	AdminPassword     Secret // empty with AdminPasswordHash, or while the console is off
	AdminPasswordHash Secret // argon2id, PHC string
	AdminToken        Secret // bearer token of the admin API; empty: none is accepted
	MetricsToken      Secret // bearer token of /metrics on an address that other machines reach; empty: it is off there
	OIDCSecret        Secret // of Admin.OIDC's client; empty: a public client
	WebhookSecrets    Secret // app:whsec_…,…; each app has its own in Webhook.Secrets

	Policies          map[string]quota.Policy
	Purposes          map[string]Purpose
	Apps              []App // DefaultApp first, the others in the order of the file
	Checks            Checks
	Breaker           Bound // of all sends together; zero: none
	Spellings         Bound // of what browsers ask for, for all spellings of one mailbox; zero: none
	TestRecipients    []TestRecipient
	Blocks            []Block
	Pauses            []Pause
	Providers         []Provider // that tell of mails which they took
	Suppressions      Suppressions
	RequestsPerMinute int             // of browsers and the page, by network; 0: no limit
	Retention         time.Duration   // of sends and refusals in the log; 0: for ever
	DisposableFile    string          // the file that Disposable was read from
	Disposable        map[string]bool // domains, lower-case A-labels
	Folding           recipient.Folding
	SMS               SMS
	TrustedProxies    []netip.Prefix
	WebhooksAllow     []netip.Prefix // networks that webhooks may call although they are not public, and without TLS
	Page              Page
	Admin             Admin

	Warnings []string // what works but deserves a sentence in the log
}

// Bound is fewer than Limit events in any Window.
type Bound struct {
	Limit  int
	Window time.Duration
}

// Checks bound failed checks, beside those of a recipient.
type Checks struct {
	Network     Bound // of one IPv4 address or IPv6 /64
	WideNetwork Bound // of one IPv4 /24 or IPv6 /48
	App         Bound // alarms, and refuses nobody
}

// Purpose is what a code is for.
type Purpose struct {
	Name   string
	Policy string        // name in Config.Policies
	TTL    time.Duration // life of a code, 30 s to 10 min (SEC-3)
	Code   Code
	Notify Notify
}

// Code is what a code looks like.
type Code struct {
	Length   int    // 6 to 10 characters
	Alphabet string // "digits" or "unambiguous"
}

// Notify says how much of a message shows before it is opened.
type Notify string

// The values of Notify (MAIL-4).
const (
	Private Notify = "private" // no code in the subject, nor where a preview shows it
	Glance  Notify = "glance"  // code in subject and preview
)

// App is a tenant: it has its own keys, and its own buckets.
type App struct {
	Name    string
	Title   string   // what messages call it; empty: its name
	Origins []string // exact origins of its browsers, as in the Origin header
	Keys    []Key
	Webhook Webhook
}

// Key is one API key of an app; only its hash is kept.
type Key struct {
	ID      string // unique within its app
	Kind    KeyKind
	SHA256  [32]byte  // of the whole key, prefix and all
	Expires time.Time // from then on it is refused; zero: never
	Scopes  []string  // what a secret key may do, of KeyScopes; none: everything
}

// KeyScopes are the scopes that a secret key may have.
var KeyScopes = []string{"send", "check", "read", "limit"}

// KeyKind says what an API key may do.
type KeyKind string

// The kinds of API keys.
const (
	SecretKey KeyKind = "secret" // sk_…, for back ends
	PublicKey KeyKind = "public" // pk_…, for browsers
)

// Page is the public page at /.
type Page struct {
	App      string              // whose codes it asks for; empty: there is no page
	Channels []recipient.Channel // that it offers, the first one first; empty: mail, and text messages where they go anywhere
	Country  string              // of phone numbers, ISO 3166-1 alpha-2, where the visitor's language does not say; empty: none
}

// DefaultApp is the app that always exists. SENDCODE_API_KEY is its secret key.
const DefaultApp = "default"

// apiKeyID names SENDCODE_API_KEY among the keys of DefaultApp.
const apiKeyID = "api_key"

// Loopback reports whether every listener is reachable from this machine alone.
func (c Config) Loopback() bool {
	return isLoopback(c.Addr) && (c.AdminAddr == "" || isLoopback(c.AdminAddr))
}

// PublicConsole reports whether /admin and /metrics are on the listener of the API, and other machines can reach it.
func (c Config) PublicConsole() bool { return c.AdminAddr == "" && !isLoopback(c.Addr) }

// HTTPS reports whether browsers reach a listener over TLS: at an address that is not loopback they must, since cookies and codes
// pass there.
func (c Config) HTTPS(addr string) bool { return !isLoopback(addr) }

// AdminEnabled reports whether anybody can log in to the console.
func (c Config) AdminEnabled() bool {
	return c.AdminPassword.IsSet() || c.AdminPasswordHash.IsSet() || c.Admin.OIDC.IsSet()
}

// PurposesOf names every purpose of a policy, sorted: they share its buckets.
func (c Config) PurposesOf(policy string) []string {
	var names []string
	for name, p := range c.Purposes {
		if p.Policy == policy {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// App finds an app by name.
func (c Config) App(name string) (App, bool) {
	i := slices.IndexFunc(c.Apps, func(a App) bool { return a.Name == name })
	if i < 0 {
		return App{}, false
	}
	return c.Apps[i], true
}

// hasSecretKey reports whether an app can be called by a back end.
func (a App) hasSecretKey() bool {
	return slices.ContainsFunc(a.Keys, func(k Key) bool { return k.Kind == SecretKey })
}
