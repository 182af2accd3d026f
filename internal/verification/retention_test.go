package verification

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"sendcode/internal/parts"
	"sendcode/internal/store"
	"sendcode/internal/store/sqlite"
	"sendcode/internal/store/sqlite/sqlitetest"
)

// keepFor sets how long rows are kept, and has the process tick slowly: weeks pass.
func keepFor(d time.Duration) func(*Settings) {
	return func(s *Settings) { s.Retention, s.Tick, s.Lease = d, 5*minute, time.Hour }
}

const fiveWeeks = 35 * 24 * time.Hour

func (r *rig) rowsLeft() int {
	rows, err := r.log.Sends(r.Context(), store.Filter{Limit: 200})
	if err != nil {
		r.Fatal(err)
	}
	return len(rows)
}

func TestOldRowsGoByThemselves(t *testing.T) {
	inBubbleWith(t, keepFor(fiveWeeks), func(r *rig) {
		old := r.send(askFor(ana))
		waited(minute)
		r.send(askFor("bob@example.com"))
		waited(fiveWeeks)
		r.send(askFor("eve@example.com")) // also now, and young
		waited(10*minute + sweepEvery + 5*minute)
		if n := r.rowsLeft(); n != 1 {
			t.Errorf("%d rows are left", n)
		}
		if _, _, _, err := r.log.Verification(r.Context(), old.View.ID); err == nil {
			t.Error("its verification is left")
		}
		if !strings.Contains(r.printed.String(), "rows older than the log keeps them are gone") {
			t.Error("nobody is told")
		}
	})
}

func TestRowsAreKeptForEver(t *testing.T) {
	inBubbleWith(t, keepFor(0), func(r *rig) {
		r.send(askFor(ana))
		waited(3 * fiveWeeks) // longer than rows are kept unless told
		if n := r.rowsLeft(); n != 1 {
			t.Errorf("%d rows are left", n)
		}
	})
}

// Many go a few at a time, tick after tick; a log that is away is asked again later.
func TestManyOldRowsGoAFewAtATime(t *testing.T) {
	inBubbleWith(t, keepFor(fiveWeeks), func(r *rig) {
		r.fail("Expire", sqlite.Down)
		for n := range 2*sweepRows + 7 {
			r.send(askFor(fmt.Sprintf("p%d@example.com", n)))
		}
		waited(fiveWeeks + 20*minute)
		r.log.SetFault(nil)
		waited(sweepEvery)
		for tick := range 5 {
			rows := 0
			if err := r.log.CountedSends(r.Context(), store.LogClock, 2*fiveWeeks, func(store.CountedSend) error { rows++; return nil }); err != nil {
				t.Fatal(err)
			}
			if rows == 0 {
				if tick == 0 {
					t.Error("all at once")
				}
				return
			}
			waited(5 * minute)
		}
		t.Error("they stay")
	})
}

// little is a log that tells of little room for rows to come, or of none.
type little struct {
	*sqlite.DB
	mu    sync.Mutex
	until time.Time
	err   error
	asked int
}

func (l *little) EnsurePartitions(context.Context) (time.Time, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked++
	return l.until, l.err
}

// say sets what it tells, and gives how often it was asked before.
func (l *little) say(until time.Time, err error) (asked int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	asked, l.asked, l.until, l.err = l.asked, 0, until, err
	return asked
}

// Who runs the service is told in time that rows will find no place, again and again but not at every tick; and while all is well
// nobody asks at every tick.
func TestLittleRoomIsTold(t *testing.T) {
	parts.Bubble(t, func(t *testing.T) {
		r := newRig(t, nil)
		log := &little{DB: sqlitetest.Open(r.T, time.Now), until: time.Now().AddDate(0, 4, 0)}
		r.svc = New(r.settings, Parts{
			Limiter: r.limiter, Log: log, Renderer: r.renderer, Sender: r.post, Texts: testTexts(t), Carrier: r.handset, Logger: slog.New(slog.NewTextHandler(r.printed, nil)),
		})
		r.run()
		told := func() int { return strings.Count(r.printed.String(), "the log has little room for rows to come") }
		waited(time.Hour)
		if n := log.say(time.Now().AddDate(0, 2, 0), nil); told() != 0 || n < 6 || n > 7 {
			t.Errorf("told %d times, asked %d times", told(), n)
		}
		waited(time.Hour)
		if n, asked := told(), log.say(time.Time{}, nil); n < 5 || n > 6 || asked < 100 { // for ever
			t.Errorf("told %d times in an hour, asked %d times", n, asked)
		}
		waited(time.Minute)
		before := told()
		waited(time.Hour)
		log.say(time.Time{}, store.ErrUnavailable)
		waited(30 * time.Minute)
		if n := told(); n < before+2 || n > before+4 {
			t.Errorf("told %d times of an error", n-before)
		}
		r.quit()
	})
}
