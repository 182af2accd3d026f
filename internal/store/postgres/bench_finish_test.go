package postgres

import (
	"encoding/binary"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/parts"
	"sendcode/internal/store"
	"sendcode/internal/store/storetest"
)

// BenchmarkFinish measures how sends are ended by 64 callers: with nobody to tell, which runs the statement that it ran
// before there were events; with each told; and with every tenth told, whose neighbours share its statement.
//
//	go test -run '^$' -bench Finish -benchtime 20000x -count 5 ./internal/store/postgres
func BenchmarkFinish(b *testing.B) {
	server := parts.Postgres(b)
	syncing(b, server)
	url := server.NewDatabase(b)
	if err := Migrate(b.Context(), url); err != nil {
		b.Fatal(err)
	}
	log, err := Open(b.Context(), url)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = log.Close() })
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
		outcomes[i] = store.Outcome{Held: store.Held{ID: in.Send.ID, Attempt: 1}, Status: store.Sent, Provider: "mx.example.net", ProviderCode: "250 2.0.0"}
		if every > 0 && i%every == 0 {
			outcomes[i].Tell = store.Tell{ID: uuid.Must(uuid.NewV7()), Type: "send.sent"}
		}
		begun, err := log.Begin(b.Context(), in)
		if err == nil && !begun.Admitted {
			err = fmt.Errorf("send %d was refused", i)
		}
		return err
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
