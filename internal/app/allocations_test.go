package app

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sendcode/internal/config"
	"sendcode/internal/delivery"
	"sendcode/internal/servertest"
	"sendcode/internal/store"
	"sendcode/internal/store/sqldb"
)

// mostAllocations is what a send may take: the request, both gates, the mail, its outcome and the
// answer, but no connection, mail server and database. Raise it only with a reason that is worth a
// garbage collector's time at each send. Eight are of the deadline of all steps together, without
// which a proxy asks another replica while this one still decides
// (docs/decisions/0013-admission.md).
const mostAllocations = 195

// mostOfARefusal is what a send may take that is refused at once in an overload. What refusals
// take, those that are admitted lack.
const mostOfARefusal = 83

// A send takes no more allocations than it did: each costs twice, when it is made and when it is
// collected.
func TestAllocationsOfASend(t *testing.T) {
	servertest.SkipUnderRace(t)
	l := newLight(t)
	send := func() {
		if w := l.send(); w.Code != http.StatusAccepted {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
		<-l.parts.finished
	}
	for range 200 {
		send()
	}
	atMost(t, "a send", mostAllocations, send)
}

// Nor does a send that is refused at once.
func TestAllocationsOfARefusalInAnOverload(t *testing.T) {
	servertest.SkipUnderRace(t)
	l := newLight(t)
	l.parts.stands = make(chan chan struct{})
	var waiting sync.WaitGroup
	var all []chan struct{}
	late := 0 // sends that were refused: fewer have a place once the oldest has waited for a while
	for l.core.Codes.SendsOverloaded() == nil {
		decided, ended := make(chan struct{}), make(chan struct{})
		waiting.Go(func() { l.send(); close(ended) })
		select {
		case l.parts.stands <- decided:
			all = append(all, decided)
		case <-ended:
			late++
		}
	}
	atMost(t, "a refusal", mostOfARefusal, func() {
		if w := l.send(); w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
	})
	shown := func() string {
		w := httptest.NewRecorder()
		l.metrics.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		var lines []string
		for line := range strings.Lines(w.Body.String()) {
			if strings.HasPrefix(line, "sendcode_admission_") && strings.Contains(line, `of="sends"`) {
				lines = append(lines, strings.TrimPrefix(line, "sendcode_admission_"))
			}
		}
		return strings.Join(lines, "")
	}
	const refused = 502 // by AllocsPerRun, which runs once more, and by the loop
	var lines string
	var most int
	for again := true; again; again = most != l.core.Codes.AdmissionStates()["sends"].Most {
		most = l.core.Codes.AdmissionStates()["sends"].Most
		lines = shown()
	}
	servertest.Same(t, "metrics", lines, fmt.Sprintf(`places{of="sends"} %d
refusals_total{class="known",of="sends"} 0
refusals_total{class="stranger",of="sends"} 0
refusals_total{class="unread",of="sends"} %d
under_way{class="known",of="sends"} %d
under_way{class="stranger",of="sends"} 0
`, most, refused+late, len(all)))
	for _, one := range all {
		close(one)
	}
	waiting.Wait()
}

func atMost(t *testing.T, what string, most float64, do func()) {
	t.Helper()
	got := testing.AllocsPerRun(500, do)
	t.Logf("%s takes %v allocations, of at most %v", what, got, most)
	if got > most {
		t.Errorf("%s takes %v allocations, want at most %v", what, got, most)
	}
}

// light is a service on parts that take nothing.
type light struct {
	*App
	parts *lightParts
	sent  atomic.Int64
}

const lightKey = "sk_of_the_benchmarks_0123456789abcdef"

// newLight starts one, until the test ends.
func newLight(t *testing.T) *light {
	t.Helper()
	a := newAlone(t, slog.New(slog.DiscardHandler), "SENDCODE_API_KEY="+lightKey)
	parts := &lightParts{DB: a.db, finished: make(chan struct{}, 2000)}
	a.core.Codes.Store, a.core.Outbox.Store, a.core.Outbox.Sender = parts, parts, parts
	a.serveUntilTheEnd(t)
	return &light{App: a, parts: parts}
}

// newAlone is a service with these settings on an empty directory, as New makes it.
func newAlone(t *testing.T, logger *slog.Logger, environ ...string) *App {
	t.Helper()
	cfg, err := config.Load(append(environ, "SENDCODE_ADDR=127.0.0.1:0", "SENDCODE_DRAIN=0s",
		"SENDCODE_DATA_DIR="+t.TempDir()), os.ReadFile)
	if err != nil {
		t.Fatal(err)
	}
	a, err := New(t.Context(), cfg, logger)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// serveUntilTheEnd serves until the test ends.
func (a *App) serveUntilTheEnd(t *testing.T) {
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- a.Serve(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// send asks for a code to a recipient of its own.
func (l *light) send() *httptest.ResponseRecorder {
	body := fmt.Sprintf(`{"channel":"email","to":"recipient-%d@example.com","purpose":"default","locale":"en"}`,
		l.sent.Add(1))
	r, w := httptest.NewRequest(http.MethodPost, "/v1/verifications", strings.NewReader(body)), httptest.NewRecorder()
	r.Header.Set("Authorization", "Bearer "+lightKey)
	r.Header.Set("Content-Type", "application/json")
	l.listeners[0].routes.ServeHTTP(w, r)
	return w
}

// lightParts admits every send as the database does where it has nothing of its recipient, accepts
// every mail, and writes nothing.
type lightParts struct {
	*sqldb.DB
	finished chan struct{}
	stands   chan chan struct{} // tells a send for what to wait before it is decided; nil: for nothing
}

// Begin implements verification.Store.
func (l *lightParts) Begin(_ context.Context, in store.Intent) (store.BeginAnswer, error) {
	if l.stands != nil {
		<-<-l.stands
	}
	in, err := store.ValidatedIntent(in)
	now, v, s := time.Now(), in.Verification, in.Send
	v.CreatedAt, v.ExpiresAt, v.Sends = now, now.Add(in.TTL), 1
	s.LoggedAt, s.Status, s.Number, s.Attempt, s.VerificationID = now, store.Sending, 1, 1, v.ID
	return store.BeginAnswer{Admitted: true, Verification: v, Send: s, At: in.Send.TakenAt, Now: now,
		NowClock: store.DatabaseClock}, err
}

// Send implements outbox.Sender.
func (l *lightParts) Send(context.Context, delivery.Message) (delivery.Result, error) {
	return delivery.Result{Provider: "none", Code: "250"}, nil
}

// Finish implements outbox.Store.
func (l *lightParts) Finish(context.Context, store.Outcome) (bool, error) {
	l.finished <- struct{}{}
	return true, nil
}
