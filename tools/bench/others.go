package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"sendcode/tools/bench/report"
)

// opened is a verification whose code is known.
type opened struct{ to, id, code string }

const otherRounds = 3

// sendsFor is how many verifications are opened for a round: as many as callers may use in its time.
func sendsFor(length time.Duration) int { return min(2000, max(100, int(1000*length.Seconds()))) }

// request is one that sends nothing.
type request struct {
	name   string
	status int // expected
	make   func(opened) (method, path, body string)
}

// requests in an order in which each leaves what the next needs.
func requests() []request {
	return []request{
		{"a look", http.StatusOK, func(o opened) (string, string, string) { return http.MethodGet, "/v1/verifications/" + o.id, "" }},
		{"a refusal", http.StatusTooManyRequests, func(o opened) (string, string, string) {
			return http.MethodPost, "/v1/verifications", `{"channel":"email","to":"` + o.to + `","purpose":"default","locale":"en"}`
		}},
		{"a check of the right code", http.StatusOK, func(o opened) (string, string, string) {
			return http.MethodPost, "/v1/verifications/" + o.id + "/check", `{"code":"` + o.code + `"}`
		}},
	}
}

// measureOthers measures checks, looks and refusals.
func (b *rig) measureOthers(ctx context.Context, p plan, r *report.Results) error {
	service := b.contender(report.Ours)
	callers := unitCallers(p.callers)
	r.Others = make([]report.Other, len(requests()))
	for round := range min(p.rounds, otherRounds) + 1 { // in the first one connections plan their statements
		list, err := b.open(service, sendsFor(p.length))
		if err != nil {
			return err
		}
		for i, q := range requests() {
			run, err := b.request(ctx, service, callers, q, list)
			if err != nil {
				return fmt.Errorf("%s: %w", q.name, err)
			}
			if round > 0 {
				r.Others[i].Name, r.Others[i].Callers = q.name, callers
				r.Others[i].Runs = append(r.Others[i].Runs, run)
			}
		}
	}
	return nil
}

// open has codes sent, and reads them.
func (b *rig) open(service contender, n int) ([]opened, error) {
	if err := b.mails.keep(); err != nil {
		return nil, err
	}
	list := make([]opened, n)
	first := b.recipients.Add(int64(n)) - int64(n)
	err := each(service.base, 64, n, func(c *caller, i int) error {
		list[i].to = recipient(first + int64(i))
		if err := c.mustSend(list[i].to); err != nil {
			return err
		}
		var answer struct{ ID string }
		err := json.Unmarshal(c.body, &answer)
		list[i].id = answer.ID
		return err
	})
	if err != nil {
		return nil, err
	}
	texts, err := b.mails.texts(first, first+int64(n))
	for i := range texts {
		var none error
		list[i].code, none = codeIn(texts[i])
		err = errors.Join(err, none)
	}
	return list, err
}

// request makes a request for each of a list.
func (b *rig) request(ctx context.Context, service contender, callers int, q request, list []opened) (run report.Run, err error) {
	before, err := b.look(ctx, service)
	if err != nil {
		return run, err
	}
	began := time.Now()
	run.Answers = make([]time.Duration, len(list))
	err = each(service.base, callers, len(list), func(c *caller, i int) error {
		asked := time.Now()
		status, err := c.do(q.make(list[i]))
		run.Answers[i] = time.Since(asked)
		if err == nil && status != q.status {
			err = fmt.Errorf("%d: %s", status, c.body)
		}
		return err
	})
	run.Sends, run.Took = len(list), time.Since(began)
	<-time.After(quiet)
	return run, errors.Join(err, b.spent(ctx, service, before, &run))
}

// each has callers share the numbers below n.
func each(base string, callers, n int, do func(*caller, int) error) error {
	var next atomic.Int64
	failures := make([]error, callers)
	var all sync.WaitGroup
	for k := range callers {
		all.Go(func() {
			c := &caller{base: base}
			defer c.close()
			for i := int(next.Add(1)) - 1; i < n && failures[k] == nil; i = int(next.Add(1)) - 1 {
				failures[k] = do(c, i)
			}
		})
	}
	all.Wait()
	return errors.Join(failures...)
}
