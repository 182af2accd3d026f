package app

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"sendcode/internal/config"
	"sendcode/internal/delivery"
	"sendcode/internal/servertest"
	"sendcode/internal/store"
	"sendcode/internal/store/sqldb"
)

// mostAllocations is what a send may take: the request, both gates, the mail, its outcome and the answer, but no connection, mail server
// and database. Raise it only with a reason that is worth a garbage collector's time at each send.
const mostAllocations = 187

// A send takes no more allocations than it did: each costs twice, when it is made and when it is collected.
func TestAllocationsOfASend(t *testing.T) {
	servertest.SkipUnderRace(t)
	const key = "sk_of_the_benchmarks_0123456789abcdef"
	cfg, err := config.Load([]string{"SENDCODE_ADDR=127.0.0.1:0", "SENDCODE_API_KEY=" + key, "SENDCODE_DATA_DIR=" + t.TempDir()}, os.ReadFile)
	if err != nil {
		t.Fatal(err)
	}
	a, err := New(t.Context(), cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	parts := &lightParts{DB: a.db, finished: make(chan struct{}, 1)}
	a.codes.Store, a.outbox.Store, a.outbox.Sender = parts, parts, parts
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- a.Serve(ctx) }()
	n := 0
	send := func() {
		n++
		body := fmt.Sprintf(`{"channel":"email","to":"recipient-%d@example.com","purpose":"default","locale":"en"}`, n)
		r, w := httptest.NewRequest(http.MethodPost, "/v1/verifications", strings.NewReader(body)), httptest.NewRecorder()
		r.Header.Set("Authorization", "Bearer "+key)
		r.Header.Set("Content-Type", "application/json")
		a.listeners[0].routes.ServeHTTP(w, r)
		if w.Code != http.StatusAccepted {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
		<-parts.finished
	}
	for range 200 {
		send()
	}
	got := testing.AllocsPerRun(500, send)
	t.Logf("a send takes %v allocations, of at most %d", got, mostAllocations)
	if got > mostAllocations {
		t.Errorf("a send takes %v allocations, want at most %d", got, mostAllocations)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// lightParts admits every send as the database does where it has nothing of its recipient, accepts every mail, and writes nothing.
type lightParts struct {
	*sqldb.DB
	finished chan struct{}
}

// Begin implements verification.Store.
func (l *lightParts) Begin(_ context.Context, in store.Intent) (store.Begun, error) {
	in, err := store.ValidatedIntent(in)
	now, v, s := time.Now(), in.Verification, in.Send
	v.CreatedAt, v.ExpiresAt, v.Sends = now, now.Add(in.TTL), 1
	s.LoggedAt, s.Status, s.Number, s.Attempt, s.VerificationID = now, store.Sending, 1, 1, v.ID
	return store.Begun{Admitted: true, Verification: v, Send: s, At: in.Send.TakenAt, Now: now, NowClock: store.DatabaseClock}, err
}

// Send implements outbox.Sender.
func (l *lightParts) Send(context.Context, delivery.Message) (delivery.Receipt, error) {
	return delivery.Receipt{Provider: "none", Code: "250"}, nil
}

// Finish implements outbox.Store.
func (l *lightParts) Finish(context.Context, store.Outcome) (bool, error) {
	l.finished <- struct{}{}
	return true, nil
}
