package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"
)

// opened is a verification whose code is known.
type opened struct{ to, id, code string }

const otherRounds = 3

// sendsFor is how many verifications are opened for a round: as many as callers may use in its time.
func sendsFor(length time.Duration) int { return min(4000, max(100, int(2000*length.Seconds()))) }

// others are requests that send nothing, in an order in which each leaves what the next needs.
var others = []struct {
	name   string
	status int
	make   func(opened) (method, path, body string)
}{
	{"a look", http.StatusOK, func(o opened) (string, string, string) { return http.MethodGet, "/v1/verifications/" + o.id, "" }},
	{"a refusal", http.StatusTooManyRequests, func(o opened) (string, string, string) {
		return http.MethodPost, "/v1/verifications", `{"channel":"email","to":"` + o.to + `","purpose":"default","locale":"en"}`
	}},
	{"a check of the right code", http.StatusOK, func(o opened) (string, string, string) {
		return http.MethodPost, "/v1/verifications/" + o.id + "/check", `{"code":"` + o.code + `"}`
	}},
}

// settled is how long the outcomes of the sends that opened verifications may take; they must not count as costs of other requests.
const settled = 3 * time.Second

// measureOthers measures checks, looks and refusals.
func (b *rig) measureOthers(ctx context.Context, p plan) (string, error) {
	service, callers := b.contender(ours), unitCallers(p)
	runs := make([][]run, len(others))
	for round := range min(p.rounds, otherRounds) + 1 { // in the first one connections plan their statements
		list, err := b.open(ctx, service, sendsFor(p.length))
		if err != nil {
			return "", err
		}
		<-time.After(settled)
		for i, q := range others {
			r, err := b.measure(ctx, service, callers, time.Hour, shared(len(list), func(c *caller, n int) error {
				method, path, body := q.make(list[n])
				return c.must(q.status, method, path, body)
			}), false)
			if err != nil {
				return "", fmt.Errorf("%s: %w", q.name, err)
			}
			if round > 0 {
				runs[i] = append(runs[i], r)
			}
		}
	}
	b.checks = runs[len(runs)-1]
	g := newGrid("request", "callers", "requests/s", "p50, ms", "p99, ms", "the program, µs", inPostgres, inRedis)
	for i, q := range others {
		g.add(append([]string{q.name, fmt.Sprint(callers), over(runs[i], rate).String()},
			medians(runs[i], answered(.5), answered(.99), cpu(inProgram), cpu(inPostgres), cpu(inRedis))...)...)
	}
	return g.String(), nil
}

// open has codes sent, and reads them.
func (b *rig) open(ctx context.Context, service contender, n int) ([]opened, error) {
	b.mails.keep()
	list := make([]opened, n)
	first := b.recipients.Add(int64(n)) - int64(n)
	_, err := ask(ctx, service, 64, time.Hour, shared(n, func(c *caller, i int) error {
		list[i].to = recipient(first + int64(i))
		if err := c.mustSend(list[i].to); err != nil {
			return err
		}
		var answer struct{ ID string }
		err := json.Unmarshal(c.body, &answer)
		list[i].id = answer.ID
		return err
	}))
	if err != nil {
		return nil, err
	}
	texts, err := b.mails.letters(first, first+int64(n))
	for i := range texts {
		var none error
		list[i].code, none = codeIn(texts[i])
		err = errors.Join(err, none)
	}
	return list, err
}

// limitUsers share the takes of a limit.
const limitUsers = 10_000

// measureTakes has takes of a limit, decided in Redis, and bare HTTP take turns. The first round warms them up and does not count.
func (b *rig) measureTakes(ctx context.Context, p plan) (string, error) {
	if len(b.contenders) == 0 {
		if err := b.startAll(ctx); err != nil {
			return "", err
		}
	}
	n := unitCallers(p)
	var taken atomic.Int64
	takes := board{}
	for round := range p.rounds + 1 {
		for _, name := range []string{ours, bareHTTP, ours}[round%2:][:2] {
			r, err := b.measure(ctx, b.contender(name), n, p.length, func(c *caller) (int64, error) {
				if name == bareHTTP {
					return 0, c.mustSend(recipient(firstRecipient))
				}
				body := fmt.Sprintf(`{"keys":{"user":"%d"}}`, taken.Add(1)%limitUsers)
				return 0, c.must(http.StatusOK, http.MethodPost, "/v1/limits/user/take", body)
			}, false)
			if err != nil {
				return "", fmt.Errorf("%s: %w", name, err)
			}
			if round > 0 {
				takes[row{name, n}] = append(takes.of(name, n), r)
			}
		}
	}
	g, goals := newGrid("callers", "program", "answers/s", "200 p50, ms", "200 p99, ms", "the program, µs"), newGoals()
	for _, name := range []string{ours, bareHTTP} {
		runs := takes.of(name, n)
		g.add(append([]string{fmt.Sprint(n), name, over(runs, rate).String()}, medians(runs, answered(.5), answered(.99), cpu(inProgram))...)...)
	}
	goals.least(fmt.Sprintf("takes/s ÷ bare HTTP, %d callers", n), .5, takes.ratio(ours, bareHTTP, n, rate))
	return "`POST /v1/limits/{limit}/take` of one rule, with 10,000 keys in Redis.\n\n" + g.String() + "\n" + goals.String(), nil
}
