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
	"slices"
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
	var services []contender
	for _, size := range p.rows {
		c, err := b.onRows(ctx, size)
		if err != nil {
			return "", err
		}
		services = append(services, c)
	}
	runs := make([][]run, len(p.rows))
	err := b.inTurns(ctx, p, services, []int{unitCallers(p)}, func(i, _ int, r run) { runs[i] = append(runs[i], r) })
	if err != nil {
		return "", err
	}
	g, goals := newGrid("rows", "sends/s", "the program, µs", inPostgres, inRedis, "WAL, bytes", "all three ÷ first"), newGoals()
	cost := func(i int) float64 { return median(runs[i], cpu(inProgram, inPostgres, inRedis)) }
	for i, size := range p.rows {
		costs := medians(runs[i], cpu(inProgram), cpu(inPostgres), cpu(inRedis), walBytes)
		g.add(slices.Concat([]string{number(float64(size)), over(runs[i], rate).String()}, costs, []string{number(cost(i) / cost(0))})...)
	}
	goals.most("processor time of a send with the last number of rows ÷ with the first", 1.15, cost(len(runs)-1)/cost(0), "")
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
	return b.startService(ctx, serviceSettings{name: fmt.Sprint("rows-", size), database: database,
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

// question is what an administrator asks of a row: a path and, if it is a search, a body.
type question struct {
	name string
	of   func(n int) (path, body string)
}

// get asks for a path.
func get(name, path string) question {
	return question{name, func(int) (string, string) { return path, "" }}
}

func questions(size int) (all []question) {
	ago := func(days int) string {
		return url.QueryEscape(time.Now().AddDate(0, 0, -days).UTC().Format(time.RFC3339))
	}
	const sends = "/v1/admin/sends?"
	for _, query := range []string{
		"", "status=sent", "status=failed", "status=unknown", "status=refused", "status=queued", "status=sending",
		"channel=email", "channel=sms", "app=shop", "app=tiny", "app=unknown", "purpose=login", "purpose=gift", "purpose=nothing",
		"blocked_by=minute", "blocked_by=office", "blocked_by=nothing", "carrier=mx1.example.net", "carrier=mx9.example.net", "carrier=nothing",
		"country=DE", "country=TV", "country=FR", "domain=qq.com", "domain=tiny.example", "domain=nothing.example", "reference=nothing",
		"from=" + ago(31) + "&to=" + ago(30), "status=failed&to=" + ago(30),
	} {
		all = append(all, get("sends?"+query, sends+query))
	}
	for _, last := range []string{"24h", "7d", "30d"} {
		all = append(all, get("counts of "+last, "/v1/admin/stats?last="+last))
	}
	return append(all,
		question{"reference", func(n int) (string, string) { return sends + "reference=order-" + strconv.Itoa(n/10*10+1), "" }},
		question{"recipient", func(n int) (string, string) {
			return sends + "recipient=" + url.QueryEscape(rows.Recipient(n, size)), ""
		}},
		question{"search by address", func(n int) (string, string) {
			return "/v1/admin/search", fmt.Sprintf(`{"channel":"email","to":"person-%d@example.com"}`, n)
		}},
	)
}

// waits are how long a question took, each time that it was asked.
type waits struct {
	name string
	took []time.Duration
}

// measureAdmin measures what an administrator waits for on databases of several sizes.
func (b *rig) measureAdmin(ctx context.Context, p plan) (string, error) {
	head := []string{"question"}
	var lines [][]string
	for _, size := range p.admin {
		service, err := b.onRows(ctx, size)
		if err != nil {
			return "", err
		}
		all, err := askAll(ctx, service.base, size)
		if err := errors.Join(err, service.process.close()); err != nil {
			return "", err
		}
		head = append(head, number(float64(size))+" rows: p50, ms", "p99, ms")
		for i, w := range all {
			if len(lines) == i {
				lines = append(lines, []string{w.name})
			}
			lines[i] = append(lines[i], fmt.Sprintf("%.2f", quantile(.5, w.took)), fmt.Sprintf("%.2f", quantile(.99, w.took)))
		}
	}
	return (&grid{append([][]string{head}, lines...)}).String(), nil
}

func askAll(ctx context.Context, base string, size int) (all []waits, err error) {
	for _, q := range questions(size) {
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
		answer, err := pages.ask(ctx, base, get("", "/v1/admin/sends?cursor="+url.QueryEscape(cursor)), size)
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
		if _, err := stories.ask(ctx, base, get("", "/v1/admin/sends/"+page.Sends[0].ID), size); err != nil {
			return nil, err
		}
	}
	return append(all, pages, waits{"the last 100 of them", pages.took[len(pages.took)-100:]}, stories), nil
}

// ask asks once, of a random row, and notes how long it took.
func (w *waits) ask(ctx context.Context, base string, q question, size int) (answer []byte, err error) {
	path, body := q.of(1 + rand.IntN(size))
	method := http.MethodGet
	if body != "" {
		method = http.MethodPost
	}
	request, err := http.NewRequestWithContext(ctx, method, "http://"+base+path, strings.NewReader(body))
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
		err = fmt.Errorf("%s %s: %d", method, path, response.StatusCode)
	}
	return answer, err
}
