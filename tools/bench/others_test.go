package bench

import (
	"encoding/json"
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
	{"the first look at a recipient", http.StatusOK, look}, // reads the history from the log, and marks it as complete in Redis
	{"a look", http.StatusOK, look},
	{"a refusal", http.StatusTooManyRequests, func(o opened) (string, string) { return sendPath, sendBody(o.to) }},
	{"a check of the right code", http.StatusOK, func(o opened) (string, string) {
		return sendPath + "/" + o.id + "/check", `{"code":"` + o.code + `"}`
	}},
}

func look(o opened) (path, body string) { return sendPath + "/" + o.id, "" }

// settled is how long the outcomes of the sends that opened verifications may take; they must not count as costs of other requests.
const settled = 3 * time.Second

// measureOthers measures checks, looks and refusals.
func (b *rig) measureOthers() string {
	service, callers := b.contender(ours), b.unitCallers()
	var all []*entry
	for _, q := range others {
		all = append(all, &entry{cells: []string{q.name, fmt.Sprint(callers)}})
	}
	for round := range min(b.rounds, otherRounds) + 1 { // in the first one connections plan their statements
		list := b.open(service, sendsFor(b.length))
		<-time.After(min(settled, 5*b.length))
		for i, q := range others {
			r := b.measure(service, callers, time.Hour, shared(len(list), func(c *caller, n int) error {
				path, body := q.make(list[n])
				return c.must(q.status, path, body)
			}), false)
			if round > 0 {
				all[i].runs = append(all[i].runs, r)
			}
		}
	}
	b.checks = all[len(all)-1].runs
	columns := append([]column{rates("requests/s")}, answers("")...)
	columns = append(columns, medians("the program, µs", cpu(inProgram)), medians(inPostgres, cpu(inPostgres)),
		medians(inRedis, cpu(inRedis)))
	return table([]string{"request", "callers"}, all, columns...).String()
}

// open has codes sent, and reads them.
func (b *rig) open(service contender, n int) []opened {
	b.mails.keeps.Store(true)
	defer b.mails.keeps.Store(false)
	list := make([]opened, n)
	first := b.recipients.Add(int64(n)) - int64(n)
	b.ask(service, 64, time.Hour, shared(n, func(c *caller, i int) error {
		list[i].to = recipient(first + int64(i))
		if err := c.must(http.StatusAccepted, sendPath, sendBody(list[i].to)); err != nil {
			return err
		}
		var answer struct{ ID string }
		err := json.Unmarshal(c.body, &answer)
		list[i].id = answer.ID
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

// measureTakes has takes of a limit, decided in Redis, and bare HTTP take turns.
func (b *rig) measureTakes() string {
	n := b.unitCallers()
	var taken atomic.Int64
	var all []*entry
	add := func(name string, ask request) {
		all = append(all, &entry{name: name, cells: []string{fmt.Sprint(n), name}, measure: func() run {
			return b.measure(b.contender(name), n, b.length, ask, false)
		}})
	}
	add(ours, func(c *caller) (int64, error) {
		return 0, c.must(http.StatusOK, "/v1/limits/user/take", fmt.Sprintf(`{"keys":{"user":"%d"}}`, taken.Add(1)%limitUsers))
	})
	add(bareHTTP, func(c *caller) (int64, error) {
		return 0, c.must(http.StatusAccepted, sendPath, sendBody(recipient(firstRecipient)))
	})
	b.inTurns(all)
	goals, columns := newGoals(), append([]column{rates("answers/s")}, answers("200 ")...)
	g := table([]string{"callers", "program"}, all, append(columns, medians("the program, µs", cpu(inProgram)))...)
	goals.least(fmt.Sprintf("takes/s ÷ bare HTTP, %d callers", n), .5, ratio(all[0].runs, all[1].runs, rate))
	return "`POST /v1/limits/{limit}/take` of one rule, with 10,000 keys in Redis.\n\n" + g.String() + "\n" + goals.String()
}
