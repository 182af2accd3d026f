//go:build nightly

package bench

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
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

// Requests beside first sends, as the document names them.
const (
	firstRefusal = "a first refusal" // of a recipient that nobody looked at
	laterRefusal = "a repeated refusal, of many recipients"
	firstOfTwo   = "a first refusal after two sends"
	laterOfTwo   = "a repeated refusal after two sends"
	floodRefusal = "a refusal in a flood on one recipient"
	firstLook    = "a first look"
	laterLook    = "a later look"
	wrongCheck   = "a wrong code"
	rightCheck   = "the right code"
	wrongFrom    = "a wrong code, with the client's address"
	rightFrom    = "the right code, with the client's address"
	resend       = "a resend of a verification"
	comesBack    = "a send to a recipient that comes back"
	floorCheck   = "the right code at the fair floor" // one transaction that reads, counts and approves
)

// other is a kind of request.
type other struct {
	name   string
	list   int // of lists
	status int
	says   string                                    // in the answer
	mails  bool                                      // each sends one
	make   func(opened) (path string, body []string) // a GET where there is no body; else pairs of fields
	most   float64                                   // its processor time ÷ a send's when the goal was set; 0: no goal
}

// lists are the purposes and programs of the verifications that others use.
var lists = []struct{ purpose, program string }{{"default", ours}, {"default", ours}, {"twice", ours}, {"again", ours},
	{"default", fairFloor}}

// others are requests in an order in which each leaves what the next needs.
var others = []other{
	{firstRefusal, 0, http.StatusTooManyRequests, "", false, sendAgain("default"), .63},
	{laterRefusal, 0, http.StatusTooManyRequests, "", false, sendAgain("default"), .66},
	{firstLook, 1, http.StatusOK, `"quota":`, false, lookAt, .65},
	{laterLook, 1, http.StatusOK, `"quota":`, false, lookAt, .65},
	{wrongCheck, 1, http.StatusOK, `"valid":false`, false,
		func(o opened) (string, []string) { return o.check(codetest.Wrong(o.code, int(o.n))) }, .43},
	{rightCheck, 1, http.StatusOK, `"valid":true`, false, func(o opened) (string, []string) { return o.check(o.code) },
		.51},
	{comesBack, 2, http.StatusAccepted, "", true, sendAgain("twice"), 1.22},
	{firstOfTwo, 2, http.StatusTooManyRequests, "", false, sendAgain("twice"), .54},
	{laterOfTwo, 2, http.StatusTooManyRequests, "", false, sendAgain("twice"), .59},
	{resend, 3, http.StatusAccepted, "", true, func(o opened) (string, []string) {
		return sendPath, append(send(o.to, "again"), "verification_id", o.id)
	}, 1.46},
	{wrongFrom, 3, http.StatusOK, `"valid":false`, false, func(o opened) (string, []string) {
		return o.check(codetest.Wrong(o.code, int(o.n)), "client_ip", o.network())
	}, .91},
	{rightFrom, 3, http.StatusOK, `"valid":true`, false,
		func(o opened) (string, []string) { return o.check(o.code, "client_ip", o.network()) }, 1.06},
	{floorCheck, 4, http.StatusOK, `"valid":true`, false, func(o opened) (string, []string) { return o.check(o.code) },
		0},
}

func lookAt(o opened) (string, []string) { return sendPath + "/" + o.id, nil }

func sendAgain(purpose string) func(opened) (string, []string) {
	return func(o opened) (string, []string) { return sendPath, send(o.to, purpose) }
}

func (o opened) check(code string, more ...string) (string, []string) {
	return sendPath + "/" + o.id + "/check", append([]string{"code", code}, more...)
}

// network is an address in a network of its own: failed checks are bounded in each.
func (o opened) network() string {
	return fmt.Sprintf("%d.%d.%d.7", 20+o.n>>16&63, o.n>>8&255, o.n&255)
}

// settled is how long the outcomes of the sends that opened verifications may take; they must not
// count as costs of other requests.
const settled = 3 * time.Second

// measureOthers measures requests beside first sends. It shows what they cost; see summary for the
// rest.
func (b *rig) measureOthers() string {
	b.others = nil
	var sends []run
	for _, name := range append(names(others), floodRefusal) {
		b.others = append(b.others, &entry{name: name, callers: b.unitCallers(), cells: []string{name}})
	}
	for round := range min(b.rounds, otherRounds) + 1 { // in the first one connections plan their statements
		if r := b.sends(b.contender(ours), b.unitCallers(), b.length); round > 0 {
			sends = append(sends, r)
		}
		all := make([][]opened, len(lists))
		// the first one last: its refusals must come before the rule's minute ends
		for i, l := range slices.Backward(lists) {
			all[i] = b.open(b.contender(l.program), l.purpose, b.list)
		}
		<-time.After(min(settled, 5*b.length))
		var runs []run
		for _, q := range others {
			runs = append(runs, b.measureOther(b.contender(lists[q.list].program), q, all[q.list]))
		}
		runs = append(runs, b.flood(b.contender(ours)))
		for i := range runs {
			if round > 0 {
				b.others[i].runs = append(b.others[i].runs, runs[i])
			}
		}
	}
	of := func(name string) []run { return runsOf(b.others, name, b.unitCallers()) }
	ofSend := func(runs []run) float64 { return ratio(runs, sends, costOfSend) }
	for _, q := range append(others, other{name: floodRefusal, most: .76}) {
		if q.most > 0 {
			b.goals.most(q.name+" ÷ a send", q.most*air, ofSend(of(q.name)), "")
		}
	}
	b.goals.most("the right code ÷ the fair floor's", 3.13*air, ratio(of(rightCheck), of(floorCheck), costOfSend), "")
	reads := b.readsInFlood()
	inFlood := 50 + 32/b.length.Seconds() // see gates.minReadSpacing
	b.goals.most("round trips to Postgres a second in a flood on one recipient", inFlood*air, reads, "")
	return table([]string{"processor time, µs"}, b.others, medians("the program", cpu(inProgram)),
		medians(inPostgres, cpu(inPostgres)),
		medians(inRedis, cpu(inRedis)),
		column{"all three ÷ a send", func(runs []run) string { return number(ofSend(runs)) }}).String() +
		fmt.Sprintf(
			"\nIn the flood, %d callers request codes for one recipient: the service makes %s round trips to Postgres a second more than idle.\n",
			b.unitCallers(), number(reads))
}

func names(kinds []other) (all []string) {
	for _, q := range kinds {
		all = append(all, q.name)
	}
	return all
}

// measureOther makes one request of a kind for each of a list.
func (b *rig) measureOther(c contender, q other, list []opened) run {
	return b.measure(c, b.unitCallers(), time.Hour, shared(list, func(c *caller, o *opened) error {
		path, fields := q.make(*o)
		err := c.must(q.status, path, object(fields))
		if err == nil && !bytes.Contains(c.body, []byte(q.says)) {
			err = fmt.Errorf("%s: %s is not in the answer", q.name, q.says)
		}
		return err
	}), q.mails)
}

// flood has callers request codes for one recipient that has just got one.
func (b *rig) flood(c contender) run {
	victim := b.open(c, "default", 1)[0]
	return b.measure(c, b.unitCallers(), b.length, func(c *caller) (int64, error) {
		return victim.n, c.must(http.StatusTooManyRequests, sendPath, sendBody(victim.to))
	}, false)
}

// readsInFlood is how many round trips to Postgres a second a flood adds to those of a service that
// is idle.
func (b *rig) readsInFlood() float64 {
	counter := &tripCounter{to: b.postgres.Addr()}
	counter.listen(b)
	to := b.direct()
	to.postgres = counter.address
	c := b.startContender(ours, to)
	defer b.end(c)
	b.sends(c, b.unitCallers(), b.length) // warms up
	<-time.After(min(settled, 5*b.length))
	made := func(do func()) float64 {
		began, before := time.Now(), counter.trips.Load()
		do()
		return float64(counter.trips.Load()-before) / time.Since(began).Seconds()
	}
	idle := made(func() { <-time.After(b.length) })
	victim := b.open(c, "default", 1)[0]
	<-time.After(min(settled, 5*b.length))
	flooded := made(func() {
		b.ask(c, b.unitCallers(), b.length, func(c *caller) (int64, error) {
			return victim.n, c.must(http.StatusTooManyRequests, sendPath, sendBody(victim.to))
		})
	})
	return max(0, flooded-idle)
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
		return 0, c.must(http.StatusOK, "/v1/limits/user/take",
			fmt.Sprintf(`{"keys":{"user":"%d"}}`, taken.Add(1)%limitUsers))
	})
	add(bareHTTP, func(c *caller) (int64, error) {
		return 0, c.must(http.StatusAccepted, sendPath, sendBody(recipient(firstRecipient)))
	})
	b.inTurns(b.takes)
	b.goals.least(fmt.Sprintf("takes of a limit/s ÷ bare HTTP, %d callers", n), .33/air,
		ratio(b.takes[0].runs, b.takes[1].runs, rate))
	return ""
}
