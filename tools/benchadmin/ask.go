package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"text/tabwriter"
	"time"

	"sendcode/tools/rows"
)

const token = "tok_0123456789abcdefghijABCDEFGHIJ"

// pagesOnEnd is how far a reader pages.
const pagesOnEnd = 1000

// question is one thing that is asked for. Each time it is made anew, from a row's number.
type question struct {
	name string
	ask  func(n int) (method, path, body string)
}

func get(name string, pairs func(n int) url.Values) question {
	return question{name, func(n int) (string, string, string) {
		return http.MethodGet, "/v1/admin/sends?" + pairs(n).Encode(), ""
	}}
}

func counted(last string) question {
	return question{"counts of " + last, func(int) (string, string, string) { return http.MethodGet, "/v1/admin/stats?last=" + last, "" }}
}

func filter(name, value string) question {
	return get(name+" = "+value, func(int) url.Values { return url.Values{name: {value}} })
}

func questions(size int) []question {
	ago := func(d time.Duration) string { return time.Now().Add(-d).UTC().Format(time.RFC3339) }
	all := []question{get("first page", func(int) url.Values { return url.Values{} })}
	for _, f := range [][2]string{
		{"status", "sent"}, {"status", "failed"}, {"status", "unknown"}, {"status", "refused"}, {"status", "queued"}, {"status", "sending"},
		{"channel", "email"}, {"channel", "sms"}, {"app", "shop"}, {"app", "tiny"}, {"app", "unknown"}, {"purpose", "login"}, {"purpose", "gift"},
		{"purpose", "nothing"},
		{"blocked_by", "minute"}, {"blocked_by", "office"}, {"blocked_by", "nothing"}, {"carrier", "mx1.example.net"},
		{"carrier", "mx9.example.net"}, {"carrier", "nothing"},
		{"country", "DE"}, {"country", "TV"}, {"country", "FR"}, {"domain", "qq.com"}, {"domain", "tiny.example"}, {"domain", "nothing.example"},
		{"reference", "nothing"},
	} {
		all = append(all, filter(f[0], f[1]))
	}
	return append(all,
		get("reference", func(n int) url.Values { return url.Values{"reference": {"order-" + strconv.Itoa(n/10*10+1)}} }),
		get("recipient", func(n int) url.Values { return url.Values{"recipient": {rows.Recipient(n, size)}} }),
		get("a day, a month ago", func(int) url.Values {
			return url.Values{"from": {ago(31 * 24 * time.Hour)}, "to": {ago(30 * 24 * time.Hour)}}
		}),
		get("failed a month ago", func(int) url.Values { return url.Values{"status": {"failed"}, "to": {ago(30 * 24 * time.Hour)}} }),
		counted("24h"), counted("7d"), counted("30d"),
		question{"search by address", func(n int) (string, string, string) {
			return http.MethodPost, "/v1/admin/search", fmt.Sprintf(`{"channel":"email","to":"person-%d@example.com"}`, n)
		}},
	)
}

// table has a line for each question and two columns for each number of rows.
type table struct {
	times int
	names []string
	sizes []int
	cells map[string][]time.Duration // by name: median and 99th of each size
}

func (t *table) measure(ctx context.Context, address string, size int) error {
	t.sizes = append(t.sizes, size)
	client := &asker{base: "http://" + address}
	for _, q := range questions(size) {
		var took []time.Duration
		for range t.times {
			method, path, body := q.ask(1 + rand.IntN(size))
			_, d, err := client.do(ctx, method, path, body)
			if err != nil {
				return fmt.Errorf("%s: %w", q.name, err)
			}
			took = append(took, d)
		}
		t.add(q.name, took)
	}
	return t.page(ctx, client)
}

// page reads one page after the other, and the story of a send of each.
func (t *table) page(ctx context.Context, client *asker) error {
	var pages, stories []time.Duration
	for cursor := ""; len(pages) < pagesOnEnd; {
		answer, took, err := client.do(ctx, http.MethodGet, "/v1/admin/sends?cursor="+url.QueryEscape(cursor), "")
		if err != nil {
			return err
		}
		var page struct {
			Sends []struct{ ID string }
			Next  string
		}
		if err := json.Unmarshal(answer, &page); err != nil || page.Next == "" {
			return fmt.Errorf("page %d: %d rows, no next one: %w", len(pages), len(page.Sends), err)
		}
		pages, cursor = append(pages, took), page.Next
		_, took, err = client.do(ctx, http.MethodGet, "/v1/admin/sends/"+page.Sends[0].ID, "")
		if err != nil {
			return err
		}
		stories = append(stories, took)
	}
	t.add("1,000 pages on end", pages)
	t.add("the last 100 of them", pages[len(pages)-100:])
	t.add("one send", stories)
	return nil
}

func (t *table) add(name string, took []time.Duration) {
	if t.cells == nil {
		t.cells = map[string][]time.Duration{}
	}
	if !slices.Contains(t.names, name) {
		t.names = append(t.names, name)
	}
	took = slices.Sorted(slices.Values(took))
	t.cells[name] = append(t.cells[name], took[len(took)/2], took[(len(took)-1)*99/100])
}

func (t *table) print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	head := "rows\t"
	for _, size := range t.sizes {
		head += fmt.Sprintf("%d: p50\tp99 ms\t", size)
	}
	fmt.Fprintln(w, head)
	for _, name := range t.names {
		line := name + "\t"
		for _, d := range t.cells[name] {
			line += fmt.Sprintf("%.1f\t", float64(d.Microseconds())/1000)
		}
		fmt.Fprintln(w, line)
	}
	return w.Flush()
}

type asker struct{ base string }

func (a *asker) do(ctx context.Context, method, path, body string) ([]byte, time.Duration, error) {
	req, err := http.NewRequestWithContext(ctx, method, a.base+path, bytes.NewBufferString(body))
	if err != nil {
		return nil, 0, err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	began := time.Now()
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, 0, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	took := time.Since(began)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s %s: %d", method, path, resp.StatusCode)
	}
	return answer, took, err
}
