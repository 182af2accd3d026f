package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"sendcode/internal/base/recipient"
	"sendcode/internal/base/texts"
	"sendcode/internal/deliver/delivery"
	"sendcode/internal/http/server"
	"sendcode/internal/kit/servertest"
	"sendcode/internal/run/config"
	"sendcode/internal/store"
	"sendcode/internal/store/sqldb"
	"sendcode/quota"
)

// fakeDatabase stands for a database and the heartbeats of several replicas, in a bubble of
// testing/synctest.
type fakeDatabase struct {
	err         error         // the result of a ping
	pingTime    time.Duration // how long a ping takes
	pings       atomic.Int32
	commit      *sqldb.CommitTiming
	beat        atomic.Int32
	away        bool // Redis does not answer
	beatExpired bool // the last heartbeat has expired
}

func (d *fakeDatabase) probe() *databaseProbe {
	ping := func(context.Context) error { d.pings.Add(1); time.Sleep(d.pingTime); return d.err }
	return newDatabaseProbe(ping, func() *sqldb.CommitTiming { return d.commit }, d, slog.New(slog.DiscardHandler))
}

func (d *fakeDatabase) Write(context.Context) error { d.beat.Add(1); return nil }
func (d *fakeDatabase) Read(context.Context) (string, error) {
	if d.away {
		return "", errors.New("away")
	}
	if d.beatExpired {
		return noHeartbeat, nil
	}
	return fmt.Sprint(d.beat.Load()), nil
}

// word returns the word of a reason, with a ! if the reason makes the replica unready; "" for none.
func word(r *server.HealthReason) string {
	switch {
	case r == nil:
		return ""
	case r.Unready:
		return r.Word + "!"
	}
	return r.Word
}

// An error that the database server itself reports counts at once. Without an answer, three pings
// must fail.
func TestWhyUnwritable(t *testing.T) {
	servertest.Bubble(t, func(t *testing.T) {
		for _, c := range []struct {
			err  error
			word string
		}{
			{store.ErrNoSpace, "database_full"},
			{store.ErrReadOnly, "database_read_only"},
			{store.ErrSchema, "database_schema!"},
			{store.ErrNoPartition, "database_no_partition"},
			{errors.New("dial /var/run"), "database_away"},
		} {
			d := fakeDatabase{err: c.err}
			p := d.probe()
			for n := 1; n <= missedPingsTillAway; n++ {
				for range 10 {
					want := c.word
					if want == reasonDatabaseAway && n < missedPingsTillAway {
						want = ""
					}
					servertest.Same(t, fmt.Sprint(c.word, " at try ", n), word(p.whyUnwritable(t.Context())), want)
				}
				servertest.Same(t, "pings", int(d.pings.Load()), n)
				time.Sleep(time.Second)
			}
			d.err = nil
			servertest.Same(t, "back", p.whyUnwritable(t.Context()), nil)
		}
	})
}

// Each reason has a word of its own. No reason but the database's repeats the error, since errors
// contain addresses.
func TestReasonsOfOtherParts(t *testing.T) {
	server1, server2 := delivery.Health{Server: "192.0.2.1:25", Why: "dial"}, delivery.Health{Server: "192.0.2.2:25", Up: true}
	dial := errors.New("dial tcp 192.0.2.9:6379: refused")
	waits, none := func() bool { return true }, func() bool { return false }
	for _, c := range []struct {
		reason *server.HealthReason
		word   string
	}{
		{redisReason(nil), ""},
		{redisReason(dial), "redis_away"},
		{redisReason(fmt.Errorf("%w: %w", quota.ErrNotPermitted, dial)), "redis_no_permission"},
		{redisReason(fmt.Errorf("%w: %w", quota.ErrPartly, dial)), "redis_part_away"},
		{redisReason(fmt.Errorf("%w: %w", quota.ErrClusterNode, dial)), "redis_cluster_node"},
		{mailServersReason([]delivery.Health{server2}, 0, waits), ""},
		{mailServersReason([]delivery.Health{server1, server2}, 0, waits), ""},
		{mailServersReason([]delivery.Health{server1, server1}, 0, waits), "mail_servers_suspended"},
		{mailServersReason([]delivery.Health{server1, server1}, 0, none), "mail_servers_suspended"},
		{mailServersReason([]delivery.Health{server1, server1}, 1, waits), "mail_servers_suspended"},
		{mailServersReason([]delivery.Health{server1, server1}, 1, none), ""},
		{carriersReason(false, false, waits), ""},
		{carriersReason(true, true, none), "carriers_suspended"},
		{carriersReason(true, false, waits), "carriers_suspended"},
		{carriersReason(true, false, none), ""},
	} {
		servertest.Same(t, "the word", word(c.reason), c.word)
		if c.reason != nil && strings.Contains(c.reason.Text(texts.ConsoleLanguages()[0]), "192.0.2") {
			t.Errorf("%s tells an address: %s", c.word, c.reason.Text(texts.ConsoleLanguages()[0]))
		}
	}
}

// After five failed attempts in a row, the channel counts as refused until an attempt succeeds or
// ten minutes have passed. Attempts that the service gave up don't count, and neither do failures
// because of a stranger's recipient.
func TestWhyRefusedAfterFiveTries(t *testing.T) {
	servertest.Bubble(t, func(t *testing.T) {
		a := newApp(config.Config{}, slog.New(slog.DiscardHandler), time.Now)
		mails, texts := a.deliveryObserver(recipient.Email), a.deliveryObserver(recipient.SMS)
		refuses := func(want string) {
			t.Helper()
			servertest.Same(t, "mails", word(a.whyRefused(recipient.Email, server.HealthReason{Word: "mails_refused"})), want)
			servertest.Same(t, "texts", word(a.whyRefused(recipient.SMS, server.HealthReason{Word: "texts_refused"})), "")
		}
		for n, class := range []delivery.ErrorClass{
			delivery.Rejected, delivery.Temporary, delivery.Unknown, delivery.Rejected, delivery.Rejected,
		} {
			refuses("")
			mails(t.Context(), "a", &delivery.Error{Class: class}, 0)
			texts(t.Context(), "b", &delivery.Error{Class: delivery.Temporary, About: delivery.AboutUs}, 0)
			texts(t.Context(), "b", &delivery.Error{Class: delivery.Rejected, About: delivery.AboutAddress, Chosen: true}, 0)
			servertest.Same(t, "counted", a.failureRuns[recipient.Email].n, n+1)
		}
		refuses("mails_refused")
		mails(t.Context(), "a", nil, 0)
		refuses("")
		for range 5 {
			mails(t.Context(), "a", &delivery.Error{Class: delivery.Rejected}, 0)
		}
		refuses("mails_refused")
		time.Sleep(10 * time.Minute)
		refuses("")
	})
}

// A database that answers late counts as slow, and the replica stays ready. whyUnwritable takes at
// most slowWriteThreshold.
func TestWhySlowLeavesTheReplicaReady(t *testing.T) {
	servertest.Bubble(t, func(t *testing.T) {
		d := fakeDatabase{pingTime: 1200 * time.Millisecond}
		p := d.probe()
		for range 20 {
			began := time.Now()
			if err := p.whyUnwritable(t.Context()); err != nil || time.Since(began) > slowWriteThreshold {
				t.Errorf("%v after %v", err, time.Since(began))
			}
			time.Sleep(time.Second)
		}
		servertest.Same(t, "a late ping", word(p.whySlow(t.Context())), "database_slow")
		d.pingTime = 0
		for range 3 {
			servertest.Same(t, "a ping", p.whyUnwritable(t.Context()), nil)
			time.Sleep(time.Second)
		}
		servertest.Same(t, "a fast ping", word(p.whySlow(t.Context())), "")
		d.pingTime, d.err = 3*time.Second, errors.New("a table is locked")
		for range 6 { // the first ping waits, then it has failed, then the second one waits
			servertest.Same(t, "a ping that waits", word(p.whyUnwritable(t.Context()))+word(p.whySlow(t.Context())), "database_slow")
			time.Sleep(time.Second)
		}
		d.pingTime, d.err = 0, nil
		time.Sleep(3 * time.Second)
		servertest.Same(t, "the lock is gone", word(p.whyUnwritable(t.Context()))+word(p.whySlow(t.Context())), "")
		time.Sleep(time.Second)
		d.commit = &sqldb.CommitTiming{At: time.Now(), Took: slowWriteThreshold}
		servertest.Same(t, "a late commit", word(p.whyUnwritable(t.Context()))+word(p.whySlow(t.Context())), "database_slow")
	})
}

// If the database answers late once or twice, as under the load of others on its machine, the log
// has no line. If it does so more often, the log has one line at the beginning and one at the end.
func TestSlowDatabaseIsLoggedOnce(t *testing.T) {
	servertest.Bubble(t, func(t *testing.T) {
		var log servertest.Text
		logger := slog.New(slog.NewTextHandler(&log, nil))
		p := newDatabaseProbe(nil, nil, nil, logger)
		a := newApp(config.Config{}, logger, time.Now)
		statements := a.newStatementObserver()
		type counts struct{ slow, fastAgain, statements int }
		for _, step := range []struct {
			late, pause time.Duration
			times       int
			lines       counts
		}{
			{2 * time.Second, 10 * time.Second, 2, counts{0, 0, 0}},
			{0, 0, 1, counts{0, 0, 0}},
			{2 * time.Second, time.Second, 5, counts{1, 0, 1}},
			{0, 0, 2, counts{1, 1, 1}},
		} {
			for range step.times {
				p.recordWrite(nil, step.late)
				statements.Ended(t.Context(), "begin", "begin", step.late)
				time.Sleep(step.pause)
			}
			lines := func(text string) int { return strings.Count(log.String(), text) }
			servertest.Same(t, "lines", counts{lines("database slow"), lines("database fast again"), lines("slow statement")}, step.lines)
		}
	})
}

// For two seconds, a commit proves that the database can be written, but not that its schema fits,
// and not if a ping has found a fault before.
func TestWhyUnwritableAfterACommit(t *testing.T) {
	servertest.Bubble(t, func(t *testing.T) {
		d := fakeDatabase{}
		p := d.probe()
		look := func() string { defer time.Sleep(time.Second); return word(p.whyUnwritable(t.Context())) }
		look()
		for range 8 {
			d.commit = &sqldb.CommitTiming{At: time.Now()}
			look()
		}
		servertest.Same(t, "pings beside commits", int(d.pings.Load()), 1)
		d.err = store.ErrSchema
		for range 6 {
			d.commit = &sqldb.CommitTiming{At: time.Now()}
			look()
		}
		servertest.Same(t, "another schema beside commits", look(), "database_schema!")
		d.err = nil
		servertest.Same(t, "mended", look(), "")
		d.err, d.commit = errors.New("away"), &sqldb.CommitTiming{At: time.Now()}
		for i, want := range []string{"", "", "", "", reasonDatabaseAway} { // the commit counts for two seconds; then three pings fail
			servertest.Same(t, fmt.Sprint("look ", i), look(), want)
		}
	})
}

// A replica becomes unready only if its own writes fail while another replica's writes succeed. It
// stays ready if all replicas lose the database at once, and its own heartbeats don't count.
func TestWhyUnwritableIfOthersCanWrite(t *testing.T) {
	servertest.Bubble(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		d := fakeDatabase{}
		p := d.probe()
		go p.runHeartbeats(ctx)
		pass := func(n int, others bool) string { // lets n seconds pass
			for range n {
				if others {
					d.beat.Add(1)
				}
				time.Sleep(time.Second)
			}
			return word(p.whyUnwritable(t.Context()))
		}
		pass(5, false)
		if n := d.beat.Load(); n < 3 || n > 5 {
			t.Errorf("%d heartbeats in 5 s", n)
		}
		d.err = errors.New("away")
		pass(1, true) // another replica, which loses the database a little later
		servertest.Same(t, "away for all", pass(9, false), "database_away")
		d.beatExpired = true
		servertest.Same(t, "the last heartbeat is over", pass(2, false), "database_away")
		d.beatExpired = false
		beats := d.beat.Load()
		servertest.Same(t, "away here", pass(3, true), "database_away!")
		servertest.Same(t, "heartbeats by one that can't write", d.beat.Load(), beats+3)
		servertest.Same(t, "still away here", pass(30, true), "database_away!")
		servertest.Same(t, "then for all", pass(7, false), "database_away")
		d.away = true
		servertest.Same(t, "Redis away too", pass(7, true), "database_away")
		d.away, d.err = false, nil
		servertest.Same(t, "back", pass(3, true), "")
	})
}

// The estimate of the database's clock is as exact as the delay of the answer allows. It does not
// waver, and follows a step of the clock.
func TestDatabaseClockMeasure(t *testing.T) {
	process := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	ahead, there, back := 11*time.Minute, time.Duration(0), time.Duration(0)
	c := &databaseClock{
		localNow: func() time.Time { return process }, logger: slog.New(slog.DiscardHandler),
		read: func(context.Context) (time.Time, error) {
			process = process.Add(there)
			at := process.Add(ahead)
			process = process.Add(back)
			return at, nil
		},
	}
	measure := func(out, in, want time.Duration) {
		t.Helper()
		there, back = out, in
		servertest.OK(t, c.measure(t.Context()))
		servertest.Same(t, "the database ahead", -c.localAhead(), want)
	}
	measure(time.Second, time.Second, ahead)
	measure(0, 4*time.Second, ahead)
	measure(4*time.Second, 0, ahead)
	servertest.Same(t, "off", c.whyOff(t.Context()).Word, "clock_off")
	ahead = -time.Minute
	measure(time.Second, 0, ahead+time.Second/2)
	measure(0, 0, ahead)
	ahead = -5 * time.Second
	measure(0, 0, ahead)
	if why := c.whyOff(t.Context()); why != nil {
		t.Errorf("5 s off: %v", why)
	}
	c.read = func(context.Context) (time.Time, error) { return time.Time{}, errors.New("away") }
	process = process.Add(time.Minute)
	if err := c.measure(t.Context()); err == nil {
		t.Error("an error is lost")
	}
	servertest.Same(t, "while the database is away", -c.localAhead(), ahead)
}

// The rights that deploy/redis/start.sh gives the Redis user are enough to write and read
// heartbeats.
func TestTheDocumentedRightsAllowHeartbeats(t *testing.T) {
	script, err := os.ReadFile("../../../deploy/redis/start.sh")
	servertest.OK(t, err)
	rights := regexp.MustCompile(`(?m)^user sendcode reset on >\$password (.*)$`).FindStringSubmatch(string(script))
	server := servertest.Redis(t)
	user := []any{"ACL", "SETUSER", "sendcode", "reset", "on", ">secret"}
	for _, right := range strings.Fields(rights[1]) {
		user = append(user, right)
	}
	servertest.OK(t, server.Client(t).Do(t.Context(), user...).Err())
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), Username: "sendcode", Password: "secret"})
	defer client.Close()
	beats := redisHeartbeats{client}
	read := func() string {
		t.Helper()
		beat, err := beats.Read(t.Context())
		servertest.OK(t, err)
		return beat
	}
	servertest.Same(t, "before the first", read(), noHeartbeat)
	admin := server.Client(t)
	var first, second string
	var life time.Duration
	servertest.Await(t, "two heartbeats of which none has expired", func() bool {
		began := time.Now()
		servertest.OK(t, beats.Write(t.Context()))
		first = read()
		servertest.OK(t, beats.Write(t.Context()))
		second = read()
		life = admin.PTTL(t.Context(), heartbeatKey).Val()
		return time.Since(began) < heartbeatLife-time.Second // Redis expires the key at a whole second
	})
	if second == first || second == noHeartbeat || first == noHeartbeat {
		t.Errorf("heartbeats %q, then %q", first, second)
	}
	if life <= 0 || life > heartbeatLife {
		t.Errorf("a heartbeat lives %v", life)
	}
}
