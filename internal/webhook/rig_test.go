package webhook

import (
	"context"
	"encoding/binary"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/servertest"
	"sendcode/internal/store"
	"sendcode/internal/store/sqlite/sqlitetest"
)

// rig is a deliverer, or several, over one database in memory, inside a bubble with a clock of its
// own.
type rig struct {
	*testing.T
	db     *sqlitetest.DB
	began  time.Time
	tick   time.Duration // of later replicas; 0: the usual one
	serial uint32

	mu     sync.Mutex
	posts  []posted
	told   map[string]int // of the observer, "app outcome"
	answer map[string]func(ctx context.Context) answer
	errors strings.Builder
}

// posted is one attempt as a receiver saw it.
type posted struct {
	id  uuid.UUID
	app string
	at  time.Duration // since the test began
}

func inBubble(t *testing.T, test func(r *rig)) {
	t.Helper()
	servertest.Bubble(t, func(t *testing.T) {
		test(&rig{
			T: t, db: sqlitetest.Open(t, time.Now), began: time.Now(), told: map[string]int{},
			answer: map[string]func(context.Context) answer{},
		})
	})
}

// replica runs a deliverer for the apps until the returned function is called.
func (r *rig) replica(apps ...string) (*Deliverer, func()) {
	s := Settings{Endpoints: map[string]Endpoint{}}
	for _, app := range apps {
		s.Endpoints[app] = Endpoint{URL: "https://" + app + ".example"}
	}
	d := New(s, Parts{DB: r.db, Observer: r, Tick: r.tick,
		Logger: slog.New(slog.NewTextHandler(&r.errors, &slog.HandlerOptions{Level: slog.LevelError}))})
	d.post = r.post
	ctx, cancel := context.WithCancel(context.Background())
	stopped := make(chan struct{})
	go func() { defer close(stopped); d.Run(ctx) }()
	synctest.Wait()
	return d, func() { cancel(); <-stopped }
}

func (r *rig) post(_ *client, ctx context.Context, _ Endpoint, e store.AppEvent) answer {
	r.mu.Lock()
	r.posts = append(r.posts, posted{e.ID, e.App, time.Since(r.began)})
	f := r.answer[e.App]
	r.mu.Unlock()
	if f == nil {
		return answer{word: "200", ok: true}
	}
	return f(ctx)
}

func (r *rig) Attempted(app, outcome string, _ time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.told[app+" "+outcome]++
}

func (r *rig) answers(app string, f func(context.Context) answer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answer[app] = f
}

func always(a answer) func(context.Context) answer { return func(context.Context) answer { return a } }

// hang is a receiver that takes the connection and says nothing.
func hang(ctx context.Context) answer {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	<-ctx.Done()
	return answer{word: "timeout"}
}

// happens writes an event of an app, as the outbox does.
func (r *rig) happens(app string) uuid.UUID {
	r.Helper()
	r.serial++
	id := uuid.UUID{8: 0x80}
	binary.BigEndian.PutUint64(id[:], uint64(time.Now().UnixMilli())<<16|0x7000)
	binary.BigEndian.PutUint32(id[12:], r.serial)
	in := store.Intent{
		Send:     store.Send{ID: id, App: app, Channel: "email", Purpose: "login"},
		Purposes: []string{"login"}, TTL: time.Hour, Lease: time.Minute,
		Verification: store.Verification{ID: "v-" + id.String(), MaxAttempts: 5},
	}
	if _, err := r.db.Begin(r.Context(), in); err != nil {
		r.Fatal(err)
	}
	tell := store.NewEvent{ID: id, Type: "send.sent"}
	if done, err := r.db.Finish(r.Context(), store.Outcome{Held: store.Held{ID: id, Attempt: 1}, Status: store.Sent,
		Event: tell}); err != nil || !done {
		r.Fatal(done, err)
	}
	return id
}

func (r *rig) event(id uuid.UUID) store.AppEvent {
	r.Helper()
	events, err := r.db.AppEvents(r.Context(), store.AppEventFilter{Limit: 200})
	if err != nil {
		r.Fatal(err)
	}
	for _, e := range events {
		if e.ID == id {
			return e
		}
	}
	r.Fatalf("no event %v", id)
	return store.AppEvent{}
}

func (r *rig) is(id uuid.UUID, state store.EventState, attempt int) {
	r.Helper()
	if e := r.event(id); e.State != state || e.Attempt != attempt {
		r.Errorf("%s after attempt %d, want %s after %d", e.State, e.Attempt, state, attempt)
	}
}

func (r *rig) count(app string) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.posts {
		if p.app == app {
			n++
		}
	}
	return n
}

// fail makes these methods of the database fail, and no other.
func (r *rig) fail(methods ...string) {
	r.db.SetFault(func(method string) sqlitetest.Fault {
		if slices.Contains(methods, method) {
			return sqlitetest.Down
		}
		return sqlitetest.None
	})
}

func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}
