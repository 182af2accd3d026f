package bench

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"sendcode/internal/app"
	"sendcode/internal/config"
	"sendcode/internal/store/postgres"
	"sendcode/tools/rows"
)

// measureRows has services on databases of several sizes take turns.
func (b *rig) measureRows() string {
	var all []*entry
	for _, size := range b.sizes {
		c := b.onRows(size)
		name := number(float64(size))
		all = append(all, &entry{name: name + " rows", cells: []string{name}, measure: func() run {
			return b.sends(c, b.unitCallers(), b.length)
		}})
	}
	b.inTurns(all)
	ofFirst := func(runs []run) float64 { return median(runs, costOfSend) / median(all[0].runs, costOfSend) }
	g := table([]string{"rows"}, all, rates("sends/s"), medians("the program, µs", cpu(inProgram)), medians(inPostgres, cpu(inPostgres)),
		medians(inRedis, cpu(inRedis)), medians("WAL, bytes", walBytes),
		column{"all three ÷ first", func(runs []run) string { return number(ofFirst(runs)) }})
	goals := newGoals()
	goals.most("processor time of a send with the last number of rows ÷ with the first", 1.15, ofFirst(all[len(all)-1].runs), "")
	return "Sends of 64 callers on databases with rows of the last 90 days (`make bench-rows`).\n\n" + g.String() + "\n" + goals.String()
}

// onRows starts a service on a database with so many rows, of which nothing waits to be written.
func (b *rig) onRows(size int) contender {
	database, err := b.postgres.CreateDatabase(b.Context())
	b.must(err)
	cfg, err := config.Load([]string{"SENDCODE_ADDR=127.0.0.1:0", "SENDCODE_DATA_DIR=" + b.path("data-fill"),
		"SENDCODE_DATABASE_URL=" + database}, os.ReadFile)
	b.must(err)
	b.must(app.Migrate(b.Context(), cfg))
	b.must(rows.Fill(b.Context(), database, size))
	log, err := postgres.Open(b.Context(), database, "")
	b.must(err)
	_, err = log.CountHours(b.Context(), 90*24*time.Hour, 10_000) // which the service would do beside the sends
	b.must(errors.Join(err, log.Close()))
	_, err = b.admin.Exec(b.Context(), "CHECKPOINT")
	b.must(err)
	return b.startService(serviceSettings{database: database,
		more: []string{"SENDCODE_ADMIN_TOKEN=" + adminToken, "SENDCODE_ADMIN_TOKEN_ROLE=owner"}})
}

const (
	adminToken = "tok_0123456789abcdefghijABCDEFGHIJ"
	asked      = 200  // times that each question is asked
	pagesOnEnd = 1000 // how far a reader pages
)

// question is what an administrator asks: a path and, if it is a search, a body. Words in braces depend on the row that it is asked of.
type question struct{ name, path, body string }

func questions() (all []question) {
	for _, query := range []string{
		"", "status=sent", "status=failed", "status=unknown", "status=refused", "status=queued", "status=sending",
		"channel=email", "channel=sms", "app=shop", "app=tiny", "app=unknown", "purpose=login", "purpose=gift", "purpose=nothing",
		"blocked_by=minute", "blocked_by=office", "blocked_by=nothing", "carrier=mx1.example.net", "carrier=mx9.example.net", "carrier=nothing",
		"country=DE", "country=TV", "country=FR", "domain=qq.com", "domain=tiny.example", "domain=nothing.example", "reference=nothing",
		"from={31 days ago}&to={30 days ago}", "status=failed&to={30 days ago}", "reference=order-{order}", "recipient={recipient}",
	} {
		all = append(all, question{"sends?" + query, "/v1/admin/sends?" + query, ""})
	}
	for _, last := range []string{"24h", "7d", "30d"} {
		all = append(all, question{"counts of " + last, "/v1/admin/stats?last=" + last, ""})
	}
	return append(all, question{"search by address", "/v1/admin/search", `{"channel":"email","to":"person-{n}@example.com"}`})
}

// waits are how long a question took, each time that it was asked.
type waits struct {
	name string
	took []time.Duration
}

// measureAdmin measures what an administrator waits for on databases of several sizes.
func (b *rig) measureAdmin() string {
	g := newGrid("question")
	for _, size := range b.adminRows {
		service := b.onRows(size)
		all := b.askAll(service.base, size)
		b.end(service)
		g.rows[0] = append(g.rows[0], number(float64(size))+" rows: p50, ms", "p99, ms")
		for i, w := range all {
			if len(g.rows) == i+1 {
				g.add(w.name)
			}
			g.rows[i+1] = append(g.rows[i+1], fmt.Sprintf("%.2f", quantile(.5, w.took)), fmt.Sprintf("%.2f", quantile(.99, w.took)))
		}
	}
	return g.String()
}

func (b *rig) askAll(base string, size int) (all []waits) {
	for _, q := range questions() {
		w := waits{name: q.name}
		for range asked {
			w.ask(b, base, q, size)
		}
		all = append(all, w)
	}
	pages, stories := waits{name: "1,000 pages on end"}, waits{name: "one send"}
	for cursor := ""; len(pages.took) < pagesOnEnd; {
		answer := pages.ask(b, base, question{path: "/v1/admin/sends?cursor=" + url.QueryEscape(cursor)}, size)
		var page struct {
			Sends []struct{ ID string }
			Next  string
		}
		if err := json.Unmarshal(answer, &page); err != nil || page.Next == "" {
			b.Fatalf("page %d: %d rows, no next one: %v", len(pages.took), len(page.Sends), err)
		}
		cursor = page.Next
		stories.ask(b, base, question{path: "/v1/admin/sends/" + page.Sends[0].ID}, size)
	}
	return append(all, pages, waits{"the last 100 of them", pages.took[len(pages.took)-100:]}, stories)
}

// ask asks once, of a random row, and notes how long it took.
func (w *waits) ask(b *rig, base string, q question, size int) []byte {
	ago := func(days int) string {
		return url.QueryEscape(time.Now().AddDate(0, 0, -days).UTC().Format(time.RFC3339))
	}
	n := 1 + rand.IntN(size)
	row := strings.NewReplacer("{n}", strconv.Itoa(n), "{order}", strconv.Itoa(n/10*10+1), "{recipient}", rows.Recipient(n, size),
		"{30 days ago}", ago(30), "{31 days ago}", ago(31))
	method := http.MethodGet
	if q.body != "" {
		method = http.MethodPost
	}
	request, err := http.NewRequestWithContext(b.Context(), method, "http://"+base+row.Replace(q.path), strings.NewReader(row.Replace(q.body)))
	b.must(err)
	request.Header.Set("Authorization", "Bearer "+adminToken)
	request.Header.Set("Content-Type", "application/json")
	began := time.Now()
	response, err := http.DefaultClient.Do(request)
	b.must(err)
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	w.took = append(w.took, time.Since(began))
	if err != nil || response.StatusCode != http.StatusOK {
		b.Fatalf("%s %s: %d %v", method, q.path, response.StatusCode, err)
	}
	return answer
}
