package webhook_test

import (
	"cmp"
	"context"
	"encoding/binary"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/deliver/webhook"
	"sendcode/internal/store"
	vtest "sendcode/internal/verify/verification/verificationtest"
)

// rig is a service with one or several deliverers, and the receivers of its apps.
type rig struct {
	*vtest.Rig
	began  time.Time
	tick   time.Duration // the tick of later replicas; 0: the usual one
	serial uint32

	mu     sync.Mutex
	posts  []post
	answer map[string]receiver // by app; nil: the receiver accepts all events
}

// receiver answers one request.
type receiver func(r *http.Request) (*http.Response, error)

// post is one attempt, as a receiver saw it.
type post struct {
	id, app string
	at      time.Duration // since the test began
}

func inBubble(t *testing.T, test func(r *rig)) {
	t.Helper()
	vtest.InBubbleIdle(t, vtest.DefaultTick(nil), func(r *vtest.Rig) {
		test(&rig{Rig: r, began: time.Now(), answer: map[string]receiver{}})
	})
}

func endpoints(apps ...string) webhook.Settings {
	s := webhook.Settings{Endpoints: map[string]webhook.Endpoint{}}
	for _, app := range apps {
		s.Endpoints[app] = webhook.Endpoint{URL: "https://" + app}
	}
	return s
}

// replica runs a deliverer for the apps until the returned function is called.
func (r *rig) replica(apps ...string) (*webhook.Deliverer, func()) {
	d := r.Replica(r.MailServer).Webhooks
	d.Transport, d.Tick = r, cmp.Or(r.tick, d.Tick)
	d.ChangeSettings(endpoints(apps...))
	ctx, cancel := context.WithCancel(context.Background())
	stopped := make(chan struct{})
	go func() { defer close(stopped); d.Run(ctx) }()
	synctest.Wait()
	return d, func() { cancel(); <-stopped }
}

// RoundTrip implements http.RoundTripper.
func (r *rig) RoundTrip(request *http.Request) (*http.Response, error) {
	app := request.URL.Host
	r.mu.Lock()
	r.posts = append(r.posts, post{request.Header.Get("Webhook-Id"), app, time.Since(r.began)})
	answer := r.answer[app]
	r.mu.Unlock()
	if answer == nil {
		answer = always(http.StatusOK)
	}
	return answer(request)
}

func (r *rig) setReceiver(app string, f receiver) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answer[app] = f
}

// always returns a receiver that answers with a status, and with pairs of a header's name and
// value.
func always(status int, header ...string) receiver {
	return func(*http.Request) (*http.Response, error) {
		a := &http.Response{StatusCode: status, Header: http.Header{}, Body: http.NoBody}
		for i := 0; i < len(header); i += 2 {
			a.Header.Set(header[i], header[i+1])
		}
		return a, nil
	}
}

// after returns a receiver that answers 200 after wait has returned.
func after(wait func()) receiver {
	return func(r *http.Request) (*http.Response, error) { wait(); return always(http.StatusOK)(r) }
}

// hang accepts the connection and answers nothing.
func hang(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// writeEvent writes an event of an app, as the outbox does.
func (r *rig) writeEvent(app string) uuid.UUID {
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
	if _, err := r.Store.Begin(r.Context(), in); err != nil {
		r.Fatal(err)
	}
	event := store.NewEvent{ID: id, Type: "send.sent"}
	if done, err := r.Store.Finish(r.Context(), store.Outcome{
		AttemptID: store.AttemptID{ID: id, Attempt: 1}, Status: store.Sent,
		Event: event,
	}); err != nil || !done {
		r.Fatal(done, err)
	}
	return id
}

func (r *rig) event(id uuid.UUID) store.AppEvent {
	r.Helper()
	events, err := r.Store.AppEvents(r.Context(), store.AppEventFilter{Limit: 200})
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

func (r *rig) wantState(id uuid.UUID, state store.EventState, attempt int) {
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
