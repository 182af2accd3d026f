//go:build nightly

package bench

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// part is a part of the service that a build goes without: a text of a file stands there once, and
// another one takes its place. No file of the tree is changed; go build gets the other by -overlay.
type part struct {
	name   string
	knows  []string // the workloads whose answers stay as they are
	silent bool     // not every mail comes
	edits  []edit
}

type edit struct{ file, find, with string }

const (
	measureFile = "internal/store/sqldb/observer.go"
	apiFile     = "internal/http/api/verifications.go"
)

var (
	allBudgeted = []string{send, firstRefusal, laterRefusal, firstLook, laterLook, rightCheck}
	budgeted    = []string{send, laterRefusal, laterLook, rightCheck} // those that the table has
)

// parts are switched off one at a time. The first one switches off nothing: its figures are the
// noise.
var parts = []part{
	{"nothing: the noise", allBudgeted, false, nil},
	{"the access log's line", allBudgeted, false, []edit{
		{"internal/http/server/server.go", `logger.LogAttrs(ctx, level, "request", append(line, logs.Attrs(ctx)...)...)`, "_ = line"},
	}},
	{"metrics and observers of calls", allBudgeted, false, []edit{
		{"internal/http/server/server.go", `served(cmp.Or(c.Path(), "none"), c.Response().Status, took)`, "_ = cmp.Or[int]"},
		{
			measureFile, "return &DB{db.Dialect, measuredEngine{db.Engine, o}, measuredPerDatabase{db.PerDatabase, o}, db.Actions}",
			"_ = o\n\treturn db",
		},
	}},
	{"Redis: the limiter is in the process", allBudgeted, false, []edit{
		{"internal/limit/gates/gates.go", "g := &Gates{\n", "shared = quota.NewMemory(now)\n\tg := &Gates{\n"},
	}},
	{"compose and SMTP", []string{send}, true, []edit{
		{
			"internal/deliver/outbox/attempt.go", "receipt, err := message(ctx)",
			`receipt, err := delivery.Result{Provider: "none"}, error(nil)`,
		},
	}},
	// beyond outbox.DefaultCapacity sends wait in rows, which are not there
	{"Postgres: Begin and Finish", []string{send}, true, []edit{
		{measureFile, "return n.PerDatabase.Begin(ctx, intent)", `now := time.Now()
	v, s := intent.Verification, intent.Send
	v.CreatedAt, v.ExpiresAt, v.Sends = now, now.Add(intent.TTL), 1
	s.VerificationID, s.Number, s.LoggedAt, s.Status, s.Attempt, s.DueAt = v.ID, 1, now, store.Sending, 1, now.Add(intent.Lease)
	return store.BeginAnswer{Admitted: true, Verification: v, Send: s, Now: now}, nil`},
		{measureFile, "return n.PerDatabase.Finish(ctx, outcome)", "return true, nil"},
	}},
	{"Postgres: reads of the gate, rows of refusals", []string{send, firstRefusal, laterRefusal, firstLook, laterLook}, false, []edit{
		{measureFile, "return e.Engine.ReadHistory(ctx, l)", "return rowrules.History{Now: time.Now()}, nil"},
		{measureFile, "return n.PerDatabase.RecordRefusals(ctx, refusals)", "return nil"},
	}},
	{"Postgres: the check, and the proof", []string{send, rightCheck}, false, []edit{
		{
			measureFile, "return n.PerDatabase.Check(ctx, c)",
			"return store.CheckAnswer{Now: time.Now(), Counted: true, Approved: true}, nil",
		},
	}},
	{"all but HTTP and a short answer", []string{send, firstLook, laterLook, rightCheck}, true, []edit{
		{apiFile, "	ask, err := parseSendRequest(c, who, body)\n", `	if who.App != "" {
		return c.JSON(http.StatusAccepted, map[string]string{"id": "none", "status": "pending"})
	}
	ask, err := parseSendRequest(c, who, body)
`},
		{apiFile, "	v, err := a.codes.Get(c.Request().Context(), who, c.Param(\"id\"))\n", `	if who.App != "" {
		return c.JSON(http.StatusOK, map[string]any{"id": c.Param("id"), "quota": "none"})
	}
	v, err := a.codes.Get(c.Request().Context(), who, c.Param("id"))
`},
		{
			"internal/http/api/check.go", "	checked, err := a.codes.Check(c.Request().Context(), who, c.Param(\"id\"), body.Code)\n",
			`	if who.App != "" {
		return c.JSON(http.StatusOK, map[string]any{"valid": true})
	}
	checked, err := a.codes.Check(c.Request().Context(), who, c.Param("id"), body.Code)
`,
		},
	}},
}

// TestBudget measures what each part of a request costs with 64 callers: this build's processor
// time less that of a build without the part, of the same round. Without rounds it only looks
// whether each text that it replaces stands there once.
func TestBudget(t *testing.T) {
	const callers = 64
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	if *rounds == 0 {
		b := &rig{T: t, dir: t.TempDir()}
		for _, p := range parts {
			b.overlay(root, p.edits)
		}
		return
	}
	b := openRig(t)
	program := filepath.Join(b.dir, "sendcode")
	b.run(root, "go", "build", "-buildvcs=false", "-o", program, "./cmd/sendcode")
	b.startService(ours, program)
	for i, p := range parts {
		program := filepath.Join(b.dir, fmt.Sprint("without-", i))
		b.run(root, "go", "build", "-buildvcs=false", "-overlay="+b.overlay(root, p.edits), "-o", program, "./cmd/sendcode")
		b.startService(p.name, program)
		c := b.contenders[len(b.contenders)-1]
		c.knows, c.silent = p.knows, p.silent
	}
	for round := range b.rounds + 1 {
		if round == 1 {
			clear(b.results) // of the round that warms up
		}
		b.vacuum()
		for _, w := range allBudgeted {
			b.inTurns(round, callers, w)
		}
	}
	text := b.when() + "\nWhat the build without a part takes less, in µs of processor time for each request of 64 callers: the program, " +
		"Redis, Postgres.\n\n" + b.budget(callers)
	b.publish(section{"RESULTS.md", "Budget", text})
}

// overlay returns the file that has go build read files with the edits.
func (ri *rig) overlay(root string, edits []edit) string {
	texts := map[string]string{}
	for _, e := range edits {
		if texts[e.file] == "" {
			text, err := os.ReadFile(filepath.Join(root, e.file))
			ri.must(err)
			texts[e.file] = string(text)
		}
		if n := strings.Count(texts[e.file], e.find); n != 1 {
			ri.Fatalf("%s has %d times %q", e.file, n, e.find)
		}
		texts[e.file] = strings.Replace(texts[e.file], e.find, e.with, 1)
	}
	dir, err := os.MkdirTemp(ri.dir, "overlay-")
	ri.must(err)
	replace := map[string]string{}
	for file, text := range texts {
		changed := filepath.Join(dir, filepath.Base(file))
		ri.must(os.WriteFile(changed, []byte(text), 0o600))
		replace[filepath.Join(root, file)] = changed
	}
	data, err := json.Marshal(map[string]any{"Replace": replace})
	ri.must(err)
	file := filepath.Join(dir, "overlay.json")
	ri.must(os.WriteFile(file, data, 0o600))
	return file
}

// budget is a table of what the parts take.
func (ri *rig) budget(callers int) string {
	rows := [][]string{append([]string{"part"}, budgeted...)}
	for _, c := range ri.contenders {
		row := []string{c.name}
		if c.name == ours {
			row[0] = "all of it"
		}
		for _, w := range budgeted {
			text := "–"
			if at := (cell{c.name, w, callers}); slices.Contains(c.knows, w) {
				text = fmt.Sprintf("%.0f, %.0f, %.0f", ri.takes(at, service), ri.takes(at, inRedis), ri.takes(at, inPostgres))
			}
			row = append(row, text)
		}
		rows = append(rows, row)
	}
	return table(rows)
}

// takes is what the part that a contender goes without takes, and of this build the figure itself.
func (ri *rig) takes(at cell, i int) float64 {
	if at.contender == ours {
		return ri.median(at, figure(i))
	}
	var less []float64
	for _, p := range ri.pairs(at, figure(i)) {
		less = append(less, p[0]-p[1])
	}
	return quantile(less, .5)
}
