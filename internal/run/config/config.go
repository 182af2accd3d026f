// Package config reads the environment, one YAML file and the defaults. The result is a checked
// Config, or a list of all mistakes. docs/ARCHITECTURE.md says how to add a setting.
//
// The program cmd/sendcode first calls Load. Only then does it pass the Config to package app,
// which opens ports, the database and the data directory. Load reads files that settings name, and
// writes none. Package app later calls LoadOrCreateSecrets, which adds the generated keys from the
// data directory.
//
// Two rules protect secrets. A Secret prints as "[secret]" under every formatting verb. No mistake
// repeats the value of a setting that may contain a secret.
package config

import (
	"cmp"
	"log/slog"
	"net/mail"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"sendcode/internal/base/document"
	"sendcode/internal/base/loopback"
	"sendcode/internal/base/recipient"
	"sendcode/internal/codes/code"
	"sendcode/internal/codes/policy"
	"sendcode/internal/deliver/feedback"
	"sendcode/internal/verify/humancheck/vendors"
)

// Config is the effective configuration. Its struct tags say how the package reads and prints the
// configuration (see document.Decoder). The comments of its fields become the reference in
// docs/configuration.md, in the schema and in the example. This package adds these tags:
//
//	env     the field is also an environment variable: plain, file (SENDCODE_…_FILE may name a file with the value) or list (separated by commas)
//	unset   what an empty value means, in words for people
type Config struct {
	// The address of the API and the page, `host:port`. `:8080` is every interface.
	Addr string `yaml:"addr" env:"plain" default:"127.0.0.1:8080" check:"addr"`
	// An address of their own for `/admin` and `/metrics`, `host:port`.
	AdminAddr string `yaml:"admin_addr" env:"plain" check:"addr" unset:"/admin and /metrics are on addr"`
	// The URL at which people, clients and carriers reach this service, without a path. Without
	// this URL, mails have no link for reporting the mail, carriers send no receipts, text messages
	// do not name our page, and an error answer's `type` is a path. The default for a service that
	// listens only on loopback, trusts no proxy and uses SQLite is `http://` and its `addr`.
	PublicURL string `yaml:"public_url" env:"plain" check:"public_url"`
	// How long after SIGTERM the service still answers requests, `0s` to `10m`. Meanwhile `/readyz`
	// answers 503. Choose a longer time than a load balancer needs to notice the 503. With SQLite
	// the default is `0s`, since no other replica could answer instead.
	Drain time.Duration `yaml:"drain" env:"plain" default:"10s" range:"0s 10m"`
	// The directory of the SQLite file and the generated secrets.
	DataDir string `yaml:"data_dir" env:"plain" default:"./data"`
	// `postgres://user:password@host:5432/database?sslmode=verify-full`. Several hosts are
	// separated by commas.
	DatabaseURL string `yaml:"database_url" env:"file" check:"database_url" unset:"SQLite in data_dir"`
	// The [Postgres role](operations.md#the-databases-two-roles) that the service works as.
	DatabaseRole string `yaml:"database_role" env:"plain" check:"role" unset:"the role that database_url logs in as"`
	// The URL of Redis 7.0 or later: `redis://user:password@host:6379/0`;
	// `redis+sentinel://user:password@host1,host2:26379/master/0`;
	// `redis+cluster://user:password@host1,host2:6379`. With TLS the schemes are `rediss`,
	// `rediss+sentinel` and `rediss+cluster`; `?ca=/path.pem` names your own certificate
	// authorities.
	RedisURL string `yaml:"redis_url" env:"file" check:"redis_url" unset:"rules are counted in process"`
	// The mail server: `smtp://user:password@host:587`, `smtps://host:465`, or by HTTPS
	// `resend://:key@api.resend.com`. Several are separated by commas, the preferred one first.
	SMTPURL string `yaml:"smtp_url" env:"file" check:"smtp_url" unset:"the dev mailbox"`
	// [OAuth clients](mail-servers.md#microsoft-365), by name. Their tokens replace the password at
	// mail servers whose URL has `?oauth=NAME`.
	OAuth map[string]oauthClient `yaml:"oauth" keys:"name"`
	// `other`: a code that is sent again goes through another mail server or carrier, if there is
	// one. `same`: all messages go through the preferred mail server or carrier.
	Resend string `yaml:"resend" default:"other" oneof:"other same"`
	// The sender, `Name <address>`. Message-IDs end with its domain.
	MailFrom string `yaml:"mail_from" env:"plain" default:"sendcode <no-reply@localhost>" check:"mail_from"`
	// `debug`, `info`, `warn` or `error`. Logs go to stderr, as JSON except at a terminal.
	LogLevel slog.Level `yaml:"log_level" env:"plain" default:"info" oneof:"debug info warn error"`
	Secrets  `yaml:",inline"`
	// A directory with files that replace the templates of mails and text messages.
	Templates  string `yaml:"templates" unset:"the built-in ones"`
	Reloadable `yaml:",inline"`
	// Networks or addresses whose `X-Forwarded-For` is believed, separated by commas.
	TrustedProxies []netip.Prefix `yaml:"trusted_proxies" env:"list" check:"proxy"`
	// [Mail providers that report bounces and complaints](provider-events.md).
	Providers []feedback.Provider `yaml:"provider_events" unique:"name"`
	// [Auth servers](supabase.md) that have their own codes sent.
	Hooks []authHook `yaml:"hooks" unique:"name"`
	// Which addresses of a domain are the same mailbox, for all callers and rules. `plus_tags`:
	// `ana+shop` is `ana`. `dots`: `a.na` is `ana`. A domain may have both. `exact`: each address
	// is a mailbox. `"*"` is all domains that are not listed. Without it these have `plus_tags`,
	// and `gmail.com` and `googlemail.com`, which are one, have both.
	Folds map[string][]string `yaml:"folding" keys:"domain" oneof:"plus_tags dots exact" unique:"yes"`
	// [Text messages](sms.md).
	SMS smsSettings `yaml:"sms"`
	// The public page at `/`.
	Page pageSettings `yaml:"page"`
	// [The console](operations.md#accounts).
	Admin adminSettings `yaml:"admin"`

	File string `yaml:"-"` // path of the YAML file
	// fileText is the content of the YAML file. fileSettings is true if the file has a setting.
	// CheckNothingLost uses both.
	fileText     string
	fileSettings bool
	// LocalPublicKey is a public key of the app default, for pages at LocalOrigins. It is set only
	// if the service generated the app's secret key. Then no app has another secret key.
	LocalPublicKey string `yaml:"-"`

	Warnings []string `yaml:"-"` // settings that work but may surprise, one sentence each, for the log
	// StartWait is how long the start waits while the database or Redis does not answer, or while
	// another process has locked the data directory. After this time, the start fails. If StartWait
	// is 0, the start does not wait: it goes on without Redis, but fails in the other two cases.
	// The command line sets StartWait.
	StartWait time.Duration `yaml:"-"`
	// Terminal is true if a person reads what the service prints.
	Terminal bool `yaml:"-"`
	// HoldUntil is the time until which the service refuses sends. The zero time means that it
	// refuses none. The command line sets HoldUntil.
	HoldUntil time.Time `yaml:"-"`
	// DebugAddr is a `host:port` on loopback for Go's profiles. The profiles show the contents of
	// the memory. If DebugAddr is empty, there are no profiles. The command line sets DebugAddr.
	DebugAddr string `yaml:"-"`
	// DKIMSelector is the DKIM selector (`s=`) of the key that the doctor checks. If it is empty,
	// the doctor checks no key. The command line sets DKIMSelector.
	DKIMSelector string `yaml:"-"`
	// BehindURL is the URL of the proxy through which the doctor sends a request to the service. If
	// it is empty, the doctor sends no such request.
	BehindURL string `yaml:"-"`
	// TestRecipient is the mail address or phone number to which the doctor sends a test message.
	// If it is empty, the doctor sends none. The command line sets TestRecipient.
	TestRecipient string `yaml:"-"`
	// TestApp is the app of the test message. If it is empty, the message is the first app's. The
	// command line sets TestApp.
	TestApp string `yaml:"-"`
}

// Secrets are settings that only environment variables can set, so that the settings file can be
// shared. The service never prints them. Two of these settings are not secret: the public key and
// its origins. The settings file can give the apps further public keys and origins.
type Secrets struct {
	// The key ring, `id:base64,id:base64`, with at least 32 bytes for each key. The first key is
	// for new codes and recipients, the others are for older ones. `sendcode key --kind ring` makes
	// one.
	SecretKeys Secret `yaml:"secret_keys,omitempty" env:"file" check:"ring" unset:"generated"`
	// The key that hashes recipients: base64, at least 32 bytes. `sendcode key --kind index` makes
	// one.
	IndexKey Secret `yaml:"index_key,omitempty" env:"file" check:"index_key" unset:"generated"`
	// The secret key of the app `default`, `sk_…`. `sendcode key` makes one.
	APIKey Secret `yaml:"api_key,omitempty" env:"file" check:"api_key" unset:"generated in a trial"`
	// A public key of the app `default`, `pk_…`, for browsers at `SENDCODE_ORIGINS`. `sendcode key
	// --kind public` makes one.
	PublicKey Secret `yaml:"public_key,omitempty" env:"file" check:"public_key"`
	// The origins of pages that use the public key, separated by commas: `https://shop.example`.
	Origins Secret `yaml:"origins,omitempty" env:"file" check:"origins"`
	// The password of `admin`, at least 12 characters.
	AdminPassword Secret `yaml:"admin_password,omitempty" env:"file" check:"password" unset:"generated in a trial"`
	// A hash in place of the password: `$argon2id$v=19$m=65536,t=3,p=4$…$…`, with m × t at least
	// 35840 KiB.
	AdminPasswordHash Secret `yaml:"admin_password_hash,omitempty" env:"file" check:"password_hash"`
	// A bearer token for the admin API, at least 20 characters. It can only read. For other roles
	// use [`admin: tokens`](operations.md#accounts).
	AdminToken Secret `yaml:"admin_token,omitempty" env:"file" check:"token"`
	// The bearer token for `/metrics`, at least 20 characters.
	MetricsToken Secret `yaml:"metrics_token,omitempty" env:"file" check:"token"`
	// The client secret for [`admin: oidc`](operations.md#logging-in-by-a-provider).
	OIDCSecret Secret `yaml:"oidc_client_secret,omitempty" env:"file"`
	// The secrets that [sign webhooks](webhooks.md): `app:whsec_…,app:whsec_…`. `sendcode key
	// --kind webhook` makes one.
	WebhookSecrets Secret `yaml:"webhook_secrets,omitempty" env:"file" check:"webhook_secrets"`
}

// Reloadable has the settings that can change while the service runs. Some fields of Secrets can
// change, too; see WithReloadable.
type Reloadable struct {
	// Lists of rules, by name of the policy. A send must pass all rules of its policy. A list named
	// `default` replaces the built-in list.
	Policies map[string][]policyRule `yaml:"policies" keys:"policy" unique:"name"`
	// Lists of rules for [`/v1/limits`](limits.md).
	Limits map[string][]limitRule `yaml:"limits" keys:"name" unique:"name"`
	// What codes are for. `default` always exists.
	Purposes map[string]purpose `yaml:"purposes" keys:"name"`
	// Tenants. `default` always exists.
	Apps []App `yaml:"apps" unique:"name"`
	// A bound on the sends of all apps together. Choose a bound well above your busiest minute.
	// `{}` means no bound.
	Breaker breakerSettings `yaml:"breaker"`
	// At most 20 recipients with a known code, to which nothing is sent.
	TestRecipients []testRecipient `yaml:"test_recipients"`
	// Stops of sends. A send to a recipient that `to` matches gets the state `failed` and the
	// reason `blocked`, and counts in the limits. A send of a stopped channel or purpose gets
	// `failed` and `paused`, and does not count.
	Stops []stop `yaml:"stop"`
	// How long the rows of sends, refusals and verifications are kept, `768h` to `87840h`. `0s`
	// means for ever. The service deletes rows of whole weeks.
	Retention time.Duration `yaml:"retention" default:"2160h" range:"768h 87840h, or 0s for ever"`
	// How many requests the browsers of one network may send in a minute, at each replica. Further
	// requests get 429 and are not recorded in the database. `0` means no bound.
	RequestsPerMinute int `yaml:"requests_per_minute" default:"300" range:"1 1000000, or 0 for no limit"`
	// How many checks may fail in an hour from one IPv4 address or IPv6 /64 of clients, for each
	// app and channel. From a /24 or /48, three times as many may fail.
	FailedChecksPerHour int `yaml:"failed_checks_per_hour" default:"100" range:"1 100000"`
	// A file with one mail domain on each line. Addresses at these domains are refused (422
	// `disposable`). A line that is no domain is skipped, and a warning tells of it.
	DisposableFile string `yaml:"disposable_domains"`
	// Private networks that [webhooks](webhooks.md) may call, there also without TLS.
	WebhookNetworks []netip.Prefix `yaml:"webhook_networks" check:"callee"`

	Disposable map[string]bool `yaml:"-"` // domains of DisposableFile, lower-case A-labels
	// disposableSkipped is a warning about the lines of DisposableFile that are no domains. It is
	// "" if all lines are domains.
	disposableSkipped string
	builtIn           bool // the default policy is the built-in one
}

// breakerSettings bound all sends together: at most Limit in any Window.
type breakerSettings struct {
	// 1 to 100000.
	Limit int `yaml:"limit,omitempty" range:"1 100000"`
	// `1s` to `744h`, sliding.
	Window time.Duration `yaml:"window,omitempty" range:"1s 744h"`
	// How many of the `limit` sends [strangers](policies.md#reserve) may not use. Strangers are
	// refused when only this many sends are left. The number must be below `limit`. By default it
	// is a fifth of `limit`, if `limit` is above 2.
	Reserve int `yaml:"reserve,omitempty"`
}

// Check implements document.checker. It also sets the default reserve.
func (b *breakerSettings) Check(p *document.Mapping) {
	checkReserve(p, b.Reserve, b.Limit)
	b.Reserve = cmp.Or(b.Reserve, defaultReserve(b.Limit))
	switch limit, window := p.Given["limit"] != nil, p.Given["window"] != nil; {
	case !limit && !window && p.Given["reserve"] != nil:
		p.AddMistake("", "limit and window are missing")
	case window && !limit:
		p.AddMistake("", "limit is missing")
	case limit && !window:
		p.AddMistake("", "window is missing")
	}
}

// purpose is what codes are for. PolicySet fills in the rules of the purpose's policy.
type purpose struct {
	// The name of a policy. The policy must have an enforced rule of `scope: recipient`. Purposes
	// with the same policy share the policy's counts.
	PolicyName string `yaml:"policy" default:"default"`
	// `confirm`: the codes of this purpose confirm an address, but do not sign people in. Such
	// codes have at least 8 characters.
	Kind string `yaml:"kind,omitempty" oneof:"confirm"`
	// What the codes of this purpose are for, by language. The words follow "Your code for Shop":
	// `{en: to sign in, es: para entrar, zh: 用于登录}`. With `kind: confirm` the default is "to
	// confirm your address".
	Title          map[string]string `yaml:"title,omitempty" keys:"language" check:"title"`
	policy.Purpose `yaml:",inline"`
	// The length of a code, and its characters.
	Code codeSettings `yaml:"code"`
}

type codeSettings struct {
	// How many characters a code has, 6 to 10.
	Length int `yaml:"length" default:"6" range:"6 10"`
	// `digits`, or `unambiguous`: the consonants `BCDFGHJKLMNPQRSTVWXZ`.
	Alphabet code.Alphabet `yaml:"alphabet" default:"digits" oneof:"digits unambiguous"`
}

// App is a tenant with its own keys and its own counts.
type App struct {
	// The app's name, up to 32 of `a-z 0-9 _ -`.
	Name string `yaml:"name" required:"yes" check:"name"`
	// The app's name in mails and on the page, up to 64 characters. The default is `name`.
	Title string `yaml:"title" check:"title"`
	// The sender of the app's mails. The default is the service's sender.
	MailFrom string `yaml:"mail_from" check:"mail_from"`
	// A directory with templates for this app, like `templates`.
	Templates string `yaml:"templates"`
	// How the app looks on the page and in mails.
	Brand brandSettings `yaml:"brand"`
	// The exact origins of the app's pages: `https://shop.example`. A public key works on these
	// pages and on our page.
	Origins []string `yaml:"origins" check:"origin" unique:"yes"`
	// The host in the last line `@host #code` of text messages that the app's back end requests.
	// The default is the host of our page. Messages that a widget requests have the host of the
	// widget's site, if the line fits into `sms.segments`.
	SMSOrigin string `yaml:"sms_origin,omitempty" check:"page_host"`
	// The 11 characters by which Android's SMS Retriever finds the app of a message. Templates have
	// them as `{{.Hash}}`.
	SMSHash string `yaml:"sms_hash,omitempty" check:"sms_hash"`
	// The watch on this app's text messages. What you leave out is that of `sms.watch`.
	SMSWatch watchSettings `yaml:"sms_watch,omitempty"`
	// URL prefixes to which the page may [return a person](sign-up.md).
	ReturnURLs []string `yaml:"return_urls" check:"return_url" unique:"yes"`
	// Purposes that our page offers besides `default`, at `/?purpose=NAME`.
	PagePurposes []string `yaml:"page_purposes,omitempty" unique:"yes"`
	// [A human check](policies.md#human-checks), which strangers get when many of them come.
	HumanCheck vendors.Settings `yaml:"human_check,omitempty"`
	// The app's API keys.
	Keys []appKey `yaml:"keys" unique:"id"`
	// The endpoint that gets the app's [events](webhooks.md).
	Webhook webhookSettings `yaml:"webhook"`
}

type brandSettings struct {
	// The https URL of an image, which only the page shows.
	Logo string `yaml:"logo,omitempty" check:"logo"`
	// A colour, such as `"#1f5fd1"`. The service changes its lightness where the contrast is
	// too low.
	Accent string `yaml:"accent,omitempty" check:"accent"`
	// The app's https address. The logo and the name link to this address, and mails contain it.
	Home string `yaml:"home,omitempty" check:"home"`
}

// appKey is one API key of an app; only its hash is kept.
type appKey struct {
	// Unique within the app. `api_key`, `public_key` and `page` are the service's own.
	ID string `yaml:"id" required:"yes" check:"name"`
	// `secret` for a back end, or `public` for browsers.
	Kind KeyKind `yaml:"kind" required:"yes" oneof:"secret public"`
	// The SHA-256 of the whole key, in hex.
	SHA256 [32]byte `yaml:"sha256" required:"yes" check:"key_hash"`
	// The last day of the key in UTC, or the time at which it ends.
	Expires time.Time `yaml:"expires,omitempty"`
	// What a secret key may do: any of `send`, `check`, `read` and `limit`. By default it may do
	// everything.
	Scopes []string `yaml:"scopes,omitempty" oneof:"send check read limit" unique:"yes"`
	// `known`: all people of this back end are signed in, so its requests need not say `trust`. A
	// request for a stranger then says `"trust": "stranger"`. By default each request is for a
	// stranger unless it says `"trust": "known"`.
	Trust KeyTrust `yaml:"trust,omitempty" oneof:"known"`
}

// KeyTrust is the trust of the requests with a secret key that don't have the field trust.
type KeyTrust string

// KnownKeyTrust is the trust of a key whose back end knows its people. Without a KeyTrust, requests
// are for strangers.
const KnownKeyTrust KeyTrust = "known"

// KeyKind says whether back ends or browsers use an API key.
type KeyKind string

// These are the kinds of API keys.
const (
	SecretKeyKind KeyKind = "secret" // sk_…, for back ends
	publicKeyKind KeyKind = "public" // pk_…, for browsers
)

type pageSettings struct {
	// The app of the page at `/`. `""` turns the page off. An app with `return_urls` also has a
	// page at `/?app=NAME`.
	App string `yaml:"app"`
	// The channels that the page offers, in this order: `[email]`, `[sms]` or both. By default the
	// page offers all channels that work.
	Channels []recipient.Channel `yaml:"channels" oneof:"email sms" unique:"yes"`
}

// defaultApp is the app that always exists. SENDCODE_API_KEY is its secret key.
const defaultApp = "default"

// apiKeyID and publicKeyID are the IDs of SENDCODE_API_KEY and SENDCODE_PUBLIC_KEY among the keys
// of defaultApp. pageKeyID is the ID of the key of each app's page (api.NewPageKey).
const (
	apiKeyID    = "api_key"
	publicKeyID = "public_key"
	pageKeyID   = "page"
)

// Loopback reports whether only this machine can reach the listeners.
func (c Config) Loopback() bool {
	return isLoopbackAddr(c.Addr) && (c.AdminAddr == "" || isLoopbackAddr(c.AdminAddr))
}

// isTrial reports whether the service seems to be a trial on one machine. In a trial the service
// listens only on loopback, trusts no proxy, and uses SQLite. Only a trial generates an API key and
// a password.
func (c Config) isTrial() bool {
	return c.Loopback() && len(c.TrustedProxies) == 0 && c.DatabaseURL == ""
}

// BaseURL returns PublicURL. If a trial has no PublicURL, BaseURL returns the URL of the trial's
// own address. If no URL is known, it returns "".
func (c Config) BaseURL() string {
	if c.PublicURL == "" && c.isTrial() {
		return "http://" + c.Addr
	}
	return c.PublicURL
}

// BehindProxy reports whether strangers come through a proxy, which may run on this machine. It
// returns true if the settings name a trusted proxy, or a public URL that is not this machine's. In
// that case, a request from this machine may be a stranger's.
func (c Config) BehindProxy() bool {
	u, err := url.Parse(c.PublicURL)
	return len(c.TrustedProxies) > 0 || c.PublicURL != "" && (err != nil || !loopback.IsHost(u.Hostname()))
}

func (c Config) hasSecretKeys() bool { return slices.ContainsFunc(c.Apps, App.hasSecretKey) }

// GeneratesAPIKey reports whether LoadOrCreateSecrets generates, or has generated, the secret key
// of the app default. It generates this key in a trial in which no app has a secret key.
func (c Config) GeneratesAPIKey() bool {
	return c.isTrial() && !c.hasSecretKeys() || c.LocalPublicKey != ""
}

// PublicConsole reports whether /admin and /metrics are on the listener of the API, and other
// machines can reach that listener.
func (c Config) PublicConsole() bool { return c.AdminAddr == "" && !isLoopbackAddr(c.Addr) }

// RequiresHTTPS reports whether browsers must use TLS to reach a listener. It returns true unless
// the address is on loopback, because browsers send cookies and codes to the listener.
func RequiresHTTPS(addr string) bool { return !isLoopbackAddr(addr) }

// AdminLoginEnabled reports whether there is a way to log in to the console. It is false for a
// trial whose password LoadOrCreateSecrets still has to generate.
func (c Config) AdminLoginEnabled() bool {
	return c.AdminPassword.IsSet() || c.AdminPasswordHash.IsSet() || c.Admin.OIDC.IsSet()
}

// AdminHasPassword reports whether the account admin has a password, which the service may still
// have to generate at its start.
func (c Config) AdminHasPassword() bool {
	return c.AdminPassword.IsSet() || c.AdminPasswordHash.IsSet() || c.generatesPassword()
}

// generatesPassword reports whether LoadOrCreateSecrets generates the password of the account
// admin.
func (c Config) generatesPassword() bool { return c.isTrial() && !c.AdminLoginEnabled() }

// purposesWithPolicy returns the names of the purposes with this policy, sorted. These purposes
// share the policy's buckets.
func (c Config) purposesWithPolicy(policy string) []string {
	var names []string
	for name, p := range c.Purposes {
		if p.PolicyName == policy {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func (a App) hasSecretKey() bool {
	return slices.ContainsFunc(a.Keys, func(k appKey) bool { return k.Kind == SecretKeyKind })
}

func (a App) hasPublicKey() bool {
	return slices.ContainsFunc(a.Keys, func(k appKey) bool { return k.Kind == publicKeyKind })
}

// ResendsOther reports whether a second message of a code goes to another mail server or carrier
// than the first message, if possible.
func (c Config) ResendsOther() bool { return c.Resend == "other" }

// MailDomain returns the domain of MailFrom, which Message-IDs have too.
func (c Config) MailDomain() string { return senderDomain(c.MailFrom) }

// MailSenders returns the configured senders without repetitions: the service's first, then the
// apps'.
func (c Config) MailSenders() []string {
	all := []string{c.MailFrom}
	for _, a := range c.Apps {
		if a.MailFrom != "" && !slices.Contains(all, a.MailFrom) {
			all = append(all, a.MailFrom)
		}
	}
	return all
}

// MailDomains returns the domains of MailSenders, each once.
func (c Config) MailDomains() (all []string) {
	for _, from := range c.MailSenders() {
		if domain := senderDomain(from); !slices.Contains(all, domain) {
			all = append(all, domain)
		}
	}
	return all
}

// senderDomain returns the domain of a sender such as "Shop <codes@shop.example>". If it can't
// parse the sender, it returns "localhost".
func senderDomain(from string) string {
	sender, err := mail.ParseAddress(from)
	if err != nil {
		return "localhost"
	}
	return strings.ToLower(sender.Address[strings.LastIndexByte(sender.Address, '@')+1:])
}

// reachedByStrangers reports whether strangers' browsers can request codes of the app. They can if
// the app has a public key, or if it has a page that other machines reach.
func (c Config) reachedByStrangers(a App) bool {
	return a.hasPublicKey() || (!isLoopbackAddr(c.Addr) || len(c.TrustedProxies) > 0) && c.HasPage(a)
}

// PurposesOfPage returns the purposes that the app's page offers: the default one, and
// PagePurposes.
func (a App) PurposesOfPage() []string { return append([]string{defaultName}, a.PagePurposes...) }

// HasPage reports whether the app has a page. No app has one if Page.App is empty. Otherwise
// Page.App and the apps with return URLs have one. If only this machine reaches the service, each
// app has one.
func (c Config) HasPage(a App) bool {
	return c.Page.App != "" && (a.Name == c.Page.App || len(a.ReturnURLs) > 0 || c.Loopback() && len(c.TrustedProxies) == 0)
}

// Folding returns the folding rules of each domain. By these rules, several spellings of an address
// get the same hash, as one mailbox.
func (c Config) Folding() recipient.Folding {
	all := recipient.DefaultFolding()
	if c.Folds[otherDomains] != nil {
		all = recipient.Folding{}
	}
	for domain, what := range c.Folds {
		all[strings.TrimPrefix(domain, otherDomains)] = recipient.FoldRules{
			PlusTags: slices.Contains(what, "plus_tags"), Dots: slices.Contains(what, "dots"),
		}
	}
	return all
}

// SMSEnabled reports whether text messages go to a carrier or to the dev mailbox.
func (c Config) SMSEnabled() bool { return len(c.SMS.Carriers) > 0 || c.SMSToDevMailbox() }

// SMSToDevMailbox reports whether text messages go to the dev mailbox, as mails do.
func (c Config) SMSToDevMailbox() bool {
	return len(c.SMS.Carriers) == 0 && c.SMTPURL == "" && c.Loopback()
}
