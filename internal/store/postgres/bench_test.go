package postgres

import (
	"encoding/binary"
	"fmt"
	"path/filepath"
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
	url := server.NewDatabase(b)
	if err := Migrate(b.Context(), url); err != nil {
		b.Fatal(err)
	}
	var logs []*DB
	for range 8 {
		log, err := Open(b.Context(), url)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = log.Close() })
		logs = append(logs, log)
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
	if err != nil {
		b.Fatal(err)
	}
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
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close(b.Context())
	for _, s := range []string{"ALTER SYSTEM SET fsync = on", "ALTER SYSTEM SET full_page_writes = on", "SELECT pg_reload_conf()"} {
		if _, err := conn.Exec(b.Context(), s); err != nil {
			b.Fatal(err)
		}
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
		Rules: storetest.DefaultRules, Purposes: []string{"login", "signup"}, TTL: 10 * time.Minute, MinLife: 2 * time.Minute, Lease: 8 * time.Second,
		Verification: store.Verification{
			ID: "v-" + id.String(), Sealed: make([]byte, 60), Holder: "s:abcdefghijklmnopqrstuv", Nonce: id[:], KeyID: "k1", CodeLength: 6, Alphabet: "digits", MaxAttempts: 5,
		},
	}
}
