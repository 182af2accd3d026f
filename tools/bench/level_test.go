package bench

import (
	"fmt"
	"time"
)

// measureLevel has a database take one load without autovacuum.
func (b *rig) measureLevel() string {
	b.autovacuum("off")
	defer b.autovacuum("on")
	_, sends, cost, text := b.afterLoad(b.level, 1)
	b.goals.least("after a minute ÷ on a fresh database, sends/s", .9, sends)
	b.goals.most("after a minute ÷ on a fresh database, processor time", 1.1, cost, "")
	return text
}

// measureHour does it with autovacuum, for as long as is asked, and shows a twelfth of it in a line.
func (b *rig) measureHour() string {
	parts, sends, _, text := b.afterLoad(b.hour, 12)
	g, length := newGrid("seconds", "sends/s", "processor time of a send, µs"), int(b.hour.Seconds())/len(parts)
	for i, r := range parts {
		g.add(fmt.Sprintf("%d–%d", i*length, (i+1)*length), number(rate(r)), number(costOfSend(r)))
	}
	goals := newGoals()
	goals.least("after an hour ÷ on a fresh database, sends/s", .9, sends)
	return text + "\n" + g.String() + "\n" + goals.String()
}

// costOfSend is the processor time of the service and its servers, without that of the callers.
var costOfSend = cpu(inProgram, inPostgres, inRedis)

// afterLoad measures one load on a new database in parts. Then that database and a fresh one take turns, since the machine may be faster or
// slower than at the beginning; it returns how many sends a second, and what processor time for one, the used one has for each of the other.
func (b *rig) afterLoad(length time.Duration, parts int) (load []run, sends, cost float64, text string) {
	var both []*entry
	for i := range 2 {
		c := b.startService(serviceSettings{})
		defer b.end(c)
		if i == 0 {
			load = b.inParts(c, length, parts)
		}
		both = append(both, &entry{measure: func() run { return b.sends(c, b.unitCallers(), b.length) }})
	}
	b.inTurns(both)
	sends, cost = ratio(both[0].runs, both[1].runs, rate), ratio(both[0].runs, both[1].runs, costOfSend)
	return load, sends, cost, fmt.Sprintf("%d callers for %.0f s; then %s times the sends of a fresh database by turns, and %s times the "+
		"processor time of a send.\n", b.unitCallers(), length.Seconds(), number(sends), number(cost))
}

func (b *rig) autovacuum(value string) {
	for _, sql := range []string{"ALTER SYSTEM SET autovacuum = " + value, "SELECT pg_reload_conf()"} {
		_, err := b.admin.Exec(b.Context(), sql)
		b.must(err)
	}
}

// inParts measures one load, in so many parts of the same length. The sends of a part are the mails that came in it.
func (b *rig) inParts(service contender, length time.Duration, parts int) []run {
	callers := b.unitCallers()
	b.arrivals(b.ask(service, callers, time.Second, b.send), true) // connections plan their statements, on empty tables
	all, noted := make([]run, parts), make(chan struct{})
	for i := range all {
		all[i].cpu = map[string]time.Duration{}
	}
	step := min(length/time.Duration(parts), time.Second) // what a process of autovacuum had in the step in which it ends is lost
	b.mails.forget()
	began, before := time.Now(), b.usages(service)
	go func() { // without the WAL: a checkpoint may remove what a long part wrote
		defer close(noted)
		last := began
		for at := step; at <= length && b.Context().Err() == nil; at += step {
			<-time.After(time.Until(began.Add(at)))
			r := &all[(at-1)*time.Duration(parts)/length]
			now, sends, usages := time.Now(), b.mails.forget(), b.usages(service)
			r.sends, r.took = r.sends+sends, r.took+now.Sub(last)
			for process, spent := range used(before, usages) {
				r.cpu[process] += spent
			}
			last, before = now, usages
		}
	}()
	b.ask(service, callers, length, b.send)
	<-noted
	return all
}
