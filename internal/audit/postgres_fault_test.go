package audit

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"sendcode/internal/parts"
	"sendcode/internal/recipient"
)

// faultFixture is a log on the server's own clock behind a proxy; its replica is connected directly. Locks are waited for as long as
// tests take to look for who waits, not for the second that is the service's, or as long as is given.
func faultFixture(t *testing.T, server *parts.PostgresServer, lockTimeout ...string) (*fixture, *proxy) {
	t.Helper()
	direct := newDatabase(t, server) + "&idle_in_transaction_session_timeout=1min&lock_timeout=" + append(lockTimeout, "1min")[0]
	p, through := newProxy(t, direct)
	f := newFixture(openTest(t, through, serverClock)).beside(openTest(t, direct, serverClock))
	f.admit(t, f.intent(0)) // connected and prepared
	return f, p
}

func (f *fixture) count(t *testing.T) int {
	t.Helper()
	rows, err := f.replica.Sends(t.Context(), Filter{Limit: maxPage})
	ok(t, err)
	return len(rows)
}

func certain(t *testing.T, err error) {
	t.Helper()
	is(t, err, ErrUnavailable)
	if errors.Is(err, ErrUncertain) {
		t.Fatalf("certainly nothing was written, yet %v", err)
	}
}

func TestPostgresLostConnections(t *testing.T) {
	server := parts.Postgres(t)
	for _, c := range []struct {
		name  string
		mode  cut
		times int
		rows  int // of the Begin, afterwards
		ok    bool
		trips int // of Begin
	}{
		{"reply lost, then nobody there", cutReply, 1, 1, false, 1},
		{"request lost once", cutRequest, 1, 1, true, 2},
		{"request lost twice", cutRequest, 2, 0, false, 2},
		{"reply lost once", cutReply, 1, 1, true, 2},
		{"reply lost twice", cutReply, 2, 1, false, 2},
		{"reply to the rows lost once", cutWritten, 1, 1, true, 2},
		{"reply to the rows lost twice", cutWritten, 2, 1, false, 2},
		{"reply to the commit lost once", cutBefore, 1, 1, true, 2},
		{"reply to the commit lost twice", cutBefore, 2, 1, false, 2},
		{"lost after the reply to the commit", cutAfter, 1, 1, true, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f, p := faultFixture(t, server)
			p.arm(c.mode, c.times)
			if !c.ok && c.times == 1 {
				p.leave()
			}
			in := f.intent(1, withRules(rule(1, time.Hour)))
			begun, err := f.Begin(t.Context(), in)
			equal(t, "round trips", p.seen(), c.trips)
			if c.ok {
				ok(t, err)
				equal(t, "admitted", begun.Admitted, true)
				equal(t, "row", f.row(t, in.Send.ID), begun.Send)
			} else {
				is(t, err, ErrUnavailable)
				is(t, err, ErrUncertain)
			}
			equal(t, "rows", f.count(t), 1+c.rows)
			p.arm(cutNever, 0)
			// It goes on, and what was written is there to be found.
			equal(t, "repeated", f.begin(t, in).Admitted, true)
			f.refuse(t, f.intent(1, withRules(rule(1, time.Hour))))
			equal(t, "rows", f.count(t), 2)
		})
	}
}

// What reads is repeated. What writes is not, and says that it does not know.
func TestPostgresLostReadsAndWrites(t *testing.T) {
	f, p := faultFixture(t, parts.Postgres(t))
	begun := f.admit(t, f.intent(1))
	held := Held{begun.Send.ID, 1}
	for name, call := range map[string]func() error{
		"Sends":        func() error { _, err := f.Sends(t.Context(), Filter{Limit: 1}); return err },
		"Verification": func() error { _, _, _, err := f.Verification(t.Context(), begun.Verification.ID); return err },
		"Ping":         func() error { return f.Ping(t.Context()) },
		"Counting": func() error {
			return f.Counting(t.Context(), "", time.Hour, func(Counting) error { return nil })
		},
	} {
		p.arm(cutAny, 1)
		if err := call(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		equal(t, name+": cut", p.seen() > 0, true)
		p.arm(cutNever, 0)
	}
	for name, call := range map[string]func() error{
		"Finish":          func() error { _, err := f.Finish(t.Context(), Outcome{Held: held, Status: Sent}); return err },
		"Attempt":         func() error { _, _, _, err := f.Attempt(t.Context(), begun.Verification.ID); return err },
		"Cancel":          func() error { _, err := f.Cancel(t.Context(), begun.Verification.ID); return err },
		"Approve":         func() error { _, err := f.Approve(t.Context(), begun.Verification.ID, Tell{}); return err },
		"ForgetAppEvents": func() error { _, _, err := f.ForgetAppEvents(t.Context(), time.Second, 1); return err },
		"then TakeOver":   func() error { _, err := f.TakeOver(t.Context(), recipient.Email, time.Second, 1); return err },
		"then Refused":    func() error { return f.Refused(t.Context(), []Send{f.refusal(1, nil)}) },
	} {
		var err error
		for range 5 { // the pool opens connections by itself, and one of those may be the one that is cut
			ok(t, f.Ping(t.Context())) // a connection is there, so it is not opening one that fails
			p.arm(cutAny, 1)
			if strings.HasPrefix(name, "then ") { // it asks for the time first, which is repeated
				p.after(1)
			}
			err = call()
			p.arm(cutNever, 0)
			if err != nil {
				break
			}
		}
		if !errors.Is(err, ErrUnavailable) || !errors.Is(err, ErrUncertain) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// eventually awaits a condition of a server that tells nobody.
func eventually(t *testing.T, condition func() bool) {
	t.Helper()
	poll := time.NewTicker(2 * time.Millisecond)
	defer poll.Stop()
	for deadline := time.After(time.Minute); !condition(); {
		select {
		case <-poll.C:
		case <-deadline:
			t.Fatal("it does not come")
		}
	}
}

// What only the database finds wrong with one intent is that intent's alone, and certain.
func TestPostgresOnePoisonedIntent(t *testing.T) {
	f, _ := faultFixture(t, parts.Postgres(t))
	log := f.db.(*Postgres)
	taken := f.admit(t, f.intent(1)).Verification.ID
	var batch []*call
	for n := range 5 {
		in := f.intent(2 + n)
		if n == 3 {
			in.Verification.ID = taken
		}
		batch = append(batch, called(t, in))
	}
	log.decide(batch)
	for n, x := range batch {
		if n == 3 {
			certain(t, x.err)
			continue
		}
		ok(t, x.err)
	}
	equal(t, "rows", f.count(t), 6)
}

func TestPostgresRestart(t *testing.T) {
	server := parts.Postgres(t)
	url := newDatabase(t, server)
	f := newFixture(openTest(t, url, serverClock))
	f.beside(f.db)
	for round := range 3 {
		begun := f.admit(t, f.intent(round))
		together(10, func(int) { _, _ = f.Sends(t.Context(), Filter{Limit: 1}) }) // fills the pool with connections
		ok(t, server.Restart())
		switch round {
		case 0:
			f.admit(t, f.intent(100+round))
		case 1:
			f.count(t)
		case 2: // not repeated where it might count twice; the pool looks before it lends a connection
			_, counted, _, err := f.Attempt(t.Context(), begun.Verification.ID)
			ok(t, err)
			equal(t, "counted", counted, true)
		}
	}

	server.Stop()
	_, err := f.Begin(t.Context(), f.intent(200))
	certain(t, err)
	_, err = f.Finish(t.Context(), Outcome{Status: Sent})
	certain(t, err)
	_, err = f.Sends(t.Context(), Filter{Limit: 1})
	certain(t, err)
	certain(t, f.Ping(t.Context()))
	ok(t, server.Start())
	ok(t, f.Ping(t.Context()))
	f.admit(t, f.intent(201))
	equal(t, "rows", f.count(t), 5)
}

// A server that answers nothing any more: callers hear of it in time, and do not know.
func TestPostgresHangs(t *testing.T) {
	server := parts.Postgres(t)
	f, _ := faultFixture(t, server)
	in := f.intent(1)
	release := hold(t, f.other.(*Postgres), in)
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error)
	go func() { _, err := f.Begin(ctx, in); result <- err }()
	eventually(t, func() bool {
		var waiting bool
		ok(t, f.other.(*Postgres).pool.QueryRow(t.Context(), `SELECT count(*) > 0 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted`).Scan(&waiting))
		return waiting
	})
	behind := f.intent(1)
	second, leave := context.WithCancel(t.Context())
	waiting := make(chan error)
	go func() { _, err := f.Begin(second, behind); waiting <- err }()
	leave()
	certain(t, <-waiting) // never left the queue, for its recipient was under way
	cancel()
	err := <-result
	is(t, err, ErrUnavailable)
	is(t, err, ErrUncertain)
	release()
	eventually(t, func() bool { return f.count(t) == 2 }) // the write went on
	equal(t, "repeated", f.begin(t, in).Send.Number, 1)
}

// After a failover the old primary only reads. It is left for whatever the URL leads to now.
func TestPostgresReadOnly(t *testing.T) {
	server := parts.Postgres(t)
	address := newDatabase(t, server)
	f := newFixture(openTest(t, address, serverClock))
	f.beside(f.db)
	f.admit(t, f.intent(1))
	u, err := url.Parse(address)
	ok(t, err)
	admin, err := pgx.Connect(t.Context(), server.AdminURL())
	ok(t, err)
	defer admin.Close(context.Background())
	demote := func(value string) {
		_, err := admin.Exec(t.Context(), fmt.Sprintf(`ALTER DATABASE %s SET default_transaction_read_only = %s`, u.Path[1:], value))
		ok(t, err)
	}
	demote("on")
	name := u.Path[1:]
	eventually(t, func() bool { // nobody is left who was connected before
		var others int
		ok(t, admin.QueryRow(t.Context(), `SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = $1 AND pid <> pg_backend_pid()`, name).Scan(&others))
		return others == 0
	})
	_, err = f.Begin(t.Context(), f.intent(2))
	certain(t, err)
	_, err = f.Approve(t.Context(), "x", Tell{})
	certain(t, err)
	certain(t, f.Ping(t.Context()))
	f.count(t)
	demote("off")
	// No connection that met the refusal was kept; that of the readers, which met none, is replaced at once.
	f.admit(t, f.intent(3))
	eventually(t, func() bool { _, err := f.Approve(t.Context(), "x", Tell{}); return err == nil })
	ok(t, f.Ping(t.Context()))
}

func TestPostgresIsDurable(t *testing.T) {
	server := parts.Postgres(t)
	address := newDatabase(t, server)
	u, err := url.Parse(address)
	ok(t, err)
	admin, err := pgx.Connect(t.Context(), server.AdminURL())
	ok(t, err)
	defer admin.Close(context.Background())
	for setting, want := range map[string]string{"off": "on", "local": "local"} {
		_, err = admin.Exec(t.Context(), fmt.Sprintf(`ALTER DATABASE %s SET synchronous_commit = %s`, u.Path[1:], setting))
		ok(t, err)
		log := openTest(t, address, serverClock)
		for _, pool := range []*pgxpool.Pool{log.writers, log.pool} {
			var got string
			ok(t, pool.QueryRow(t.Context(), `SHOW synchronous_commit`).Scan(&got))
			equal(t, "synchronous_commit with a default of "+setting, got, want)
		}
	}
}
