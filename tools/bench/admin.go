package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"sendcode/tools/bench/report"
	"sendcode/tools/rows"
)

const (
	adminToken = "tok_0123456789abcdefghijABCDEFGHIJ"
	asked      = 200  // times that each question is asked
	pagesOnEnd = 1000 // how far a reader pages
)

// question is one thing that an administrator asks. Each time it is made anew, from a row's number.
type question struct {
	name string
	ask  func(n int) (method, path, body string)
}

// list asks for the sends that a query finds; query is made from a row's number.
func list(name string, query func(n int) string) question {
	return question{name, func(n int) (string, string, string) { return http.MethodGet, "/v1/admin/sends?" + query(n), "" }}
}

func questions(size int) (all []question) {
	ago := func(days int) string {
		return url.QueryEscape(time.Now().AddDate(0, 0, -days).UTC().Format(time.RFC3339))
	}
	for _, query := range []string{
		"", "status=sent", "status=failed", "status=unknown", "status=refused", "status=queued", "status=sending",
		"channel=email", "channel=sms", "app=shop", "app=tiny", "app=unknown", "purpose=login", "purpose=gift", "purpose=nothing",
		"blocked_by=minute", "blocked_by=office", "blocked_by=nothing", "carrier=mx1.example.net", "carrier=mx9.example.net", "carrier=nothing",
		"country=DE", "country=TV", "country=FR", "domain=qq.com", "domain=tiny.example", "domain=nothing.example", "reference=nothing",
		"from=" + ago(31) + "&to=" + ago(30), "status=failed&to=" + ago(30),
	} {
		all = append(all, list("sends?"+query, func(int) string { return query }))
	}
	for _, last := range []string{"24h", "7d", "30d"} {
		all = append(all, question{"counts of " + last, func(int) (string, string, string) {
			return http.MethodGet, "/v1/admin/stats?last=" + last, ""
		}})
	}
	return append(all,
		list("reference", func(n int) string { return "reference=order-" + strconv.Itoa(n/10*10+1) }),
		list("recipient", func(n int) string { return "recipient=" + url.QueryEscape(rows.Recipient(n, size)) }),
		question{"search by address", func(n int) (string, string, string) {
			return http.MethodPost, "/v1/admin/search", fmt.Sprintf(`{"channel":"email","to":"person-%d@example.com"}`, n)
		}},
	)
}

// measureAdmin measures what an administrator waits for on databases of several sizes.
func (b *rig) measureAdmin(ctx context.Context, p plan, r *report.Results) error {
	for _, size := range p.admin {
		database, err := b.filled(ctx, size)
		if err != nil {
			return fmt.Errorf("%d rows: %w", size, err)
		}
		service, err := b.startService(ctx, serviceSettings{name: fmt.Sprint("admin-", size), database: database,
			more: []string{"SENDCODE_ADMIN_TOKEN=" + adminToken, "SENDCODE_ADMIN_TOKEN_ROLE=owner"}})
		if err != nil {
			return err
		}
		waits, err := askAll(ctx, service.base, size)
		if err != nil {
			return err
		}
		r.Admin = append(r.Admin, report.AdminWaits{Rows: size, Waits: waits})
		if err := service.process.Close(); err != nil {
			return err
		}
	}
	return nil
}

func askAll(ctx context.Context, base string, size int) (all []report.Waits, err error) {
	for _, q := range questions(size) {
		w := report.Waits{Name: q.name}
		for range asked {
			if _, err := timed(ctx, base, &w, q, size); err != nil {
				return nil, fmt.Errorf("%s: %w", q.name, err)
			}
		}
		all = append(all, w)
	}
	pages, stories := report.Waits{Name: "1,000 pages on end"}, report.Waits{Name: "one send"}
	for cursor := ""; len(pages.Took) < pagesOnEnd; {
		answer, err := timed(ctx, base, &pages, list("", func(int) string { return "cursor=" + url.QueryEscape(cursor) }), size)
		var page struct {
			Sends []struct{ ID string }
			Next  string
		}
		if err == nil {
			err = json.Unmarshal(answer, &page)
		}
		if err != nil || page.Next == "" {
			return nil, fmt.Errorf("page %d: %d rows, no next one: %w", len(pages.Took), len(page.Sends), err)
		}
		cursor = page.Next
		story := question{ask: func(int) (string, string, string) { return http.MethodGet, "/v1/admin/sends/" + page.Sends[0].ID, "" }}
		if _, err := timed(ctx, base, &stories, story, size); err != nil {
			return nil, err
		}
	}
	last := report.Waits{Name: "the last 100 of them", Took: pages.Took[len(pages.Took)-100:]}
	return append(all, pages, last, stories), nil
}

// timed asks once, and notes how long it took.
func timed(ctx context.Context, base string, w *report.Waits, q question, size int) (body []byte, err error) {
	method, path, asks := q.ask(1 + rand.IntN(size))
	request, err := http.NewRequestWithContext(ctx, method, "http://"+base+path, strings.NewReader(asks))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+adminToken)
	if asks != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	began := time.Now()
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	body, err = io.ReadAll(answer.Body)
	w.Took = append(w.Took, time.Since(began))
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s %s: %d", method, path, answer.StatusCode)
	}
	return body, err
}
