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
	make   func(opened) (path, body string) // a GET where there is no body
}{
	{"a look", http.StatusOK, func(o opened) (string, string) { return sendPath + "/" + o.id, "" }},
	{"a refusal", http.StatusTooManyRequests, func(o opened) (string, string) { return sendPath, sendBody(o.to) }},
	{"a check of the right code", http.StatusOK, func(o opened) (string, string) {
		return sendPath + "/" + o.id + "/check", `{"code":"` + o.code + `"}`
	}},
}

// settled is how long the outcomes of the sends that opened verifications may take; they must not count as costs of other requests.
const settled = 3 * time.Second

// measureOthers measures checks, looks and refusals.
func (b *rig) measureOthers(ctx context.Context, p plan) (string, error) {
	service, callers := b.contender(ours), unitCallers(p)
	var all []*entry
	for _, q := range others {
		all = append(all, &entry{cells: []string{q.name, fmt.Sprint(callers)}})
	}
	for round := range min(p.rounds, otherRounds) + 1 { // in the first one connections plan their statements
		list, err := b.open(ctx, service, sendsFor(p.length))
		if err != nil {
			return "", err
		}
		<-time.After(min(settled, 5*p.length))
		for i, q := range others {
			r, err := b.measure(ctx, service, callers, time.Hour, shared(len(list), func(c *caller, n int) error {
				path, body := q.make(list[n])
				return c.must(q.status, path, body)
			}), false)
			if err != nil {
				return "", fmt.Errorf("%s: %w", q.name, err)
			}
			if round > 0 {
				all[i].runs = append(all[i].runs, r)
			}
		}
	}
	b.checks = all[len(all)-1].runs
	columns := append([]column{rates("requests/s")}, answers("")...)
	columns = append(columns, medians("the program, µs", cpu(inProgram)), medians(inPostgres, cpu(inPostgres)), medians(inRedis, cpu(inRedis)))
	return table([]string{"request", "callers"}, all, columns...).String(), nil
}

// open has codes sent, and reads them.
func (b *rig) open(ctx context.Context, service contender, n int) ([]opened, error) {
	b.mails.keeps.Store(true)
	defer b.mails.keeps.Store(false)
	list := make([]opened, n)
	first := b.recipients.Add(int64(n)) - int64(n)
	_, err := ask(ctx, service, 64, time.Hour, shared(n, func(c *caller, i int) error {
		list[i].to = recipient(first + int64(i))
		if err := c.must(http.StatusAccepted, sendPath, sendBody(list[i].to)); err != nil {
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
	came, err := b.mails.collect(first, first+int64(n))
	for i, m := range came {
		var none error
		list[i].code, none = codeIn(m.text)
		err = errors.Join(err, none)
	}
	return list, err
}

// limitUsers share the takes of a limit.
const limitUsers = 10_000

// measureTakes has takes of a limit, decided in Redis, and bare HTTP take turns.
func (b *rig) measureTakes(ctx context.Context, p plan) (string, error) {
	n := unitCallers(p)
	var taken atomic.Int64
	var all []*entry
	add := func(name string, ask request) {
		all = append(all, &entry{name: name, cells: []string{fmt.Sprint(n), name}, measure: func(ctx context.Context) (run, error) {
			return b.measure(ctx, b.contender(name), n, p.length, ask, false)
		}})
	}
	add(ours, func(c *caller) (int64, error) {
		return 0, c.must(http.StatusOK, "/v1/limits/user/take", fmt.Sprintf(`{"keys":{"user":"%d"}}`, taken.Add(1)%limitUsers))
	})
	add(bareHTTP, func(c *caller) (int64, error) {
		return 0, c.must(http.StatusAccepted, sendPath, sendBody(recipient(firstRecipient)))
	})
	if err := inTurns(ctx, p.rounds, all); err != nil {
		return "", err
	}
	goals, columns := newGoals(), append([]column{rates("answers/s")}, answers("200 ")...)
	g := table([]string{"callers", "program"}, all, append(columns, medians("the program, µs", cpu(inProgram)))...)
	goals.least(fmt.Sprintf("takes/s ÷ bare HTTP, %d callers", n), .5, ratio(all[0].runs, all[1].runs, rate))
	return "`POST /v1/limits/{limit}/take` of one rule, with 10,000 keys in Redis.\n\n" + g.String() + "\n" + goals.String(), nil
}
