package main

import (
	"context"
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
func (b *rig) measureRows(ctx context.Context, p plan) (string, error) {
	var all []*entry
	for _, size := range p.rows {
		c, err := b.onRows(ctx, size)
		if err != nil {
			return "", err
		}
		name := number(float64(size))
		all = append(all, &entry{name: name + " rows", cells: []string{name}, measure: func(ctx context.Context) (run, error) {
			return b.sends(ctx, c, unitCallers(p), p.length)
		}})
	}
	if err := inTurns(ctx, p.rounds, all); err != nil {
		return "", err
	}
	ofFirst := func(runs []run) float64 { return median(runs, costOfSend) / median(all[0].runs, costOfSend) }
	g := table([]string{"rows"}, all, rates("sends/s"), medians("the program, µs", cpu(inProgram)), medians(inPostgres, cpu(inPostgres)),
		medians(inRedis, cpu(inRedis)), medians("WAL, bytes", walBytes),
		column{"all three ÷ first", func(runs []run) string { return number(ofFirst(runs)) }})
	goals := newGoals()
	goals.most("processor time of a send with the last number of rows ÷ with the first", 1.15, ofFirst(all[len(all)-1].runs), "")
	return "Sends of 64 callers on databases with rows of the last 90 days (`make bench-rows`).\n\n" + g.String() + "\n" + goals.String(), nil
}

// onRows starts a service on a database with so many rows, of which nothing waits to be written.
func (b *rig) onRows(ctx context.Context, size int) (c contender, err error) {
	database, err := b.postgres.CreateDatabase(ctx)
	if err != nil {
		return c, err
	}
	cfg, err := config.Load([]string{"SENDCODE_ADDR=127.0.0.1:0", "SENDCODE_DATA_DIR=" + b.path("data-fill"),
		"SENDCODE_DATABASE_URL=" + database}, os.ReadFile)
	if err == nil {
		err = app.Migrate(ctx, cfg)
	}
	if err == nil {
		err = rows.Fill(ctx, database, size)
	}
	if err == nil {
		err = countAhead(ctx, database)
	}
	if err == nil {
		_, err = b.admin.Exec(ctx, "CHECKPOINT")
	}
	if err != nil {
		return c, fmt.Errorf("%d rows: %w", size, err)
	}
	return b.startService(ctx, serviceSettings{database: database,
		more: []string{"SENDCODE_ADMIN_TOKEN=" + adminToken, "SENDCODE_ADMIN_TOKEN_ROLE=owner"}})
}

// countAhead does at once what the service would do beside the sends, a few hours a second.
func countAhead(ctx context.Context, database string) error {
	log, err := postgres.Open(ctx, database, "")
	if err != nil {
		return err
	}
	_, err = log.CountHours(ctx, 90*24*time.Hour, 10_000)
	return errors.Join(err, log.Close())
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
func (b *rig) measureAdmin(ctx context.Context, p plan) (string, error) {
	g := newGrid("question")
	for _, size := range p.admin {
		service, err := b.onRows(ctx, size)
		if err != nil {
			return "", err
		}
		all, err := askAll(ctx, service.base, size)
		if err := errors.Join(err, service.process.close()); err != nil {
			return "", err
		}
		g.rows[0] = append(g.rows[0], number(float64(size))+" rows: p50, ms", "p99, ms")
		for i, w := range all {
			if len(g.rows) == i+1 {
				g.add(w.name)
			}
			g.rows[i+1] = append(g.rows[i+1], fmt.Sprintf("%.2f", quantile(.5, w.took)), fmt.Sprintf("%.2f", quantile(.99, w.took)))
		}
	}
	return g.String(), nil
}

func askAll(ctx context.Context, base string, size int) (all []waits, err error) {
	for _, q := range questions() {
		w := waits{name: q.name}
		for range asked {
			if _, err := w.ask(ctx, base, q, size); err != nil {
				return nil, fmt.Errorf("%s: %w", q.name, err)
			}
		}
		all = append(all, w)
	}
	pages, stories := waits{name: "1,000 pages on end"}, waits{name: "one send"}
	for cursor := ""; len(pages.took) < pagesOnEnd; {
		answer, err := pages.ask(ctx, base, question{path: "/v1/admin/sends?cursor=" + url.QueryEscape(cursor)}, size)
		var page struct {
			Sends []struct{ ID string }
			Next  string
		}
		if err == nil {
			err = json.Unmarshal(answer, &page)
		}
		if err != nil || page.Next == "" {
			return nil, fmt.Errorf("page %d: %d rows, no next one: %w", len(pages.took), len(page.Sends), err)
		}
		cursor = page.Next
		if _, err := stories.ask(ctx, base, question{path: "/v1/admin/sends/" + page.Sends[0].ID}, size); err != nil {
			return nil, err
		}
	}
	return append(all, pages, waits{"the last 100 of them", pages.took[len(pages.took)-100:]}, stories), nil
}

// ask asks once, of a random row, and notes how long it took.
func (w *waits) ask(ctx context.Context, base string, q question, size int) (answer []byte, err error) {
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
	request, err := http.NewRequestWithContext(ctx, method, "http://"+base+row.Replace(q.path), strings.NewReader(row.Replace(q.body)))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+adminToken)
	request.Header.Set("Content-Type", "application/json")
	began := time.Now()
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	answer, err = io.ReadAll(response.Body)
	w.took = append(w.took, time.Since(began))
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s %s: %d", method, q.path, response.StatusCode)
	}
	return answer, err
}
