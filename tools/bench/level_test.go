package bench

import (
	"fmt"
	"time"
)

// measureLevel compares the beginning and the end of one load on a fresh database without autovacuum.
func (b *rig) measureLevel() string {
	b.autovacuum("off")
	defer b.autovacuum("on")
	parts := b.inParts(b.level, 15)
	sends, cost, text := ends(parts, b.level, b.unitCallers())
	b.goals.least("last 4 s ÷ first 4 s of a minute, sends/s", .9, sends)
	b.goals.most("last 4 s ÷ first 4 s of a minute, processor time", 1.1, cost, "")
	return text
}

// measureHour does it with autovacuum, for as long as is asked, and shows a twelfth of it in a line.
func (b *rig) measureHour() string {
	parts := b.inParts(b.hour, 12)
	_, _, text := ends(parts, b.hour, b.unitCallers())
	g, length := newGrid("seconds", "sends/s", "processor time of a send, µs"), int(b.hour.Seconds())/len(parts)
	for i, r := range parts {
		g.add(fmt.Sprintf("%d–%d", i*length, (i+1)*length), number(rate(r)), number(costOfSend(r)))
	}
	return text + "\n" + g.String()
}

// costOfSend is the processor time of the service and its servers, without that of the callers.
var costOfSend = cpu(inProgram, inPostgres, inRedis)

// ends compares the last part of a load with the first.
func ends(parts []run, length time.Duration, callers int) (sends, cost float64, text string) {
	first, last := parts[:1], parts[len(parts)-1:]
	sends, cost = ratio(last, first, rate), ratio(last, first, costOfSend)
	return sends, cost, fmt.Sprintf("%d callers for %.0f s. The last %.0f s against the first: %s times the sends, %s times "+
		"the processor time of a send.\n", callers, length.Seconds(), length.Seconds()/float64(len(parts)), number(sends), number(cost))
}

func (b *rig) autovacuum(value string) {
	for _, sql := range []string{"ALTER SYSTEM SET autovacuum = " + value, "SELECT pg_reload_conf()"} {
		_, err := b.admin.Exec(b.Context(), sql)
		b.must(err)
	}
}

// inParts measures one load on a new database, in so many parts of the same length. The sends of a part are the mails that came in it.
func (b *rig) inParts(length time.Duration, parts int) []run {
	service, callers := b.startService(serviceSettings{}), b.unitCallers()
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
	b.end(service)
	return all
}
