package bench

import (
	"fmt"
	"time"
)

// measureLevel has a database take one load without autovacuum.
func (b *rig) measureLevel() string {
	b.autovacuum("off")
	defer b.autovacuum("on")
	sends, cost, text := b.afterLoad(b.level)
	b.goals.least("after a minute ÷ on a fresh database, sends/s", .9, sends)
	b.goals.most("after a minute ÷ on a fresh database, processor time", 1.1, cost, "")
	return text + "\n"
}

// measureHour does it with autovacuum, for as long as is asked.
func (b *rig) measureHour() string {
	sends, cost, text := b.afterLoad(b.hour)
	return text + " Goals: at least 0.90, at most 1.10: " + verdict(sends >= .9 && cost <= 1.1) + ".\n"
}

// costOfSend is the processor time of the service and its servers, without that of the callers.
var costOfSend = cpu(inProgram, inPostgres, inRedis)

// afterLoad has a new database take one load. Then that database and a fresh one take turns, since the machine may be faster or slower than
// at the beginning; it returns how many sends a second, and what processor time for one, the used one has for each of the other.
func (b *rig) afterLoad(length time.Duration) (sends, cost float64, text string) {
	var both []*entry
	for i := range 2 {
		c := b.startService(serviceSettings{})
		defer b.end(c)
		if i == 0 {
			b.load(c, length)
		}
		both = append(both, &entry{measure: func() run { return b.sends(c, b.unitCallers(), b.length) }})
	}
	b.inTurns(both)
	sends, cost = ratio(both[0].runs, both[1].runs, rate), ratio(both[0].runs, both[1].runs, costOfSend)
	return sends, cost, fmt.Sprintf("%d callers for %.0f s; then %s times the sends of a fresh database by turns, and %s times the "+
		"processor time of a send.", b.unitCallers(), length.Seconds(), number(sends), number(cost))
}

func (b *rig) autovacuum(value string) {
	for _, sql := range []string{"ALTER SYSTEM SET autovacuum = " + value, "SELECT pg_reload_conf()"} {
		_, err := b.admin.Exec(b.Context(), sql)
		b.must(err)
	}
}

// load has callers send for a time. The mails of the second before are forgotten, since an hour's need much memory.
func (b *rig) load(c contender, length time.Duration) {
	ended, forgot := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(forgot)
		for {
			select {
			case <-ended:
				return
			case <-time.After(time.Second):
				b.mails.forget()
			}
		}
	}()
	b.ask(c, b.unitCallers(), length, b.send)
	close(ended)
	<-forgot
}
