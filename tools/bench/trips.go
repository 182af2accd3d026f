package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"time"

	"sendcode/tools/bench/report"
)

// tripCounter stands between a program and a server, and counts how often the program turns from reading to writing: each is a wait
// for an answer.
type tripCounter struct {
	listener net.Listener
	to       string
	trips    atomic.Int64
}

func newTripCounter(to string) (*tripCounter, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	t := &tripCounter{listener: listener, to: to}
	go t.serve()
	return t, nil
}

func (t *tripCounter) addr() string { return t.listener.Addr().String() }

func (t *tripCounter) serve() {
	for {
		client, err := t.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", t.to)
		if err != nil {
			_ = client.Close()
			continue
		}
		asking := &atomic.Bool{}
		go t.pass(server, client, func() {
			if !asking.Swap(true) {
				t.trips.Add(1)
			}
		})
		go t.pass(client, server, func() { asking.Store(false) })
	}
}

// pass copies until one side ends.
func (t *tripCounter) pass(to io.WriteCloser, from io.ReadCloser, seen func()) {
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

// counters stand before all servers.
type counters struct{ postgres, redis, mail *tripCounter }

func (b *rig) newCounters() (c counters, err error) {
	for _, x := range []struct {
		into **tripCounter
		to   string
	}{{&c.postgres, b.postgres.Addr()}, {&c.redis, b.redis.Addr()}, {&c.mail, b.mails.addr}} {
		if *x.into, err = newTripCounter(x.to); err != nil {
			return c, err
		}
		b.closers = append(b.closers, (*x.into).listener.Close)
	}
	return c, nil
}

func (c counters) addresses() addresses {
	return addresses{redis: c.redis.addr(), postgres: c.postgres.addr(), mail: c.mail.addr()}
}

func (c counters) count() [3]int64 {
	return [3]int64{c.postgres.trips.Load(), c.redis.trips.Load(), c.mail.trips.Load()}
}

// measureTrips counts round trips, with programs of their own behind the counters: their speed does not matter.
func (b *rig) measureTrips(ctx context.Context, p plan, r *report.Results) error {
	r.Trips = map[report.Key]report.Trips{}
	for name, start := range map[string]func(addresses) (contender, error){
		report.Ours: func(to addresses) (contender, error) {
			return b.startService(ctx, serviceSettings{name: "trips", to: to})
		},
		report.Fair:  func(to addresses) (contender, error) { return b.startFloor(ctx, b.path("floor"), "fair", to) },
		report.Plain: func(to addresses) (contender, error) { return b.startFloor(ctx, b.path("floor"), "plain", to) },
	} {
		c, err := b.newCounters()
		if err != nil {
			return err
		}
		program, err := start(c.addresses())
		if err != nil {
			return err
		}
		for _, callers := range p.callers {
			if r.Trips[report.Key{Contender: name, Callers: callers}], err = b.tripsOf(ctx, program, callers, p.length/2, c); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
		if err := program.process.Close(); err != nil {
			return err
		}
	}
	return nil
}

func (b *rig) tripsOf(ctx context.Context, c contender, callers int, length time.Duration, all counters) (t report.Trips, err error) {
	for range 2 { // the first warms up
		before := all.count()
		run, err := b.measure(ctx, c, callers, length)
		if err != nil {
			return t, err
		}
		after := all.count()
		part := func(i int) float64 { return float64(after[i]-before[i]) / float64(run.Sends) }
		t = report.Trips{Postgres: part(0), Redis: part(1), Mail: part(2)}
	}
	return t, nil
}
