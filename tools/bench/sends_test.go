//go:build nightly

package bench

import (
	"fmt"
	"io"
	"net"
	"slices"
	"sync/atomic"
	"time"
)

// measureSends has all contenders take turns. The plain floor and bare HTTP are measured at one
// number of callers.
func (b *rig) measureSends() string {
	b.startAll()
	var groups [][]*entry // by the number of callers
	for _, n := range b.callers {
		var group []*entry
		for _, c := range b.contenders {
			if n == b.unitCallers() || c.name == ours || c.name == fairFloor ||
				c.name == embedded && n == slices.Min(b.callers) {
				group = append(group, &entry{name: c.name, callers: n, cells: []string{fmt.Sprint(n), c.name},
					measure: func() run { return b.sends(c, n, b.length) }})
			}
		}
		groups = append(groups, group)
	}
	b.sent = slices.Concat(groups...)
	b.inTurns(groups...)
	for _, n := range b.callers {
		switch n {
		case 64:
			own, fair := runsOf(b.sent, ours, 64), runsOf(b.sent, fairFloor, 64)
			b.goals.most("processor time of a send ÷ fair floor, 64 callers", 2.01*air,
				ratio(own, fair, costOfSend), "")
			b.goals.most("Postgres for a send ÷ fair floor, 64 callers", 2.19*air,
				ratio(own, fair, cpu(inPostgres)), "")
			b.goals.most("WAL for a send, 64 callers", 1709*air, median(own, walBytes), " B")
			b.goals.least("sends/s ÷ fair floor, 64 callers", .58/air, b.againstFair(n, rate))
		case 256:
			b.goals.most("processor time of a send ÷ fair floor, 256 callers", 2.4*air,
				b.againstFair(n, costOfSend), "")
		case 1:
			b.goals.most("202 of one caller, p50 ÷ fair floor", 1.74*air, b.againstFair(1, answered(.5)), "")
		}
	}
	columns := slices.Concat([]column{rates("sends/s")}, answers("202 "), mails())
	return table([]string{"callers", "program"}, b.sent, columns...).String() +
		"\nMail: from the 202 to the end of the mail at the mail server; 0 if the mail was first. 202 of the plain floor: after the mail.\n"
}

// againstFair divides a value of the service by the fair floor's.
func (b *rig) againstFair(callers int, value figure) float64 {
	return ratio(runsOf(b.sent, ours, callers), runsOf(b.sent, fairFloor, callers), value)
}

// measureCosts says what a send costs beside one of the fair floor. Round trips are counted with
// programs of their own.
func (b *rig) measureCosts() string {
	n := b.unitCallers()
	g := newGrid(fmt.Sprintf("%d callers", n), ours, fairFloor)
	own, fair := runsOf(b.sent, ours, n), runsOf(b.sent, fairFloor, n)
	for _, line := range []struct {
		name string
		of   figure
	}{
		{"processor time, µs: " + inProgram, cpu(inProgram)}, {"processor time, µs: " + inPostgres, cpu(inPostgres)},
		{"processor time, µs: " + inRedis, cpu(inRedis)},
		{"processor time, µs: all, with mail server and callers", cpu()},
		{"allocations", each(func(r run) float64 { return r.mallocs })}, {"WAL without whole pages, bytes", walBytes},
		{"index entries", each(func(r run) float64 { return r.wal.entries })},
		{"commits", each(func(r run) float64 { return r.wal.commits })},
	} {
		g.add(line.name, number(median(own, line.of)), number(median(fair, line.of)))
	}
	var trips [2]map[string]float64
	for i, name := range []string{ours, fairFloor} {
		trips[i] = b.trips(name, n, b.length/2)
	}
	for _, server := range []string{inPostgres, inRedis} {
		g.add("round trips to "+server, number(trips[0][server]), number(trips[1][server]))
	}
	return g.String()
}

// trips counts the round trips of a send to each server.
func (b *rig) trips(name string, callers int, length time.Duration) map[string]float64 {
	counters := map[string]*tripCounter{inPostgres: {to: b.postgres.Addr()}, inRedis: {to: b.redis.Addr()}}
	for _, t := range counters {
		t.listen(b)
	}
	to := b.direct()
	to.postgres, to.redis = counters[inPostgres].address, counters[inRedis].address
	c := b.startContender(name, to)
	made := map[string]float64{}
	for range 2 { // the first time warms up
		for _, t := range counters {
			t.trips.Store(0)
		}
		r := b.sends(c, callers, length)
		for server, t := range counters {
			made[server] = float64(t.trips.Load()) / float64(r.sends)
		}
	}
	b.end(c)
	return made
}

// tripCounter stands between a program and a server, and counts how often the program turns from
// reading to writing: each is a wait for an answer.
type tripCounter struct {
	to, address string // of the server, of the counter
	trips       atomic.Int64
}

// listen has the server reached through the counter.
func (t *tripCounter) listen(b *rig) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	b.must(err)
	b.Cleanup(func() { _ = listener.Close() })
	t.address = listener.Addr().String()
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", t.to)
			if err != nil {
				_ = client.Close()
				continue
			}
			asking := &atomic.Bool{}
			go pass(server, client, func() {
				if !asking.Swap(true) {
					t.trips.Add(1)
				}
			})
			go pass(client, server, func() { asking.Store(false) })
		}
	}()
}

// pass copies until one side ends.
func pass(to io.WriteCloser, from io.ReadCloser, seen func()) {
	defer to.Close()
	defer from.Close()
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			seen()
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// summary says what the service does in a second, the usual requests first. A caller asks again
// when it has its answer.
func (b *rig) summary() string {
	one, n := slices.Min(b.callers), b.unitCallers()
	var all []*entry
	add := func(what string, from []*entry, name string, callers int) {
		all = append(all, &entry{cells: []string{what, fmt.Sprint(callers)}, runs: runsOf(from, name, callers)})
	}
	add("sends", b.sent, ours, one)
	add("sends", b.sent, ours, n)
	for _, name := range []string{rightCheck, wrongCheck, firstRefusal, laterRefusal, floodRefusal, firstLook,
		laterLook} {
		add(name, b.others, name, n)
	}
	add("takes of a limit", b.takes, ours, n)
	add("sends, with SQLite and no Redis", b.sent, embedded, one)
	add("sends, with SQLite and no Redis", b.sent, embedded, n)
	columns := append([]column{rates("a second")}, answers("")...)
	return table([]string{"what", "callers"}, all, columns...).String() +
		"\nThe callers and the mail server use the same processors. " + b.memory
}
