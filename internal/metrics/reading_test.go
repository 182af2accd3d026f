package metrics

import (
	"context"
	"errors"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"sendcode/internal/recipient"
	"sendcode/internal/servertest"
	"sendcode/internal/store"
)

// A scrape does not wait for a database that hangs; what it has read is shown for a while, and shown no more when reading fails. One that
// takes long is asked seldom.
func TestReading(t *testing.T) {
	servertest.Bubble(t, func(t *testing.T) {
		asked, hangs, takes := 0, make(chan struct{}), time.Duration(0)
		var fails error
		r := reading[int]{ask: func(ctx context.Context) (int, error) {
			asked++
			time.Sleep(takes)
			<-hangs
			return asked, fails
		}}
		began := time.Now()
		_, ok := r.get()
		_, again := r.get()
		if ok || again || asked != 1 || time.Since(began) != 2*readWait {
			t.Fatalf("%v, %v after %v, asked %d times", ok, again, time.Since(began), asked)
		}
		close(hangs)
		for _, c := range []struct {
			after, takes time.Duration
			fails        error
			want         int
			ok           bool
		}{
			{0, 0, nil, 1, true}, {2*readShare*readWait - 1, 0, nil, 1, true}, {1, 0, nil, 2, true}, {readEvery - 1, 0, nil, 2, true},
			{1, 0, errors.New("away"), 3, false}, {readEvery, time.Second, nil, 4, false}, {time.Second, 0, nil, 4, true},
			{readShare*time.Second - time.Second, 0, nil, 4, true}, {time.Second, 2 * readValid, nil, 4, true}, {readValid - readWait, 0, nil, 0, false},
		} {
			time.Sleep(c.after)
			takes, fails = c.takes, c.fails
			if got, ok := r.get(); ok != c.ok || ok && got != c.want {
				t.Errorf("%+v: %d, %v", c, got, ok)
			}
		}
		time.Sleep(2 * readValid) // until the last reading ends
	})
}

// What is not known is not shown: a backlog of a database that does not answer is no backlog of 0.
func TestBacklogIsShownByChannel(t *testing.T) {
	for _, away := range []error{nil, errors.New("away")} {
		m := New()
		m.RegisterBacklog(func(context.Context) (map[recipient.Channel]store.Backlog, error) {
			return map[recipient.Channel]store.Backlog{recipient.Email: {Sends: 7, Age: 90 * time.Second}}, away
		})
		w := httptest.NewRecorder()
		m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
		for _, line := range []string{
			`sendcode_outbox_sends{channel="email"} 7`, `sendcode_outbox_oldest_seconds{channel="email"} 90`,
			`sendcode_outbox_sends{channel="sms"} 0`, `sendcode_outbox_oldest_seconds{channel="sms"} 0`,
		} {
			if strings.Contains(w.Body.String(), line+"\n") != (away == nil) {
				t.Errorf("%v: %s in %s", away, line, w.Body)
			}
		}
	}
}
