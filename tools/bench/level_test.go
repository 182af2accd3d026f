package bench

import (
	"fmt"
	"time"
)

// measureLevel compares the beginning and the end of a load on a fresh database without autovacuum.
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

// inParts measures sends on a new database, in so many parts of the same length.
func (b *rig) inParts(length time.Duration, parts int) (all []run) {
	service := b.startService(serviceSettings{})
	callers := b.unitCallers()
	b.ask(service, callers, time.Second, b.send) // connections plan their statements, on empty tables
	for i := range parts {                       // without the WAL: a checkpoint may remove what a long part wrote
		before := b.usages(service)
		r := b.arrivals(b.ask(service, callers, length/time.Duration(parts), b.send), true)
		r.cpu = b.usedSince(service, before)
		all = append(all, r)
		b.Logf("part %d of %d: %d sends", i+1, parts, r.sends)
	}
	b.end(service)
	return all
}
