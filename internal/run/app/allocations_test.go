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

	"sendcode/internal/deliver/delivery"
	"sendcode/internal/kit/servertest"
	"sendcode/internal/run/config"
	"sendcode/internal/store"
	"sendcode/internal/store/sqldb"
)

// mostAllocations is how many allocations a send may make: those for the request, which the test
// makes, both gates, the mail, its outcome and the answer. The connection, the mail server and the
// database don't count. Raise it only for a reason that is worth the garbage collector's time at
// each send. Eight allocations are for the deadline of all steps together, without which a proxy
// asks another replica while this one still decides (docs/decisions/0013-admission.md). Seven are
// for the HMAC in the Message-ID, without which a forged bounce would suppress a recipient. One is
// for the human check that a send may have passed, and one for echo 4.16.4.
const mostAllocations = 202

// A send makes at most mostAllocations allocations, since each allocation costs time twice: when it
// is made and when it is collected.
func TestAllocationsOfASend(t *testing.T) {
	servertest.SkipUnderRace(t)
	a := newAlone(t, "")
	parts := &lightParts{DB: a.db, finished: make(chan struct{}, 2000)}
	a.core.Codes.Store, a.core.Outbox.Store, a.core.Outbox.Sender = parts, parts, parts
	a.serveUntilTheEnd(t)
	sent := 0
	send := func() {
		sent++ // each send has its own recipient, named by numbers below 256, because passing a larger one to fmt allocates
		body := fmt.Sprintf(`{"channel":"email","to":"recipient-%d-%d@example.com","purpose":"default","locale":"en","trust":"known"}`, sent/256, sent%256)
		r, w := httptest.NewRequest(http.MethodPost, "/v1/verifications", strings.NewReader(body)), httptest.NewRecorder()
		r.Header.Set("Authorization", "Bearer "+loneKey)
		r.Header.Set("Content-Type", "application/json")
		if a.listeners[0].routes.ServeHTTP(w, r); w.Code != http.StatusAccepted {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
		<-parts.finished
	}
	for range 200 {
		send()
	}
	least := testing.AllocsPerRun(200, send)
	for range 4 { // several runs, because allocations of the service's jobs count, too
		least = min(least, testing.AllocsPerRun(200, send))
	}
	if least > mostAllocations {
		t.Errorf("a send takes %v allocations, want at most %v", least, mostAllocations)
	}
}

func loadConfig(t *testing.T, yaml string, environ ...string) config.Config {
	t.Helper()
	cfg, err := config.Load(append(environ, "SENDCODE_CONFIG_YAML="+yaml), os.ReadFile)
	if err != nil {
		t.Fatalf("%v\n%s", err, yaml)
	}
	return cfg
}

// loneKey is the API key of the services that newAlone makes.
const loneKey = "sk_of_the_benchmarks_0123456789abcdef"

// newAlone returns a service with these settings on an empty directory, as New makes it. It logs
// nothing.
func newAlone(t *testing.T, yaml string, environ ...string) *App {
	t.Helper()
	cfg := loadConfig(t, yaml, append(environ, "SENDCODE_API_KEY="+loneKey, "SENDCODE_ADDR=127.0.0.1:0", "SENDCODE_DRAIN=0s",
		"SENDCODE_DATA_DIR="+t.TempDir())...)
	a, err := New(t.Context(), cfg, slog.New(slog.DiscardHandler))
	servertest.OK(t, err)
	return a
}

func (a *App) serveUntilTheEnd(t *testing.T) {
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- a.Serve(ctx) }()
	t.Cleanup(func() {
		stop()
		servertest.OK(t, <-ended)
	})
}

// lightParts are parts that cost little: they admit every send, as the database does for an unknown
// recipient, accept every mail, and write nothing.
type lightParts struct {
	delivery.Unlimited
	*sqldb.DB
	finished chan struct{}
}

// Begin implements verification.Store.
func (l *lightParts) Begin(_ context.Context, in store.Intent) (store.BeginAnswer, error) {
	in, err := store.ValidatedIntent(in)
	now, v, s := time.Now(), in.Verification, in.Send
	v.CreatedAt, v.ExpiresAt, v.Sends = now, now.Add(in.TTL), 1
	s.LoggedAt, s.Status, s.Number, s.Attempt, s.VerificationID = now, store.Sending, 1, 1, v.ID
	return store.BeginAnswer{Admitted: true, Verification: v, Send: s, Now: now}, err
}

// Send implements outbox.MailSender.
func (l *lightParts) Send(context.Context, delivery.Mail) (delivery.Result, error) {
	return delivery.Result{Provider: "none", ReplyCodes: "250"}, nil
}

// Finish implements outbox.Store.
func (l *lightParts) Finish(context.Context, store.Outcome) (bool, error) {
	l.finished <- struct{}{}
	return true, nil
}
