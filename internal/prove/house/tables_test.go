// Package house checks the rules of this repository that a machine can check: which package may
// import which, which package may use a module, how a source file looks, and how documents and the
// files of deployments agree with the program. It has only tests.
//
// The import rules keep the course of a send readable: only verification calls the parts, and the
// parts do not import each other. tables_test.go has the rules to read and to extend. If a test
// fails, it says what to do.
package house

// edges says which of our packages a package may import. A row is for the package and for all
// packages below it without a row of their own. Paths are relative to the module, separated by
// spaces; x/... is x with all packages below it. Tests, kits for tests and tools may import any
// package.
//
// The directories of internal form layers. From the lowest to the highest, these are base, store,
// codes, limit, deliver, verify, http and run. None imports a layer above it.
var edges = map[string]string{
	"cmd/sendcode": "internal/base/document internal/run/app/... internal/run/commands internal/run/config/...",
	"docs":         "",
	"templates":    "",
	"migrations":   "internal/store",
	"web":          "quota internal/base/recipient internal/base/texts",

	// This package is public: other programs may use it without the rest.
	"quota":           "quota/internal/redisurl",
	"quota/quotahttp": "quota",

	"internal/base":          "quota", // texts needs quota.Seconds, which rounds a wait
	"internal/base/document": "internal/base/recipient",
	"internal/base/panics":   "internal/base/logs",
	"internal/base/message":  "templates internal/base/texts",

	"internal/store":          storing,
	"internal/store/postgres": storing + " migrations internal/store/sqldb",
	"internal/store/sqlite":   storing + " migrations internal/store/sqldb",

	"internal/codes": "quota internal/base/... internal/store internal/store/rowrules internal/codes/...",

	"internal/limit":           deciding + " internal/limit/buckets",
	"internal/limit/applimits": "quota internal/base/fault", // not gates: applimits calls them through an interface

	"internal/deliver": "quota internal/base/... internal/store internal/codes/... internal/limit/buckets " +
		"internal/deliver/bounce internal/deliver/delivery internal/deliver/providerhttp internal/deliver/sms internal/deliver/sns internal/deliver/standardwebhooks internal/deliver/webhook",
	// Mail servers and carriers don't depend on sends.
	"internal/deliver/delivery": "internal/base/loopback internal/base/panics internal/deliver/delivery/... internal/deliver/providerhttp",
	"internal/deliver/sms":      "internal/base/loopback internal/deliver/delivery internal/deliver/providerhttp internal/deliver/sms",

	// Not deliver/outbox: verify hands a send over through an interface.
	"internal/verify": deciding + " internal/limit/... internal/deliver/testmessage internal/deliver/webhook internal/verify/humancheck internal/verify/proof internal/verify/verification",
	// A vendor is called in the same way as a carrier, and doesn't depend on sends.
	"internal/verify/humancheck/vendors": "quota internal/base/document internal/base/loopback internal/deliver/delivery internal/deliver/providerhttp internal/deliver/sms internal/verify/humancheck",

	"internal/http":         serving,
	"internal/http/api":     serving + " internal/http/authhooks internal/deliver/feedback internal/deliver/sms internal/deliver/sns",
	"internal/http/page":    serving + " internal/deliver/delivery/mailbox", // the page of the mailbox shows its mails
	"internal/http/console": serving + " internal/limit/buckets internal/http/console/... internal/http/openid",

	"internal/run":        deciding + " internal/limit/... internal/deliver/... internal/verify/... internal/run/disk internal/run/metrics",
	"internal/run/config": "quota internal/base/... internal/store internal/codes/... internal/deliver/... internal/http/authhooks internal/run/disk internal/verify/humancheck/...",
	// This is the only place where parts are put together.
	"internal/run/app": ". docs migrations quota templates web internal/...",
	"internal/run/commands": ". migrations internal/base/fault internal/http/console/auth internal/run/app internal/run/config internal/deliver/feedback internal/run/disk " +
		"internal/store/...",

	"internal/kit/historytest": "", // it judges the service, so it must not share the service's mistakes
}

const (
	storing  = "quota internal/base/... internal/store internal/store/batch internal/store/sqlgen internal/store/rowrules"
	deciding = "quota internal/base/... internal/store internal/store/rowrules internal/codes/..."
	serving  = "docs quota quota/quotahttp web internal/base/... internal/store internal/codes/... internal/limit/admission internal/limit/applimits " +
		"internal/deliver/standardwebhooks internal/verify/... internal/http/server"
)

// modules says which packages may use another author's module, so that few packages change if the
// module is replaced. Tests, kits for tests and tools may use any of these modules.
var modules = map[string]string{
	"github.com/CycloneDX/cyclonedx-go":     "tools/release",
	"github.com/google/licensecheck":        "tools/release", // pkg.go.dev reads licences with it
	"github.com/Shopify/toxiproxy":          testsOnly,
	"github.com/alecthomas/kong":            "cmd/sendcode",
	"github.com/andybalholm/brotli":         "web",
	"github.com/evanw/esbuild":              "internal/http/page/pagetest",
	"blitiri.com.ar/go/spf":                 "internal/run/app/doctor",
	"github.com/boombuler/barcode":          "internal/http/console/auth",
	"github.com/chromedp/cdproto":           "internal/http/page/pagetest internal/kit/browsertest tools/screenshots",
	"github.com/chromedp/chromedp":          "internal/http/page/pagetest internal/kit/browsertest tools/screenshots",
	"github.com/coreos/go-oidc":             "internal/http/openid",
	"github.com/dunglas/httpsfv":            "internal/http/api quota/quotahttp",
	"github.com/altcha-org/altcha-lib-go":   "internal/verify/humancheck internal/prove/e2e/parts",
	"github.com/emersion/go-message":        "internal/deliver/bounce internal/deliver/delivery/mailbox",
	"github.com/emersion/go-smtp":           "internal/deliver/delivery/mailbox",
	"github.com/exaring/otelpgx":            "internal/run/traces",
	"github.com/getkin/kin-openapi":         "internal/run/app/apptest",
	"github.com/santhosh-tekuri/jsonschema": testsOnly,
	"github.com/go-json-experiment/json":    "internal/http/server",
	"github.com/go-jose/go-jose":            "internal/verify/proof internal/http/openid/openidtest internal/deliver/delivery/oauth/oauthtest",
	"github.com/go-logr/logr":               "internal/run/traces", // OpenTelemetry's libraries log through it
	"github.com/gofrs/flock":                "internal/run/app internal/run/config internal/kit/servertest",
	"github.com/google/uuid":                anywhere,
	"github.com/jackc/pgx":                  "internal/store/sqlgen internal/store/postgres internal/run/config internal/run/app internal/run/traces internal/kit/servertest tools/floor",
	"github.com/labstack/echo":              "web internal/http/reference internal/http/api internal/http/page internal/http/console internal/http/console/layout internal/http/console/records internal/http/console/auth internal/http/server internal/run/app",
	"github.com/nyaruka/phonenumbers":       "internal/base/recipient",
	"github.com/pquerna/otp":                "internal/http/console/auth internal/http/console/consoletest",
	"github.com/pressly/goose":              "internal/store/postgres internal/store/sqlite migrations",
	"github.com/prometheus/client_golang":   "internal/run/metrics",
	"github.com/prometheus/procfs":          testsOnly, // for tools/bench
	"github.com/redis/go-redis/extra":       "internal/run/traces",
	"github.com/redis/go-redis/v9":          "quota quota/internal/redisurl internal/run/app internal/run/traces internal/run/app/apptest internal/kit/servertest tools/floor",
	"github.com/rogpeppe/go-internal":       "internal/kit/golden", // for its diff, which Go's own tools have, too
	"github.com/sony/gobreaker":             "internal/deliver/delivery internal/deliver/delivery/mailserver",
	"github.com/rs/zerolog":                 testsOnly, // turns off toxiproxy's log
	"github.com/wneessen/go-mail":           "internal/deliver/delivery/smtp",
	"github.com/yuin/goldmark":              "internal/http/reference",
	"go.yaml.in/yaml":                       "internal/run/config internal/base/document internal/http/reference tools/mutants",
	"go.opentelemetry.io/contrib":           "internal/run/traces",
	// Of the packages that may import go.opentelemetry.io/otel, only traces records spans. The
	// others read or write the header traceparent.
	"go.opentelemetry.io/otel":              "internal/run/traces internal/deliver/providerhttp internal/deliver/webhook internal/base/logs",
	"go.uber.org/goleak":                    testsOnly,
	"golang.org/x/crypto":                   "internal/codes/keys internal/http/console/auth internal/http/console/consoletest",
	"golang.org/x/net":                      "internal/base/recipient internal/deliver/delivery internal/base/message internal/kit/browsertest",
	"golang.org/x/oauth2":                   "internal/http/openid internal/deliver/delivery/oauth",
	"golang.org/x/sync":                     anywhere,
	"golang.org/x/sys":                      "internal/http/server",
	"golang.org/x/text":                     "internal/base/recipient internal/base/message internal/base/texts internal/http/page internal/deliver/delivery",
	"modernc.org/sqlite":                    "internal/store/sqlite",
	"pgregory.net/rapid":                    testsOnly,
	"github.com/KimMachineGun/automemlimit": "internal/run/app",
}

const (
	anywhere  = "*"
	testsOnly = ""
)

// bubbles is the only package that opens a bubble of testing/synctest.
const bubbles = "internal/kit/servertest"

// sleepers are the files that may call time.Sleep, each with the reason. Tests in a bubble may
// always sleep, because that moves only the bubble's clock and takes no time.
var sleepers = map[string]string{
	"internal/prove/simulate/happen_test.go":               "in a bubble, where time is virtual",
	"internal/verify/verification/verificationtest/rig.go": "lets the time of a bubble pass",
}
