package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// measureLevel compares the beginning and the end of a load on a fresh database without autovacuum.
func (b *rig) measureLevel(ctx context.Context, p plan) (text string, err error) {
	if err := b.autovacuum(ctx, "off"); err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, b.autovacuum(context.WithoutCancel(ctx), "on")) }()
	parts, err := b.inParts(ctx, p, p.level, 15)
	if err != nil {
		return "", err
	}
	sends, cost, text := ends(parts, p.level, unitCallers(p))
	b.goals.least("last 4 s ÷ first 4 s of a minute, sends/s", .9, sends)
	b.goals.most("last 4 s ÷ first 4 s of a minute, processor time", 1.1, cost, "")
	return text, nil
}

// measureHour does it with autovacuum, for as long as is asked, and shows a twelfth of it in a line.
func (b *rig) measureHour(ctx context.Context, p plan) (string, error) {
	parts, err := b.inParts(ctx, p, p.hour, 12)
	if err != nil {
		return "", err
	}
	_, _, text := ends(parts, p.hour, unitCallers(p))
	g, length := newGrid("seconds", "sends/s", "processor time of a send, µs"), int(p.hour.Seconds())/len(parts)
	for i, r := range parts {
		g.add(fmt.Sprintf("%d–%d", i*length, (i+1)*length), number(rate(r)), number(costOfSend(r)))
	}
	return text + "\n" + g.String(), nil
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

func (b *rig) autovacuum(ctx context.Context, value string) error {
	if _, err := b.admin.Exec(ctx, "ALTER SYSTEM SET autovacuum = "+value); err != nil {
		return err
	}
	_, err := b.admin.Exec(ctx, "SELECT pg_reload_conf()")
	return err
}

// inParts measures sends on a new database, in so many parts of the same length.
func (b *rig) inParts(ctx context.Context, p plan, length time.Duration, parts int) (all []run, err error) {
	service, err := b.startService(ctx, serviceSettings{})
	if err != nil {
		return nil, err
	}
	callers := unitCallers(p)
	if _, err := ask(ctx, service, callers, time.Second, b.send); err != nil { // connections plan their statements, on empty tables
		return nil, err
	}
	for i := range parts { // without the WAL: a checkpoint may remove what a long part wrote
		before := b.usages(service)
		samples, err := ask(ctx, service, callers, length/time.Duration(parts), b.send)
		if err != nil {
			return nil, err
		}
		r, err := b.arrivals(samples, true)
		if err != nil {
			return nil, err
		}
		r.cpu = b.usedSince(service, before)
		all = append(all, r)
		fmt.Fprintf(b.progress, "part %d of %d: %d sends\n", i+1, parts, r.sends)
	}
	return all, service.process.close()
}
