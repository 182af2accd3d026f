package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"slices"
	"sync/atomic"
)

// measureSends has all contenders take turns.
func (b *rig) measureSends(ctx context.Context, p plan) (string, error) {
	if err := b.startAll(ctx); err != nil {
		return "", err
	}
	if err := b.inTurns(ctx, p, b.contenders, p.callers, func(i, callers int, r run) {
		at := row{b.contenders[i].name, callers}
		b.board[at] = append(b.board[at], r)
	}); err != nil {
		return "", err
	}
	for _, n := range []int{64, 256} {
		if slices.Contains(p.callers, n) {
			b.goals.least(fmt.Sprintf("sends/s ÷ fair floor, %d callers", n), .95, b.board.ratio(ours, fairFloor, n, rate))
			b.goals.most(fmt.Sprintf("processor time ÷ fair floor, %d callers", n), 1.2, b.board.ratio(ours, fairFloor, n, cpu()), "")
		}
	}
	if slices.Contains(p.callers, 64) {
		b.goals.most("202 of one caller, p50 ÷ fair floor", 1.5, b.board.ratio(ours, fairFloor, 1, answered(.5)), "")
		b.goals.most("Postgres for a send, 64 callers", 130, median(b.board.of(ours, 64), cpu(inPostgres)), " µs")
		b.goals.most("WAL for a send, 64 callers", 1700, median(b.board.of(ours, 64), walBytes), " B")
		b.goals.most("Postgres for a send of the fair floor, 64 callers", 300, median(b.board.of(fairFloor, 64), cpu(inPostgres)), " µs")
	}
	g := newGrid("callers", "program", "sends/s", "202 p50, ms", "202 p99, ms", "mail p50, ms", "mail p99, ms")
	for _, n := range p.callers {
		for _, name := range contenders {
			if (name == plainFloor || name == bareHTTP) && n != unitCallers(p) {
				continue
			}
			runs := b.board.of(name, n)
			mails := []string{"–", "–"}
			if name != bareHTTP {
				mails = medians(runs, mailed(.5), mailed(.99))
			}
			cells := append([]string{fmt.Sprint(n), name, over(runs, rate).String()}, medians(runs, answered(.5), answered(.99))...)
			g.add(append(cells, mails...)...)
		}
	}
	return g.String() + "\nMail: from the 202 to the end of the mail at the mail server; 0 if the mail was first.\n", nil
}

// measureCosts says what a send costs beside one of the fair floor. Round trips are counted with programs of their own.
func (b *rig) measureCosts(ctx context.Context, p plan) (string, error) {
	n := unitCallers(p)
	trips := map[string][2]float64{}
	for _, name := range []string{ours, fairFloor} {
		postgres, redis := tripCounter{to: b.postgres.Addr()}, tripCounter{to: b.redis.Addr()}
		to := b.direct()
		var err error
		if to.postgres, err = postgres.listen(b); err != nil {
			return "", err
		}
		if to.redis, err = redis.listen(b); err != nil {
			return "", err
		}
		var c contender
		if name == ours {
			c, err = b.startService(ctx, serviceSettings{name: "trips", to: to})
		} else {
			c, err = b.startFloor(ctx, name, to)
		}
		for range 2 { // the first warms up
			before := [2]int64{postgres.trips.Load(), redis.trips.Load()}
			var r run
			if err == nil {
				r, err = b.sends(ctx, c, n, p.length/2)
			}
			if err != nil {
				return "", err
			}
			made := func(t *tripCounter, before int64) float64 { return float64(t.trips.Load()-before) / float64(r.sends) }
			trips[name] = [2]float64{made(&postgres, before[0]), made(&redis, before[1])}
		}
		if err := c.process.close(); err != nil {
			return "", err
		}
	}
	g := newGrid(fmt.Sprintf("%d callers", n), ours, fairFloor)
	for _, line := range []struct {
		name string
		of   figure
	}{
		{"processor time, µs: " + inProgram, cpu(inProgram)}, {"processor time, µs: " + inPostgres, cpu(inPostgres)},
		{"processor time, µs: " + inRedis, cpu(inRedis)}, {"processor time, µs: all, with mail server and callers", cpu()},
		{"allocations", each(func(r run) float64 { return r.mallocs })}, {"WAL without whole pages, bytes", walBytes},
		{"index entries", each(func(r run) float64 { return r.wal.entries })}, {"commits", each(func(r run) float64 { return r.wal.commits })},
	} {
		g.add(line.name, number(median(b.board.of(ours, n), line.of)), number(median(b.board.of(fairFloor, n), line.of)))
	}
	for i, server := range []string{inPostgres, inRedis} {
		g.add("round trips to "+server, number(trips[ours][i]), number(trips[fairFloor][i]))
	}
	return g.String(), nil
}

// tripCounter stands between a program and a server, and counts how often the program turns from reading to writing: each is a wait
// for an answer.
type tripCounter struct {
	to    string
	trips atomic.Int64
}

// listen returns the address at which the server is reached through the counter.
func (t *tripCounter) listen(b *rig) (address string, err error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	b.closers = append(b.closers, listener.Close)
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
	return listener.Addr().String(), nil
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

// measureHalf runs those that record what they do at half the highest rate of the service.
func (b *rig) measureHalf(ctx context.Context, p plan) (string, error) {
	highest := 0.
	for _, n := range p.callers {
		highest = max(highest, median(b.board.of(ours, n), rate))
	}
	g := newGrid("program", "202 p50, ms", "202 p99, ms", "mail p50, ms", "mail p99, ms")
	runs := map[string][]run{}
	for range p.rounds {
		for _, name := range []string{ours, fairFloor} {
			samples, refused, err := b.paced(ctx, b.contender(name), highest/2, p.length)
			if err == nil && refused > 0 {
				err = fmt.Errorf("%d refused", refused)
			}
			if err != nil {
				return "", fmt.Errorf("%s: %w", name, err)
			}
			r, err := b.arrivals(samples, true)
			if err != nil {
				return "", err
			}
			runs[name] = append(runs[name], r)
		}
	}
	for _, name := range []string{ours, fairFloor} {
		g.add(append([]string{name}, medians(runs[name], answered(.5), answered(.99), mailed(.5), mailed(.99))...)...)
	}
	b.goals.most("202 to end of mail at half the highest rate, p50", 5, median(runs[ours], mailed(.5)), " ms")
	return number(highest/2) + " requests a second at random times.\n\n" + g.String(), nil
}
