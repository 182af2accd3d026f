package config

import (
	"regexp"
	"strings"
)

const prefix = "SENDCODE_"

// The settings that are one value each. In the file they have the same names in lower case.
const (
	keyAddr              = "addr"
	keyAdminAddr         = "admin_addr"
	keyDataDir           = "data_dir"
	keyDatabaseURL       = "database_url"
	keyDatabaseRole      = "database_role"
	keyRedisURL          = "redis_url"
	keySMTPURL           = "smtp_url"
	keyMailFrom          = "mail_from"
	keyDKIMSelector      = "dkim_selector"
	keyLogLevel          = "log_level"
	keySecretKeys        = "secret_keys"
	keyIndexKey          = "index_key"
	keyAPIKey            = "api_key"
	keyAdminPassword     = "admin_password"
	keyAdminPasswordHash = "admin_password_hash"
	keyAdminToken        = "admin_token"
	keyMetricsToken      = "metrics_token"
	keyAdminTokenRole    = "admin_token_role"
	keyOIDCSecret        = "oidc_client_secret"
	keyWebhookSecrets    = "webhook_secrets"
	keyTrustedProxies    = "trusted_proxies"
	keyConfig            = "config"
)

// variable is one setting that the environment may give.
type variable struct {
	key      string
	initial  string // what holds when nobody gives it
	fromFile bool   // SENDCODE_…_FILE may name a file that holds it (OPS-7)
	inFile   bool   // the YAML file may give it: no secrets, so that the file can be shared
	list     bool   // a list in the file, values by commas in the environment
	meaning  string // of an empty value, for people
}

var variables = []variable{
	{key: keyAddr, initial: "127.0.0.1:8080", inFile: true},
	{key: keyAdminAddr, inFile: true, meaning: "/admin and /metrics are on addr"},
	{key: keyDataDir, initial: "./data", inFile: true},
	{key: keyDatabaseURL, fromFile: true, inFile: true, meaning: "SQLite in data_dir"},
	{key: keyDatabaseRole, inFile: true, meaning: "the role that database_url logs in as"},
	{key: keyRedisURL, fromFile: true, inFile: true, meaning: "rules are counted in process"},
	{key: keySMTPURL, fromFile: true, inFile: true, meaning: "the dev mailbox"},
	{key: keyMailFrom, initial: "sendcode <no-reply@localhost>", inFile: true},
	{key: keyDKIMSelector, inFile: true, meaning: "sendcode doctor does not look at DKIM"},
	{key: keyLogLevel, initial: "info", inFile: true},
	{key: keySecretKeys, fromFile: true},
	{key: keyIndexKey, fromFile: true},
	{key: keyAPIKey, fromFile: true},
	{key: keyAdminPassword, fromFile: true},
	{key: keyAdminPasswordHash, fromFile: true},
	{key: keyAdminToken, fromFile: true},
	{key: keyMetricsToken, fromFile: true},
	{key: keyAdminTokenRole},
	{key: keyOIDCSecret, fromFile: true},
	{key: keyWebhookSecrets, fromFile: true},
	{key: keyTrustedProxies, inFile: true, list: true},
	{key: keyConfig},
}

// envName is how the environment spells a setting.
func envName(key string) string { return prefix + strings.ToUpper(key) }

// envNames lists every variable that means something.
func envNames() []string {
	var names []string
	for _, v := range variables {
		names = append(names, envName(v.key))
		if v.fromFile {
			names = append(names, envName(v.key)+"_FILE")
		}
	}
	return names
}

// testPrefix is left to the project's own tests; the server ignores it.
const testPrefix = prefix + "TEST_"

// Kubernetes and Docker links tell every container about services near it. A service called "sendcode" or
// "sendcode-redis" thus sets variables that look like ours, and must not keep the program from starting
// (kubernetes.io, "Discovering services": {NAME}_SERVICE_HOST, and {NAME}_PORT=tcp://…).
var (
	serviceName = regexp.MustCompile(`^SENDCODE_(\w+_)?SERVICE_(HOST|PORT(_\w+)?)$`)
	linkName    = regexp.MustCompile(`^SENDCODE_(\w+_)?PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?$`)
	linkURLName = regexp.MustCompile(`^SENDCODE_(\w+_)?PORT$`)
	linkURL     = regexp.MustCompile(`^(tcp|udp|sctp)://`)
)

func fromOrchestrator(name, value string) bool {
	return serviceName.MatchString(name) || linkName.MatchString(name) ||
		linkURLName.MatchString(name) && linkURL.MatchString(value)
}
