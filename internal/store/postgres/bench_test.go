package postgres

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"sendcode/internal/parts"
	"sendcode/internal/recipient"
	"sendcode/internal/store"
	"sendcode/internal/store/sqlite"
	"sendcode/internal/store/storetest"
)

// BenchmarkBegin measures Begin at a number of callers, each sending to fresh recipients under the default policy:
// coalesced, in a round trip of its own over 16 connections, and with the second gate left out of the statement. It
// compares within one run; the server syncs, as in production.
//
//	go test -run '^$' -bench Begin -benchtime 3s ./internal/store/postgres
func BenchmarkBegin(b *testing.B) {
	server := parts.Postgres(b)
	syncing(b, server)
	url := newDatabaseOn(b, server)
	var logs []*DB
	for range 8 {
		logs = append(logs, openTest(b, url, serverClock))
	}
	var turn atomic.Uint64
	alone := func(in store.Intent) error {
		x := newCall(in, store.LockKey(in.Send))
		logs[turn.Add(1)%uint64(len(logs))].decide([]*call{x})
		return x.err
	}
	coalesced := func(in store.Intent) error { _, err := logs[0].Begin(b.Context(), in); return err }
	ungated := func(in store.Intent) error { in.Rules = nil; _, err := logs[0].Begin(b.Context(), in); return err }
	sqlite, err := sqlite.Open(b.Context(), filepath.Join(b.TempDir(), "log.db"), time.Now)
	storetest.OK(b, err)
	defer sqlite.Close()
	embedded := func(in store.Intent) error { _, err := sqlite.Begin(b.Context(), in); return err }
	for _, callers := range []int{1, 64, 256} {
		for _, c := range []struct {
			name  string
			begin func(store.Intent) error
		}{{"coalesced", coalesced}, {"alone", alone}, {"without rules", ungated}, {"sqlite", embedded}} {
			b.Run(fmt.Sprintf("%s/callers=%d", c.name, callers), func(b *testing.B) { benchBegin(b, callers, c.begin) })
		}
	}
}

// syncing makes the server wait for its disk, which test servers do not.
func syncing(b *testing.B, server *parts.PostgresServer) {
	b.Helper()
	conn, err := pgx.Connect(b.Context(), server.AdminURL())
	storetest.OK(b, err)
	defer conn.Close(b.Context())
	for _, s := range []string{"ALTER SYSTEM SET fsync = on", "ALTER SYSTEM SET full_page_writes = on", "SELECT pg_reload_conf()"} {
		_, err := conn.Exec(b.Context(), s)
		storetest.OK(b, err)
	}
	var fsync string
	if err := conn.QueryRow(b.Context(), "SHOW fsync").Scan(&fsync); err != nil || fsync != "on" {
		b.Logf("the server does not sync: fsync is %s (%v)", fsync, err)
	}
}

func benchBegin(b *testing.B, callers int, begin func(store.Intent) error) {
	b.ReportAllocs()
	var next atomic.Int64
	storetest.Together(callers, func(int) {
		for next.Add(1) <= int64(b.N) {
			if err := begin(benchIntent(b)); err != nil {
				b.Error(err)
				return
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "sends/s")
}

func benchIntent(b *testing.B) store.Intent {
	id, err := uuid.NewV7()
	if err != nil {
		b.Fatal(err)
	}
	var who recipient.Hash
	binary.BigEndian.PutUint64(who[:], uint64(id.ID())<<32|uint64(binary.BigEndian.Uint32(id[12:])))
	now := time.Now()
	return store.Intent{
		Send: store.Send{
			ID: id, App: "shop", Channel: recipient.Email, Purpose: "login", Recipient: who, To: "a•••@example.com", Locale: "en",
			IP: "192.0.2.0/24", TakenAt: now, Clock: "redis-0123456789abcdef",
		},
		Rules: storetest.DefaultRules, Purposes: []string{"login", "signup"}, TTL: 10 * time.Minute, MinLife: 2 * time.Minute,
		Lease: 8 * time.Second,
		Verification: store.Verification{
			ID: "v-" + id.String(), Sealed: make([]byte, 60), Holder: "s:abcdefghijklmnopqrstuv", Nonce: id[:], KeyID: "k1", CodeLength: 6,
			Alphabet: "digits", MaxAttempts: 5,
		},
	}
}

// benchAdmit begins what must be let in.
func benchAdmit(b *testing.B, log *DB, in store.Intent) error {
	begun, err := log.Begin(b.Context(), in)
	if err == nil && !begun.Admitted {
		err = fmt.Errorf("send %s was refused", in.Send.ID)
	}
	return err
}

// benchOutcome is that the mail server has accepted the first attempt.
func benchOutcome(in store.Intent) store.Outcome {
	return store.Outcome{Held: store.Held{ID: in.Send.ID, Attempt: 1}, Status: store.Sent, Provider: "mx.example.net",
		ProviderCode: "250 2.0.0"}
}

// BenchmarkSend measures Begin and Finish of sends to fresh recipients, at one caller and at 64: sends per second, the server's
// processor time and WAL for each. The server does not wait for its disk.
//
//	go test -run '^$' -bench Send -benchtime 10000x ./internal/store/postgres
func BenchmarkSend(b *testing.B) {
	server := parts.Postgres(b)
	url := newDatabaseOn(b, server)
	log := openTest(b, url, serverClock)
	conn, err := pgx.Connect(b.Context(), url)
	storetest.OK(b, err)
	defer conn.Close(b.Context())
	var serial atomic.Uint64
	for _, callers := range []int{1, 64} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			var before, after int64
			position(b, conn, &before)
			busy := busyOf(b, server.PID())
			benchBegin(b, callers, func(in store.Intent) error {
				in.Send.Recipient = recipient.Hash{}
				binary.BigEndian.PutUint64(in.Send.Recipient[:], serial.Add(1)*0x9e3779b97f4a7c15)
				if err := benchAdmit(b, log, in); err != nil {
					return err
				}
				_, err := log.Finish(b.Context(), benchOutcome(in))
				return err
			})
			busy = busyOf(b, server.PID()) - busy
			position(b, conn, &after)
			b.ReportMetric(float64(busy)/1000/float64(b.N), "server-µs/send")
			b.ReportMetric(float64(after-before)/float64(b.N), "WAL-B/send")
		})
	}
}

func position(b *testing.B, conn *pgx.Conn, at *int64) {
	b.Helper()
	storetest.OK(b, conn.QueryRow(b.Context(), `SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint`).Scan(at))
}

// busyOf is the processor time in ns of all children of a process.
func busyOf(b *testing.B, parent int) (ns int64) {
	b.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	storetest.OK(b, err)
	for _, name := range stats {
		text, err := os.ReadFile(name)
		if err != nil {
			continue // it ended
		}
		fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
		if fields[1] != strconv.Itoa(parent) {
			continue
		}
		sched, err := os.ReadFile(filepath.Join(filepath.Dir(name), "schedstat"))
		if err != nil {
			continue
		}
		n, _ := strconv.ParseInt(strings.Fields(string(sched))[0], 10, 64)
		ns += n
	}
	return ns
}

// BenchmarkFinish measures how sends are ended by 64 callers: with no app to tell, which runs the statement that it ran
// before there were events; with each told; and with every tenth told, whose neighbours share its statement.
//
//	go test -run '^$' -bench Finish -benchtime 20000x -count 5 ./internal/store/postgres
func BenchmarkFinish(b *testing.B) {
	server := parts.Postgres(b)
	syncing(b, server)
	log := openTest(b, newDatabaseOn(b, server), serverClock)
	for _, every := range []int{0, 1, 10} {
		b.Run(fmt.Sprintf("told=1 in %d", every), func(b *testing.B) { benchFinish(b, log, every) })
	}
}

func benchFinish(b *testing.B, log *DB, every int) {
	const callers = 64
	b.StopTimer()
	outcomes := make([]store.Outcome, b.N)
	var next atomic.Int64
	each := func(f func(i int) error) {
		next.Store(0)
		storetest.Together(callers, func(int) {
			for i := int(next.Add(1)) - 1; i < b.N; i = int(next.Add(1)) - 1 {
				if err := f(i); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	each(func(i int) error {
		in := benchIntent(b)
		in.Lease = time.Hour
		binary.BigEndian.PutUint64(in.Send.Recipient[8:], uint64(i)) // no two alike
		outcomes[i] = benchOutcome(in)
		if every > 0 && i%every == 0 {
			outcomes[i].Event = store.NewEvent{ID: uuid.Must(uuid.NewV7()), Type: "send.sent"}
		}
		return benchAdmit(b, log, in)
	})
	b.StartTimer()
	each(func(i int) error {
		done, err := log.Finish(b.Context(), outcomes[i])
		if err == nil && !done {
			err = fmt.Errorf("send %d was not ended", i)
		}
		return err
	})
}
