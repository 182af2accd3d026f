package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// second is what one second of a load did and cost: the processor time of the program, Postgres and Redis.
type second struct {
	sends int
	cpu   time.Duration
}

// measureLevel counts the sends of each second on a fresh database without autovacuum.
func (b *rig) measureLevel(ctx context.Context, p plan) (text string, err error) {
	if err := b.autovacuum(ctx, "off"); err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, b.autovacuum(context.WithoutCancel(ctx), "on")) }()
	all, err := b.secondBySecond(ctx, p, p.level)
	edge := min(4, len(all)/2)
	sends, cost, text := ends(all, edge, unitCallers(p))
	b.goals.least("last 4 s ÷ first 4 s of a minute, sends/s", .9, sends)
	b.goals.most("last 4 s ÷ first 4 s of a minute, processor time", 1.1, cost, "")
	return text, err
}

// measureHour does it with autovacuum, for as long as is asked, and shows a twelfth of it in a line.
func (b *rig) measureHour(ctx context.Context, p plan) (string, error) {
	all, err := b.secondBySecond(ctx, p, p.hour)
	edge := max(1, len(all)/12)
	_, _, text := ends(all, edge, unitCallers(p))
	g := newGrid("seconds", "sends/s", "processor time of a send, µs")
	for first := 0; first+edge <= len(all); first += edge {
		sends, cost := sum(all[first : first+edge])
		g.add(fmt.Sprintf("%d–%d", first, first+edge), number(sends/float64(edge)), number(cost))
	}
	return text + "\n" + g.String(), err
}

// sum is how many sends some seconds had, and the processor time of each, in µs.
func sum(seconds []second) (sends, cost float64) {
	for _, s := range seconds {
		sends, cost = sends+float64(s.sends), cost+float64(s.cpu)/float64(time.Microsecond)
	}
	return sends, cost / max(sends, 1)
}

// ends compares the last seconds with the first.
func ends(all []second, edge, callers int) (sends, cost float64, text string) {
	firstSends, firstCost := sum(all[:edge])
	lastSends, lastCost := sum(all[len(all)-edge:])
	sends, cost = lastSends/max(firstSends, 1), lastCost/max(firstCost, 1e-9)
	return sends, cost, fmt.Sprintf("%d callers for %d s. The last %d s against the first: %s times the sends, %s times the processor time of "+
		"a send.\n", callers, len(all), edge, number(sends), number(cost))
}

func (b *rig) autovacuum(ctx context.Context, value string) error {
	if _, err := b.admin.Exec(ctx, "ALTER SYSTEM SET autovacuum = "+value); err != nil {
		return err
	}
	_, err := b.admin.Exec(ctx, "SELECT pg_reload_conf()")
	return err
}

// chunk bounds what is kept in memory.
const chunk = time.Minute

func (b *rig) secondBySecond(ctx context.Context, p plan, length time.Duration) (all []second, err error) {
	service, err := b.startService(ctx, serviceSettings{name: "level"})
	if err != nil {
		return nil, err
	}
	callers := unitCallers(p)
	if _, err := ask(ctx, service, callers, time.Second, b.send); err != nil { // connections plan their statements, on empty tables
		return nil, err
	}
	for ; length > 0; length -= chunk {
		part := make([]second, int(min(length, chunk)/time.Second))
		began := time.Now()
		wait := b.everySecond(ctx, service, part)
		samples, err := ask(ctx, service, callers, min(length, chunk), b.send)
		wait()
		if err != nil {
			return nil, err
		}
		r, err := b.arrivals(samples, true)
		if err != nil {
			return nil, err
		}
		for i, s := range samples {
			if at := int(s.answered.Add(r.mails[i]).Sub(began) / time.Second); at < len(part) {
				part[at].sends++
			}
		}
		all = append(all, part...)
		fmt.Fprintf(b.progress, "%s left; %d sends in the last %d s\n", max(0, length-chunk), r.sends, len(part))
	}
	return all, service.process.close()
}

// everySecond notes what each second costs. The function that it returns waits for the last one.
func (b *rig) everySecond(ctx context.Context, c contender, part []second) (wait func()) {
	noted := make(chan struct{})
	before := b.usages(c)
	tick := time.NewTicker(time.Second)
	go func() {
		defer close(noted)
		defer tick.Stop()
		for i := range part {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			now := b.usages(c)
			for _, process := range []string{inProgram, inPostgres, inRedis} {
				part[i].cpu += now[process].since(before[process])
			}
			before = now
		}
	}()
	return func() { <-noted }
}
