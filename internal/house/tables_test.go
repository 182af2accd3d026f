// Package house holds the rules of this repository that a machine can check:
// which package may import which, where a module may be used, and how a source
// file looks. It has tests only.
//
// The reason for the import rules is that the way of one send stays readable:
// verification alone calls the parts, and the parts do not know each other.
// tables_test.go has the rules to read and to extend; a test that fails says
// what to do.
package house

// edges says which of our packages a package imports. Paths are relative to the
// module, separated by spaces. Tests, kits for tests and tools may import any of them.
var edges = map[string]string{
	// suggests a command as it does a setting
	"cmd/sendcode": "internal/app internal/app/doctor internal/config internal/config/document",

	// Leaves. quota is public: others may use it without the rest.
	"quota":                     "quota/internal/redisurl",
	"quota/internal/redisurl":   "",
	"quota/quotahttp":           "quota",
	"quota/echoquota":           "quota quota/quotahttp",
	"internal/recipient":        "",
	"internal/brand":            "",
	"internal/fault":            "",
	"internal/code":             "internal/fault",
	"internal/jsonpath":         "",
	"internal/requestid":        "",
	"internal/loopback":         "",
	"internal/recent":           "",
	"internal/runbook":          "", // the sections of the runbooks that log lines name
	"internal/logthrottle":      "",
	"internal/peek":             "",
	"internal/disk":             "",
	"internal/standardwebhooks": "",
	"internal/sns":              "",
	"internal/hooks":            "internal/recipient internal/standardwebhooks",
	"internal/delivery":         "",
	"internal/delivery/smtp":    "internal/delivery internal/loopback",
	"internal/delivery/mailbox": "internal/delivery",
	"internal/exchange":         "internal/delivery",
	"internal/evp":              "internal/recipient", // the draft of a protocol, apart from all else
	"internal/sms":              "internal/delivery internal/exchange internal/loopback",
	"internal/sms/*":            "internal/sms internal/delivery internal/exchange internal/jsonpath", // a carrier each
	"internal/proof":            "internal/keys",
	"internal/openid":           "internal/loopback",
	"docs":                      "",
	"migrations":                "internal/store",
	"templates":                 "",
	"internal/texts":            "quota", // waits are rounded as everywhere
	// draws a rule's state the same way on every page, and serves how numbers are written
	"web": "quota internal/recipient internal/texts",

	// Mail servers.
	"internal/delivery/mailapi":    "internal/delivery internal/exchange internal/loopback",
	"internal/delivery/mailserver": "internal/delivery internal/delivery/mailapi internal/delivery/smtp",

	// What a send passes through, from below. No row names a package above it.
	"internal/message":        "templates internal/brand internal/texts", // its languages are chosen as those of the page
	"internal/store":          "internal/fault quota internal/recipient",
	"internal/store/gate":     "quota internal/recipient internal/store",
	"internal/store/batch":    "internal/store",
	"internal/store/columns":  "internal/recipient internal/store",
	"internal/store/sqldb":    "internal/fault quota internal/recipient internal/store internal/store/columns internal/store/gate",
	"internal/store/postgres": "internal/fault internal/peek quota internal/recipient internal/store internal/store/batch internal/store/columns internal/store/gate internal/store/sqldb migrations",
	"internal/store/sqlite":   "internal/fault quota internal/recipient internal/store internal/store/batch internal/store/columns internal/store/gate internal/store/sqldb migrations",
	"internal/keys":           "internal/code internal/recipient internal/store",
	"internal/policy":         "quota internal/brand internal/store/gate internal/recipient internal/code internal/message internal/store",
	"internal/buckets":        "quota internal/keys internal/policy internal/recipient internal/store",
	"internal/webhook":        "internal/standardwebhooks internal/runbook internal/fault internal/keys internal/policy internal/recipient internal/store",
	"internal/gates":          "internal/fault internal/logthrottle internal/runbook quota internal/buckets internal/policy internal/store internal/store/gate",
	"internal/refusals":       "internal/runbook quota internal/recipient internal/store",
	"internal/outbox": "internal/runbook internal/buckets internal/webhook quota internal/policy internal/keys internal/message internal/delivery internal/sms " +
		"internal/recipient internal/store", // not internal/verification: the outbox knows no use case
	"internal/reports":   "internal/standardwebhooks internal/runbook internal/webhook internal/fault internal/jsonpath internal/policy internal/keys internal/delivery internal/sms internal/recipient internal/store",
	"internal/jobs":      "internal/runbook internal/webhook internal/policy internal/store",
	"internal/admission": "internal/fault internal/store",
	"internal/limits":    "internal/fault quota", // not internal/gates: it asks an interface
	"internal/verification": "internal/runbook internal/buckets internal/admission internal/fault internal/requestid quota internal/policy internal/gates internal/refusals internal/keys internal/code internal/message " +
		"internal/recipient internal/proof internal/store internal/store/gate internal/webhook", // not internal/outbox: it hands over to an interface
	"internal/redemption": "internal/fault internal/policy internal/proof internal/recipient internal/store internal/keys internal/verification",
	"internal/support": "internal/runbook internal/buckets internal/webhook internal/fault quota internal/verification internal/policy internal/keys internal/code internal/message " +
		"internal/recipient internal/store",

	// HTTP, by audience.
	"internal/server": "internal/logthrottle internal/runbook internal/admission internal/fault internal/peek internal/keys internal/requestid web internal/loopback quota quota/quotahttp internal/limits internal/recipient internal/redemption internal/texts internal/verification",
	"internal/api":    "internal/logthrottle internal/hooks internal/sns internal/runbook internal/fault internal/texts internal/requestid internal/sms quota quota/quotahttp internal/limits internal/recipient internal/redemption internal/verification internal/reports internal/store internal/server internal/code",
	"internal/page": "internal/evp internal/runbook internal/fault internal/requestid quota internal/brand internal/keys internal/texts internal/recipient internal/policy internal/verification internal/store internal/server web internal/code " +
		"internal/delivery/mailbox", // shown by a page
	"internal/console": "internal/runbook internal/buckets internal/requestid internal/fault quota internal/texts internal/recipient internal/policy internal/support internal/verification internal/store internal/server web " +
		"internal/console/frame internal/console/statistics internal/console/auth internal/console/explain " +
		"internal/console/records internal/console/policies",
	"internal/console/records":    "internal/fault internal/texts internal/recipient internal/support internal/verification internal/store internal/server internal/console/auth internal/console/explain internal/console/frame",
	"internal/console/policies":   "quota internal/texts internal/support internal/store internal/console/frame",
	"internal/console/statistics": "internal/texts internal/store",
	"internal/console/frame":      "internal/fault internal/texts internal/recipient internal/store internal/verification internal/server web",
	// no HTTP, and nothing that reads
	"internal/console/explain": "quota internal/texts internal/recipient internal/policy internal/store internal/verification",
	"internal/console/auth": "internal/logthrottle internal/runbook internal/buckets internal/fault quota internal/texts internal/support internal/store internal/server internal/verification internal/console/frame " +
		"internal/policy internal/keys internal/openid", // what browsers keep is sealed with the ring, so that every replica accepts it

	"internal/reference": "docs internal/server web",

	// Settings, and the only place where parts are put together.
	"internal/config/document": "internal/recipient",
	"internal/config": "internal/hooks internal/sns internal/brand internal/policy internal/code internal/config/document internal/loopback quota internal/recipient internal/keys internal/delivery internal/delivery/mailserver internal/reports " +
		"internal/message internal/sms internal/sms/* internal/texts", // kind: confirm has a title in each language
	// plays a week on the real use cases
	"internal/demo":    "internal/delivery internal/recipient internal/sms internal/store internal/support internal/verification",
	"internal/traces":  "internal/store",
	"internal/metrics": "internal/admission internal/delivery internal/disk internal/limits internal/recent internal/recipient internal/store internal/webhook",
	"internal/app/core": "internal/gates internal/jobs internal/keys internal/limits internal/outbox internal/policy internal/proof internal/redemption internal/refusals " +
		"internal/reports internal/runbook internal/store internal/support internal/verification internal/webhook",
	"internal/app": "internal/disk internal/evp internal/recent internal/logthrottle internal/hooks internal/sns internal/runbook internal/admission internal/app/core internal/loopback internal/requestid internal/brand internal/fault internal/demo internal/reference internal/metrics quota docs migrations templates web internal/recipient internal/keys internal/message " +
		"internal/delivery internal/delivery/mailserver internal/delivery/mailbox " +
		"internal/sms internal/store internal/store/postgres internal/store/sqldb internal/store/sqlite internal/verification internal/server internal/api internal/page " +
		"internal/console internal/console/auth internal/config internal/reports internal/webhook internal/openid internal/code internal/policy internal/gates " +
		"internal/outbox internal/jobs internal/limits internal/traces",

	"internal/historytest": "", // judges the whole, so it must not share its mistakes
	"internal/app/doctor":  "quota internal/app internal/config internal/delivery internal/delivery/mailserver internal/disk internal/loopback internal/sms internal/store internal/store/postgres internal/store/sqldb internal/store/sqlite",
}

// support is what no production package imports: kits for tests.
var support = words("internal/servertest internal/golden internal/code/codetest internal/store/sqlite/sqlitetest " +
	"internal/store/storetest internal/app/apptest internal/verification/verificationtest internal/simulate internal/delivery/smtptest " +
	"internal/delivery/mailapi/mailapitest internal/evp/evptest internal/sns/snstest " +
	"internal/sms/smstest internal/openid/openidtest internal/console/consoletest internal/page/pagetest internal/house internal/markdown")

// modules says which packages may use another author's module, so that
// changing one's mind about it has an end. Test files may use any module here.
var modules = map[string]string{
	"github.com/CycloneDX/cyclonedx-go":     "tools/release",
	"github.com/google/licensecheck":        "tools/release", // as pkg.go.dev reads licences
	"github.com/Shopify/toxiproxy":          testsOnly,
	"github.com/alecthomas/kong":            "cmd/sendcode",
	"github.com/andybalholm/brotli":         "web",
	"github.com/evanw/esbuild":              "internal/page/pagetest",
	"github.com/boombuler/barcode":          "internal/console/auth",
	"github.com/chromedp/cdproto":           "internal/page/pagetest tools/screenshots",
	"github.com/chromedp/chromedp":          "internal/page/pagetest tools/screenshots",
	"github.com/coreos/go-oidc":             "internal/openid",
	"github.com/dunglas/httpsfv":            "internal/api quota/quotahttp",
	"github.com/emersion/go-message":        "internal/delivery/mailbox",
	"github.com/emersion/go-smtp":           "internal/delivery/mailbox",
	"github.com/exaring/otelpgx":            "internal/traces",
	"github.com/getkin/kin-openapi":         "internal/app/apptest",
	"github.com/santhosh-tekuri/jsonschema": testsOnly,
	"github.com/go-json-experiment/json":    "internal/server",
	"github.com/go-redis/redis_rate":        testsOnly, // what the benchmark is compared with
	"github.com/go-jose/go-jose":            "internal/evp internal/evp/evptest internal/proof internal/openid/openidtest",
	"github.com/go-logr/logr":               "internal/traces", // OpenTelemetry's libraries log by it
	"github.com/gofrs/flock":                "internal/app internal/config internal/servertest",
	"github.com/google/uuid":                anywhere,
	"github.com/jackc/pgx":                  "internal/store/columns internal/store/postgres internal/app internal/traces internal/servertest tools/floor",
	"github.com/labstack/echo":              "web internal/reference internal/api internal/page internal/console internal/console/frame internal/console/records internal/console/policies internal/console/auth internal/server internal/app quota/echoquota tools/up",
	"github.com/nyaruka/phonenumbers":       "internal/recipient",
	"github.com/pquerna/otp":                "internal/console/auth internal/console/consoletest",
	"github.com/pressly/goose":              "internal/store/postgres internal/store/sqlite migrations",
	"github.com/prometheus/client_golang":   "internal/metrics",
	"github.com/prometheus/procfs":          testsOnly, // tools/bench
	"github.com/redis/go-redis/extra":       "internal/traces",
	"github.com/redis/go-redis/v9":          "quota quota/internal/redisurl internal/app internal/traces internal/app/apptest internal/servertest tools/floor",
	"github.com/rogpeppe/go-internal":       "internal/golden", // diff, as Go's own tools have it
	"github.com/sony/gobreaker":             "internal/delivery internal/delivery/mailserver",
	"github.com/rs/zerolog":                 testsOnly, // toxiproxy wants to be told that it shall not log
	"github.com/wneessen/go-mail":           "internal/delivery/smtp",
	"go.yaml.in/yaml":                       "internal/config internal/config/document internal/reference tools/mutants",
	"go.opentelemetry.io/contrib":           "internal/traces",
	// all but traces read or write traceparent alone
	"go.opentelemetry.io/otel":              "internal/traces internal/exchange internal/webhook internal/requestid",
	"go.uber.org/goleak":                    testsOnly,
	"golang.org/x/crypto":                   "internal/keys internal/console/auth internal/console/consoletest",
	"golang.org/x/net":                      "internal/recipient internal/delivery internal/message",
	"golang.org/x/oauth2":                   "internal/openid",
	"golang.org/x/sync":                     anywhere,
	"golang.org/x/sys":                      "internal/server",
	"golang.org/x/text":                     "internal/recipient internal/message internal/texts internal/page internal/delivery",
	"modernc.org/sqlite":                    "internal/store/sqlite",
	"pgregory.net/rapid":                    testsOnly,
	"github.com/KimMachineGun/automemlimit": "internal/app",
}

const (
	anywhere  = "*"
	testsOnly = ""
)

// bubbles is the package that opens testing/synctest's.
const bubbles = "sendcode/internal/servertest"

// sleepers are the files that may call time.Sleep, each with the reason. Tests in a bubble need no
// leave to sleep: there it moves the bubble's clock and takes no time.
var sleepers = map[string]string{
	"internal/simulate/happen_test.go":              "in a bubble, where time is virtual",
	"internal/verification/verificationtest/rig.go": "lets the time of a bubble pass",
}
