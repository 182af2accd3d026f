//go:build nightly

package bench

import (
	"fmt"
	"time"
)

// measureHour has a database with autovacuum take one load for as long as is asked.
func (b *rig) measureHour() string {
	sends, cost, text := b.afterLoad(b.hour)
	goals := b.newGoals()
	goals.least("sends/s ÷ on a fresh database", .9, sends)
	goals.most("processor time of a send ÷ on a fresh database", 1.1, cost, "")
	return text + "\n\n" + goals.String()
}

// costOfSend is the processor time of the service and its servers, without that of the callers.
var costOfSend = cpu(inProgram, inPostgres, inRedis)

// afterLoad has a new database take one load. Then that database and a fresh one take turns, since
// the machine may be faster or slower than at the beginning; it returns how many sends a second,
// and what processor time for one, the used one has for each of the other.
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
	return sends, cost, fmt.Sprintf(
		"%d callers for %.0f s; then %s times the sends of a fresh database by turns, and %s times the "+
			"processor time of a send.", b.unitCallers(), length.Seconds(), number(sends), number(cost))
}

// load has callers send for a time. The mails of the second before are forgotten, since an hour's
// need much memory.
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
