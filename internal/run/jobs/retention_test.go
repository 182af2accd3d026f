package jobs_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"sendcode/internal/base/fault"
	"sendcode/internal/run/jobs"
	"sendcode/internal/store"
	"sendcode/internal/store/sqlite/sqlitetest"
	vtest "sendcode/internal/verify/verification/verificationtest"
)

// keepFor sets the retention. The tick and the lease are long, since the tests last for days.
func keepFor(d time.Duration) func(*vtest.Settings) {
	return func(s *vtest.Settings) { s.Retention, s.Tick, s.Lease = d, 5*time.Minute, time.Hour }
}

const twoDays = 2 * 24 * time.Hour

func TestRetentionDeletesOldRows(t *testing.T) {
	vtest.InBubbleWith(t, keepFor(twoDays), func(r *vtest.Rig) {
		old := r.SendTo(vtest.Ana)
		r.Sleep(time.Minute)
		r.SendTo("bob@example.com")
		r.Sleep(twoDays)
		r.SendTo("eve@example.com") // its row is younger than the retention
		r.Sleep(store.MaxCodeLife + jobs.RetentionEvery + 5*time.Minute)
		r.Want("rows that are left", len(r.Rows()), 1)
		if _, _, _, err := r.Store.Verification(r.Context(), old.View.ID); err == nil {
			t.Error("its verification is left")
		}
		if !strings.Contains(r.Printed.String(), "expired rows deleted") {
			t.Error("there is no alarm")
		}
	})
}

func TestRetentionKeepsRowsForEver(t *testing.T) {
	vtest.InBubbleWith(t, vtest.DayTick(keepFor(0)), func(r *vtest.Rig) {
		r.SendTo(vtest.Ana)
		r.Sleep(105 * 24 * time.Hour) // longer than the default retention
		r.Want("rows that are left", len(r.Rows()), 1)
	})
}

// One run of the job deletes only some of the old rows, and the next tick continues. After a
// failure of the database, the job tries again later.
func TestRetentionDeletesAFewRowsAtATime(t *testing.T) {
	vtest.InBubbleWith(t, keepFor(twoDays), func(r *vtest.Rig) {
		r.FailStore(sqlitetest.Down, "DeleteAged")
		r.SendMany(0, jobs.RetentionRowsPerRun+100)
		r.Sleep(twoDays + store.MaxCodeLife + 10*time.Minute)
		r.EndStoreFaults()
		r.Sleep(jobs.RetentionEvery)
		var left []int
		for range 3 {
			some, err := r.Store.Sends(r.Context(), store.Filter{Limit: 200})
			r.NoError(err)
			left = append(left, len(some))
			r.Sleep(5 * time.Minute)
		}
		if left[0] == 0 || left[2] != 0 {
			t.Errorf("%v are left, tick after tick", left)
		}
	})
}

// scarcePartitions is a database that has few partitions ahead, or whose EnsurePartitions fails.
type scarcePartitions struct {
	*sqlitetest.DB
	mu    sync.Mutex
	until time.Time
	err   error
	calls int
}

func (sp *scarcePartitions) EnsurePartitions(context.Context) (time.Time, error) {
	sp.mu.Lock()
	defer sp.mu.Unlock()
	sp.calls++
	return sp.until, sp.err
}

// setResult sets the result of EnsurePartitions. It returns how often EnsurePartitions was called
// since the last call of setResult.
func (sp *scarcePartitions) setResult(until time.Time, err error) (calls int) {
	sp.mu.Lock()
	defer sp.mu.Unlock()
	calls, sp.calls, sp.until, sp.err = sp.calls, 0, until, err
	return calls
}

// If there are too few partitions ahead, or if EnsurePartitions fails, an alarm is logged
// repeatedly, but not at every tick. With enough partitions the database is not asked at every
// tick.
func TestRetentionWarnsOfFewPartitions(t *testing.T) {
	vtest.InBubbleIdle(t, func(s *vtest.Settings) { s.Tick = 5 * time.Second }, func(r *vtest.Rig) {
		db := &scarcePartitions{DB: sqlitetest.Open(r.T, time.Now), until: time.Now().AddDate(0, 4, 0)}
		r.Svc = r.ReplicaOn(db, r.MailServer, r.Carrier)
		r.Start()
		alarms := func() int { return strings.Count(r.Printed.String(), "no partition for coming weeks") }
		r.Sleep(time.Hour)
		if n := db.setResult(time.Now().AddDate(0, 0, 14), nil); alarms() != 0 || n < 6 || n > 7 {
			t.Errorf("%d alarms, %d calls", alarms(), n)
		}
		r.Sleep(time.Hour)
		if n, calls := alarms(), db.setResult(time.Time{}, nil); n < 5 || n > 6 || calls < 100 { // the zero time: no partitions are needed
			t.Errorf("%d alarms in an hour, %d calls", n, calls)
		}
		r.Sleep(time.Minute)
		before := alarms()
		r.Sleep(time.Hour)
		db.setResult(time.Time{}, fault.Unavailable)
		r.Sleep(30 * time.Minute)
		if n := alarms(); n < before+2 || n > before+4 {
			t.Errorf("told %d times of an error", n-before)
		}
	})
}

type lifeRecorder struct {
	jobs.Store
	life time.Duration
}

func (l *lifeRecorder) CountHours(_ context.Context, life, _ time.Duration, _ int) (int, error) {
	l.life = life
	return 0, nil
}

// An hour is counted only after the codes of every purpose have ended: the job passes the longest
// life of a code to CountHours.
func TestHoursAreCountedAfterTheirCodes(t *testing.T) {
	r := vtest.NewRig(t, func(s *vtest.Settings) {
		p := s.Purposes["login"]
		p.TTL = store.MaxCodeLife
		s.Purposes["login"] = p
	})
	db := &lifeRecorder{}
	r.Svc.Maintenance.Store = db
	for _, j := range r.Svc.Maintenance.Jobs() {
		if j.Name == "roll-up" {
			_, err := j.Run(t.Context())
			r.NoError(err)
		}
	}
	r.Want("the longest life", db.life, 24*time.Hour)
}
