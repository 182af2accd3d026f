//go:build nightly

// Only `make nightly` runs this test: it writes a million sends into each database.

package console

import (
	"context"
	"flag"
	"fmt"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"sendcode/internal/http/console/consoletest"
	"sendcode/internal/http/console/explain"
	"sendcode/internal/kit/servertest"
	"sendcode/internal/store"
	"sendcode/internal/store/sqldb"
	"sendcode/internal/store/sqlite"
)

var millionRows = flag.Int("console.rows", 1_000_000, "sends in the list")

const (
	rowsOfABatch = 10_000
	daysOfRows   = 30
)

// byIndex has the indexes that SQLite must use for a filter if few or no rows match it.
var byIndex = map[string]string{
	"status=delivered": "sends_receipt", "app=desk": "sends_kind", "app=none": "sends_kind", "purpose=rare": "sends_kind",
	"carrier=none": "sends_provider", "app=desk&purpose=rare&channel=email&status=sent": "sends_kind", "domain=none.example": "sends_domain",
	"country=FR": "sends_country", "blocked_by=none": "refusals_blocked_by", "reference=none": "sends_reference",
}

// In a list of a million sends, no page, search or filter reads a whole table. On Postgres, lists
// and searches read at most a twentieth of the rows. The overview's reads are not counted on
// Postgres. For each call, the log has the time, the processor time of this process, and the
// indexes in the plans. No time is asserted.
func TestAMillionSends(t *testing.T) {
	for name, open := range map[string]func(*testing.T, ...func(*Config)) *rig{"SQLite": onFile, "Postgres": onPostgres} {
		t.Run(name, func(t *testing.T) {
			var plans planner
			r := open(t, func(c *Config) { c.Carriers = []string{"carrier-a"} })
			ana := r.writeSent("ana@example.com", func(s *store.Send) { s.Reference = "order-7711" })
			r.writeRefused("bo@example.com", "minute", time.Minute, 2)
			r.fillSends(*millionRows)
			r.analyze()
			for n := 1; n > 0; {
				var err error
				n, err = r.db.CountHours(t.Context(), 10*time.Minute, daysOfRows*24*time.Hour, 12)
				r.Must(err)
			}
			b := r.LoggedIn()
			plans.Engine, r.db.Engine = r.db.Engine, &plans
			plans.explain = map[bool]string{true: "EXPLAIN QUERY PLAN ", false: "EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF, BUFFERS OFF) "}[name == "SQLite"]
			measure := func(what string, do func() int) {
				plans.texts = nil
				status := do() // the planner explains the statements of this call
				plans.off = true
				best, used := time.Duration(1<<62), time.Duration(1<<62)
				for range 3 {
					start, before := time.Now(), processorTime()
					do()
					best, used = min(best, time.Since(start)), min(used, processorTime()-before)
				}
				plans.off = false
				t.Logf("%-9s %-44s %4d %8s, processor %8s, %8d rows  %s", name, what, status, best.Round(100*time.Microsecond),
					used.Round(100*time.Microsecond), plans.rows(), strings.Join(plans.used(), " "))
				if status >= 500 || plans.rows() > max(5000, *millionRows/20) {
					t.Errorf("%s: status %d, %d rows read", what, status, plans.rows())
				}
				if index := byIndex[strings.TrimPrefix(what, "filter ")]; name == "SQLite" && !slices.Contains(plans.used(), index) && index != "" {
					t.Errorf("%s is not found by %s but by %v", what, index, plans.used())
				}
				if whole := plans.whole(); len(whole) > 0 {
					t.Errorf("%s: read from end to end: %q", what, whole)
				}
			}
			get := func(what, path string) {
				measure(what, func() int { return b.Get(path).Code })
			}
			search := func(what, typed string) {
				measure("search: "+what, func() int { return b.Post("/admin/search", url.Values{"q": {typed}}).Code })
			}
			get("first page", "/admin")
			older := b.Get(linkIn(b.Get("/admin").Body.String(), "Older"))
			get("second page", linkIn(older.Body.String(), "Older"))
			get("one recipient", "/admin?recipient="+ana.Recipient.String())
			get("one send", explain.SendPageAddress(ana.ID))
			for _, filter := range []string{
				"status=sent", "status=failed", "status=unknown", "status=queued", "status=refused", "status=delivered", "outcome=entered", "outcome=expired",
				"channel=email", "channel=sms", "app=shop", "app=desk", "app=none", "purpose=login", "purpose=rare", "blocked_by=minute", "blocked_by=none",
				"domain=d7.example", "domain=none.example", "country=DE", "country=FR", "carrier=mx3.example.net", "carrier=none", "network=198.51.7.0/24",
				"reference=order-7711", "reference=none", "request=req-none-0000", "support=" + store.SupportReference(ana.ID), "last=1h", "last=30d",
				"from=2020-01-01T00:00:00Z&to=2020-02-01T00:00:00Z", "app=desk&purpose=rare&channel=email&status=sent",
			} {
				get("filter "+filter, "/admin?"+filter)
			}
			search("address", "ana@example.com")
			search("address that never asked", "nobody@example.com")
			search("masked address", ana.To+" "+ana.Recipient.Tag())
			search("mask that none has", "q•••@none.example")
			search("reference", "order-7711")
			search("unknown text", "nothing-of-this-name")
			search("support code", store.SupportReference(ana.ID))
			search("ID of a send", ana.ID.String())
			search("ID of a verification", ana.VerificationID)
			search("unknown ID", "0198f2b0-0000-7000-8000-000000000000")
			search("domain", "d7.example")
			get("overview, 24 h", "/admin/overview")
			get("overview, 30 days", "/admin/overview?last=30d")
			for _, by := range approvalDimensions {
				get("overview, 30 days, by "+string(by), "/admin/overview?last=30d&by="+string(by))
			}
			get("policies", "/admin/policies")
			get("suppressions", "/admin/suppressions")
		})
	}
}

// processorTime returns the processor time of this process. Postgres runs in other processes.
func processorTime() time.Duration {
	var used syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &used)
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// onFile is newRig on a SQLite file.
func onFile(t *testing.T, changes ...func(*Config)) *rig {
	t.Helper()
	r := &rig{Rig: consoletest.NewRig(t)}
	r.Clock.Add(time.Since(r.Clock.Now()))
	db, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "sends.db"), r.Clock.Now)
	servertest.OK(t, err)
	t.Cleanup(func() { _ = db.Close() })
	r.db = &db.DB
	r.Svc = r.ReplicaOn(r.db, r.MailServer, nil)
	r.serve(append([]func(*Config){func(c *Config) { c.DB = r.db }}, changes...)...)
	return r
}

// planner explains each statement of a read before it runs.
type planner struct {
	sqldb.Engine
	explain string
	off     bool

	mu    sync.Mutex // a page reads on several connections
	texts []string
}

// Read implements sqldb.Engine.
func (p *planner) Read(ctx context.Context, name string, f func(sqldb.Tx) error) error {
	return p.Engine.Read(ctx, name, func(q sqldb.Tx) error {
		if !p.off {
			q.Conn = explainer{q.Conn, p, q.Dialect}
		}
		return f(q)
	})
}

// explainer explains each statement, and then runs it.
type explainer struct {
	sqldb.Conn
	plans   *planner
	dialect any
}

// Run implements sqldb.Conn.
func (e explainer) Run(statement string, args sqldb.Args, each func(sqldb.Scan) error) (int64, error) {
	_, err := e.Conn.Run(e.plans.explain+statement, args, func(scan sqldb.Scan) error {
		var line string
		var err error
		if e.dialect == any(sqldb.SQLite) {
			var id, parent, unused int
			err = scan(&id, &parent, &unused, &line)
		} else {
			err = scan(&line)
		}
		e.plans.mu.Lock()
		defer e.plans.mu.Unlock()
		e.plans.texts = append(e.plans.texts, line)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("%s: %w", statement, err)
	}
	return e.Conn.Run(statement, args, each)
}

var (
	usedIndex = regexp.MustCompile(`(?:using|INDEX|Scan on) (\w+)`)
	numbered  = regexp.MustCompile(`sends_\w*?_(recipient|pkey|logged|domain|app|reference|country|channel)`)
	wholeRead = regexp.MustCompile(`(?:Seq Scan on|^SCAN) (sends\w*|refusals|verifications|v|failures|f)(?: |$)(?:USING (?:COVERING )?INDEX)?`)
)

// used returns the indexes of the plans, each once.
func (p *planner) used() (names []string) {
	for _, text := range p.texts {
		for _, m := range usedIndex.FindAllStringSubmatch(text, -1) {
			name := numbered.ReplaceAllString(m[1], "sends_$1")
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return names
}

// These match the figures of a node that reads a table in a Postgres plan: the returned rows, the
// loops, and the rows of each loop that the conditions left out.
var (
	tableRead = regexp.MustCompile(`Scan .*\(actual rows=([0-9.]+) loops=(\d+)\)`)
	leftOut   = regexp.MustCompile(`Rows Removed by (?:Filter|Index Recheck): (\d+)`)
)

// rows returns how many rows Postgres read; 0 for SQLite, whose plans have no figures.
func (p *planner) rows() (n int) {
	loops := 1.0
	for _, text := range p.texts {
		if m := tableRead.FindStringSubmatch(text); m != nil {
			rows, _ := strconv.ParseFloat(m[1], 64)
			loops, _ = strconv.ParseFloat(m[2], 64)
			n += int(rows * loops)
		}
		if m := leftOut.FindStringSubmatch(text); m != nil {
			rows, _ := strconv.ParseFloat(m[1], 64)
			n += int(rows * loops)
		}
	}
	return n
}

// whole returns the lines of the plans that read a whole table of sends, refusals or verifications
// without an index.
func (p *planner) whole() (lines []string) {
	for _, text := range p.texts {
		if wholeRead.MatchString(strings.TrimSpace(text)) && !strings.Contains(text, "INDEX") {
			lines = append(lines, text)
		}
	}
	return lines
}

// fillSends writes n sends with their codes, and a refusal beside every fifth, over daysOfRows.
func (r *rig) fillSends(n int) {
	r.Helper()
	newest := r.Clock.Now().Add(-time.Hour)
	step := daysOfRows * 24 * time.Hour / time.Duration(n)
	for from := 0; from < n; from += rowsOfABatch {
		values := sqldb.Args{
			"first": int64(from), "last": int64(min(from+rowsOfABatch, n)) - 1, "newest": newest.UnixMilli(), "step": step.Milliseconds(),
		}
		for _, statement := range fillSQL(r.db.Dialect == sqldb.SQLite) {
			r.Must(r.db.Write(r.Context(), "fill", func(q sqldb.Tx) error {
				_, err := q.Run(statement, values, nil)
				return err
			}))
		}
	}
}

// analyze collects the statistics of the tables on Postgres, as autovacuum does in production. This
// may take longer than a statement of the service may.
func (r *rig) analyze() {
	r.Helper()
	if r.postgresURL == "" {
		return
	}
	database, err := pgx.Connect(r.Context(), r.postgresURL)
	r.Must(err)
	defer database.Close(r.Context())
	_, err = database.Exec(r.Context(), "ANALYZE")
	r.Must(err)
}

// fillSQL returns the statements that write the rows from @first to @last: n sends of as many
// codes, four to each recipient, to 100 domains and some numbers, of two apps and three purposes,
// of which one is rare. Every 50th failed, and every 3rd code was entered.
func fillSQL(onSQLite bool) []string {
	numbers := `SELECT n, @newest - n * @step AS ms FROM generate_series(CAST(@first AS bigint), CAST(@last AS bigint)) n`
	id := `CAST(lpad(to_hex(g.ms), 12, '0') || '7' || lpad(to_hex(g.n %% 4096), 3, '0') || '8' || lpad(to_hex(g.n + %d), 15, '0') AS uuid)`
	hash, at, yes, no := `decode(lpad(to_hex(g.n / 4 + 1), 32, '0'), 'hex')`, `to_timestamp(g.ms / 1000.0)`, `true`, `false`
	plus := func(ms string) string { return `to_timestamp((g.ms + ` + ms + `) / 1000.0)` }
	text := func(n string) string { return `CAST(` + n + ` AS text)` }
	if onSQLite {
		numbers = `WITH RECURSIVE s (n) AS (SELECT @first UNION ALL SELECT n + 1 FROM s WHERE n < @last) SELECT n, @newest - n * @step AS ms FROM s`
		id = `printf('%%08x-%%04x-7%%03x-8000-%%012x', g.ms >> 16, g.ms & 65535, g.n %% 4096, g.n + %d)`
		hash, at, yes, no = `CAST(printf('%016x', g.n / 4 + 1) AS BLOB)`, `g.ms * 1000`, `1`, `0`
		plus = func(ms string) string { return `(g.ms + ` + ms + `) * 1000` }
	}
	const (
		sms     = `g.n % 10 = 0`
		failed  = `g.n % 50 = 7`
		app     = `CASE WHEN g.n % 20 = 3 THEN 'desk' ELSE 'shop' END`
		channel = `CASE WHEN ` + sms + ` THEN 'sms' ELSE 'email' END`
		purpose = `CASE WHEN g.n % 5000 = 11 THEN 'rare' WHEN g.n % 3 = 0 THEN 'signup' ELSE 'login' END`
		country = `CASE WHEN ` + sms + ` THEN CASE WHEN g.n % 100 = 0 THEN 'FR' ELSE 'DE' END ELSE '' END`
		status  = `CASE WHEN ` + failed + ` THEN 'failed' ELSE 'sent' END`
	)
	domain := `CASE WHEN ` + sms + ` THEN '' ELSE 'd' || ` + text(`g.n / 4 % 100`) + ` || '.example' END`
	masked := `CASE WHEN ` + sms + ` THEN '+49 151•••' || ` + text(`g.n % 900 + 100`) + ` ELSE 'a•••@d' || ` + text(`g.n / 4 % 100`) + ` || '.example' END`
	provider := `CASE WHEN ` + sms + ` THEN 'carrier-a' ELSE 'mx' || ` + text(`g.n % 5`) + ` || '.example.net' END`
	network := `'198.51.' || ` + text(`g.n % 200`) + ` || '.0/24'`
	code := `'v' || ` + text(`g.n`)
	from := ` FROM (` + numbers + `) g`
	send, refusal := fmt.Sprintf(id, 0), fmt.Sprintf(id, 1<<40)
	insert := func(table string, columns ...string) string {
		var names, values []string
		for i := 0; i < len(columns); i += 2 {
			names, values = append(names, columns[i]), append(values, columns[i+1])
		}
		return "INSERT INTO " + table + " (" + strings.Join(names, ", ") + ") SELECT " + strings.Join(values, ", ") + from
	}
	all := []string{
		insert("sends", "id", send, "logged_at", at, "finished_at", plus("184"), "took", "184000", "number", "1", "attempt", "1", "counts", yes,
			"status", status, "reason", `CASE WHEN `+failed+` THEN 'rejected' ELSE '' END`, "provider", provider, "provider_code", `'250 2.0.0'`,
			"app", app, "channel", channel, "purpose", purpose, "recipient", hash, "masked", masked, "domain", domain, "country", country,
			"prefix", `CASE WHEN `+sms+` THEN '+4915' ELSE '' END`, "verification_id", code, "locale", `'en'`, "reference", `'order-' || `+text(`g.n`),
			"network", network, "request_id", `'req-' || `+text(`g.n`)),
		insert("verifications", "created_at", at, "expires_at", plus("600000"), "approved_at", `CASE WHEN g.n % 3 = 1 THEN `+plus("20000")+` END`,
			"max_attempts", "5", "sends", "1", "code_length", "6", "id", code, "app", app, "channel", channel, "purpose", purpose, "recipient", hash,
			"masked", masked, "holder", `''`, "nonce", hash, "key_id", `'k'`, "alphabet", `'digits'`, "locale", `'en'`, "reference", `''`),
		insert("failures", "status", `'failed'`, "logged_at", at, "id", send, "finished_at", plus("184"), "counts", no, "app", app, "channel", channel,
			"recipient", hash) + ` WHERE ` + failed,
		insert("refusals", "id", refusal, "logged_at", plus("5000"), "retry_after", "55000000", "requests", "2", "recipients", "0", "app", app,
			"channel", channel, "purpose", purpose, "recipient", hash, "masked", masked, "domain", domain, "country", country, "prefix", `''`,
			"verification_id", `''`, "locale", `'en'`, "network", network, "blocked_by", `CASE WHEN g.n % 25 = 0 THEN 'hour' ELSE 'minute' END`) +
			` WHERE g.n % 5 = 0`,
	}
	if !onSQLite {
		all = append(all, `INSERT INTO minute_index (field, value, minute) SELECT DISTINCT 'provider', `+provider+`, date_trunc('minute', `+at+`)`+from+
			` ON CONFLICT DO NOTHING`)
	}
	return all
}
