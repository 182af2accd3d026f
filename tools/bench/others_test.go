package bench

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"sendcode/internal/code/codetest"
)

// opened is a verification whose code is known.
type opened struct {
	n            int64 // of its recipient
	to, id, code string
}

const otherRounds = 3

// sendsFor is how many verifications are opened for a round: as many as callers may use in its time.
func sendsFor(length time.Duration) int { return min(10_000, max(100, int(5000*length.Seconds()))) }

// Requests beside first sends, as the document names them.
const (
	firstLook    = "the first look at a recipient" // reads the history from the database, and marks it as complete in Redis
	look         = "a look"
	refusal      = "a refusal"
	wrongCheck   = "a wrong code"
	rightCheck   = "the right code"
	wrongFrom    = "a wrong code, with the client's address"
	rightFrom    = "the right code, with the client's address"
	resend       = "a resend of a verification"
	comesBack    = "a send to a recipient that comes back"
	floorCheck   = "the right code at the fair floor" // one transaction that reads, counts and approves
	againPurpose = "again"                            // refuses nobody here
)

// others are requests in an order in which each leaves what the next needs. Those of a list use its verifications, which floor opens.
var others = []struct {
	name   string
	list   int // of lists
	status int
	says   string                                    // in the answer
	mails  bool                                      // each sends one
	make   func(opened) (path string, body []string) // a GET where there is no body; else pairs of fields
}{
	{firstLook, 0, http.StatusOK, `"quota":`, false, lookAt},
	{look, 0, http.StatusOK, `"quota":`, false, lookAt},
	{refusal, 0, http.StatusTooManyRequests, "", false, func(o opened) (string, []string) { return sendPath, send(o.to, "default") }},
	{wrongCheck, 0, http.StatusOK, `"valid":false`, false, func(o opened) (string, []string) { return o.check(codetest.Wrong(o.code, int(o.n))) }},
	{rightCheck, 0, http.StatusOK, `"valid":true`, false, func(o opened) (string, []string) { return o.check(o.code) }},
	{resend, 1, http.StatusAccepted, "", true, func(o opened) (string, []string) {
		return sendPath, append(send(o.to, againPurpose), "verification_id", o.id)
	}},
	{wrongFrom, 1, http.StatusOK, `"valid":false`, false, func(o opened) (string, []string) {
		return o.check(codetest.Wrong(o.code, int(o.n)), "client_ip", o.network())
	}},
	{rightFrom, 1, http.StatusOK, `"valid":true`, false, func(o opened) (string, []string) { return o.check(o.code, "client_ip", o.network()) }},
	{comesBack, 1, http.StatusAccepted, "", true, func(o opened) (string, []string) { return sendPath, send(o.to, againPurpose) }},
	{floorCheck, 2, http.StatusOK, `"valid":true`, false, func(o opened) (string, []string) { return o.check(o.code) }},
}

// lists are the purposes and programs of the verifications that others use.
var lists = []struct{ purpose, program string }{{"default", ours}, {againPurpose, ours}, {"default", fairFloor}}

func lookAt(o opened) (string, []string) { return sendPath + "/" + o.id, nil }

func (o opened) check(code string, more ...string) (string, []string) {
	return sendPath + "/" + o.id + "/check", append([]string{"code", code}, more...)
}

// network is an address in a network of its own: failed checks are bounded in each.
func (o opened) network() string {
	return fmt.Sprintf("%d.%d.%d.7", 20+o.n>>16&63, o.n>>8&255, o.n&255)
}

// settled is how long the outcomes of the sends that opened verifications may take; they must not count as costs of other requests.
const settled = 3 * time.Second

// measureOthers measures requests beside first sends. It shows what they cost; see summary for the rest.
func (b *rig) measureOthers() string {
	b.others = nil
	var sends []run
	for _, q := range others {
		b.others = append(b.others, &entry{name: q.name, callers: b.unitCallers(), cells: []string{q.name}})
	}
	for round := range min(b.rounds, otherRounds) + 1 { // in the first one connections plan their statements
		if r := b.sends(b.contender(ours), b.unitCallers(), b.length); round > 0 {
			sends = append(sends, r)
		}
		var all [][]opened
		for _, l := range lists {
			all = append(all, b.open(b.contender(l.program), l.purpose, sendsFor(b.length)))
		}
		<-time.After(min(settled, 5*b.length))
		for i, q := range others {
			r := b.measure(b.contender(lists[q.list].program), b.unitCallers(), time.Hour, shared(all[q.list], func(c *caller, o *opened) error {
				path, fields := q.make(*o)
				err := c.must(q.status, path, object(fields))
				if err == nil && !bytes.Contains(c.body, []byte(q.says)) {
					err = fmt.Errorf("%s: %s is not in the answer", q.name, q.says)
				}
				return err
			}), q.mails)
			if round > 0 {
				b.others[i].runs = append(b.others[i].runs, r)
			}
		}
	}
	of := func(name string) []run { return runsOf(b.others, name, b.unitCallers()) }
	ofSend := func(runs []run) float64 { return ratio(runs, sends, costOfSend) }
	b.goals.most("the right code ÷ a send", 1, ofSend(of(rightCheck)), "")
	b.goals.most("the right code ÷ the fair floor's", 1.7, ratio(of(rightCheck), of(floorCheck), costOfSend), "")
	for _, name := range []string{wrongCheck, wrongFrom, rightFrom} {
		b.goals.most(name+" ÷ a send", 1.4, ofSend(of(name)), "")
	}
	b.goals.most("a look ÷ a send", .75, ofSend(of(look)), "")
	b.goals.most("the first look ÷ a look", 2.2, ratio(of(firstLook), of(look), costOfSend), "")
	b.goals.most("a resend ÷ a first send", 1.3, ofSend(of(resend)), "")
	return table([]string{"processor time, µs"}, b.others, medians("the program", cpu(inProgram)), medians(inPostgres, cpu(inPostgres)),
		medians(inRedis, cpu(inRedis)), column{"all three ÷ a send", func(runs []run) string { return number(ofSend(runs)) }}).String()
}

// open has codes sent, and reads them.
func (b *rig) open(c contender, purpose string, n int) []opened {
	b.mails.keeps.Store(true)
	defer b.mails.keeps.Store(false)
	list := make([]opened, n)
	first := b.recipients.Add(int64(n)) - int64(n)
	for i := range list {
		list[i] = opened{n: first + int64(i), to: recipient(first + int64(i))}
	}
	b.ask(c, 64, time.Hour, shared(list, func(c *caller, o *opened) error {
		if err := c.must(http.StatusAccepted, sendPath, object(send(o.to, purpose))); err != nil {
			return err
		}
		var answer struct{ ID string }
		err := json.Unmarshal(c.body, &answer)
		o.id = answer.ID
		return err
	}))
	came, err := b.mails.collect(first, first+int64(n))
	b.must(err)
	for i, m := range came {
		list[i].code = b.codeIn(m.text)
	}
	return list
}

// limitUsers share the takes of a limit.
const limitUsers = 10_000

// measureTakes has takes of a limit of one rule, decided in Redis, and bare HTTP take turns.
func (b *rig) measureTakes() string {
	n := b.unitCallers()
	var taken atomic.Int64
	add := func(name string, ask request) {
		b.takes = append(b.takes, &entry{name: name, callers: n, measure: func() run {
			return b.measure(b.contender(name), n, b.length, ask, false)
		}})
	}
	add(ours, func(c *caller) (int64, error) {
		return 0, c.must(http.StatusOK, "/v1/limits/user/take", fmt.Sprintf(`{"keys":{"user":"%d"}}`, taken.Add(1)%limitUsers))
	})
	add(bareHTTP, func(c *caller) (int64, error) {
		return 0, c.must(http.StatusAccepted, sendPath, sendBody(recipient(firstRecipient)))
	})
	b.inTurns(b.takes)
	b.goals.least(fmt.Sprintf("takes of a limit/s ÷ bare HTTP, %d callers", n), .5, ratio(b.takes[0].runs, b.takes[1].runs, rate))
	return ""
}
