//go:build nightly

package operators

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"sendcode/internal/codes/keys"
	"sendcode/internal/kit/servertest"
	"sendcode/internal/run/app/apptest"
)

var rekeyRows = flag.Int("rekey", 5000, "addresses that sendcode rekey encrypts again")

const (
	oldKey = "k1:q83vEjRWeJCrze8SNFZ4kLD3QZxs0lr2uTnVYQ1bXoM="
	newKey = "k2:KsX548KrTLEYf3plsNe9tow4CUSACpuzYDGYoWlrspU="
)

// conn is an operator's connection to the database.
type conn struct {
	*pgx.Conn
	s *apptest.Stack
}

// connect connects to a database until the test ends.
func connect(s *apptest.Stack, url string) conn {
	s.Helper()
	c, err := pgx.Connect(s.Context(), url)
	apptest.Must(s.T, err)
	s.Cleanup(func() { _ = c.Close(context.Background()) })
	return conn{c, s}
}

func (c conn) exec(statement string, args ...any) {
	c.s.Helper()
	_, err := c.Exec(c.s.Context(), statement, args...)
	apptest.Must(c.s.T, err)
}

func ringOf(t *testing.T, value string) *keys.Ring {
	t.Helper()
	ring, err := keys.Parse(value)
	apptest.Must(t, err)
	return ring
}

// sealedRow is the key of a row and its sealed data.
type sealedRow struct {
	table, key string
	sealed     []byte
}

// Rekey is killed three times in the middle of a batch, while codes are sent. Every row can still
// be read, and the next call goes on.
func TestRekeyIsKilledWhileCodesAreSent(t *testing.T) {
	t.Parallel()
	s := apptest.OnRealParts(t)
	url := s.Env["SENDCODE_DATABASE_URL"]
	s.Env["SENDCODE_DATABASE_URL"] += "&pool_max_conns=2" // for serve, rekey and the doctor
	owner := connect(s, url)
	old := ringOf(t, oldKey)
	seal := func(label, text, about string) []byte {
		sealed, err := old.Seal(label, []byte(text), []byte(about))
		apptest.Must(t, err)
		return sealed
	}
	n := 0
	_, err := owner.CopyFrom(s.Context(), pgx.Identifier{"verifications"},
		[]string{
			"created_at", "expires_at", "max_attempts", "sends", "code_length",
			"id", "app", "channel", "purpose", "recipient", "masked", "sealed", "holder", "nonce", "key_id", "alphabet",
			"locale", "reference",
		},
		pgx.CopyFromFunc(func() ([]any, error) {
			if n++; n > *rekeyRows {
				return nil, nil
			}
			at, id := time.Now().Add(-time.Hour), fmt.Sprintf("000row%07d", n)
			return []any{
				at, at, 5, 1, 6, id, "default", "email", "login", make([]byte, 16), "a•••@example.com",
				seal(keys.RecipientLabel, "to "+id, id),
				"", []byte("nonce"), "k1", "digits", "en", "",
			}, nil
		}))
	apptest.Must(t, err)
	owner.exec(`UPDATE verifications SET sealed = NULL WHERE id = '000row0000001'`) // as an erasure does
	owner.exec(`INSERT INTO second_factors (account, sealed, step, created_at) VALUES ('mei', $1, 0, now())`,
		seal("second factor", "to mei", "mei"))
	owner.exec(`INSERT INTO outbox (id, due_at, attempt, queued, channel, stranger, expires_at, sealed)
VALUES ('01890000-0000-7000-8000-000000000007', now() + interval '9 hours', 1, true, 'email', false, now() + interval '9 hours', $1)`,
		seal(keys.CallerCodeLabel, "to 01890000-0000-7000-8000-000000000007", "01890000-0000-7000-8000-000000000007"))

	// everyRow reads every row with the keys of a ring, and returns how many are under k2.
	everyRow := func(ring *keys.Ring) (fresh int) {
		t.Helper()
		rows, err := owner.Query(s.Context(),
			`SELECT 'recipient', id, sealed FROM verifications WHERE id LIKE '000row%' AND sealed IS NOT NULL
UNION ALL SELECT 'second factor', account, sealed FROM second_factors
UNION ALL SELECT '`+strings.ReplaceAll(keys.CallerCodeLabel, "'", "''")+`', id::text, sealed FROM outbox WHERE sealed IS NOT NULL`)
		apptest.Must(t, err)
		list, err := pgx.CollectRows(rows,
			func(r pgx.CollectableRow) (x sealedRow, err error) { return x, r.Scan(&x.table, &x.key, &x.sealed) })
		apptest.Must(t, err)
		if len(list) != *rekeyRows+1 {
			t.Fatalf("%d rows, want %d", len(list), *rekeyRows+1)
		}
		for _, r := range list {
			if text, err := ring.Open(r.table, r.sealed, []byte(r.key)); err != nil || string(text) != "to "+r.key {
				t.Fatalf("%s of %s can't be read: %v", r.table, r.key, err)
			}
			if keys.SealedBy(r.sealed) == "k2" {
				fresh++
			}
		}
		return fresh
	}
	s.Env["SENDCODE_SECRET_KEYS"] = newKey + "," + oldKey
	both := ringOf(t, s.Env["SENDCODE_SECRET_KEYS"])
	s.Start(1)
	sent, stop, done := 0, make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for ; ; sent++ {
			select {
			case <-stop:
				return
			default:
				s.Post("/v1/verifications", fmt.Sprintf(`{"channel":"email","to":"r%d@example.com","trust":"known"}`, sent))
			}
		}
	}()
	// A trigger makes the database stop at one row of a batch, so that the kill comes in the middle
	// of the batch.
	owner.exec(`CREATE FUNCTION stop_here() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN IF OLD.id = (SELECT id FROM stop_at) THEN PERFORM pg_sleep(60); END IF; RETURN NEW; END $$`)
	owner.exec(`CREATE TABLE stop_at AS SELECT '' AS id`)
	owner.exec(`CREATE TRIGGER stop_here BEFORE UPDATE OF sealed ON verifications FOR EACH ROW EXECUTE FUNCTION stop_here()`)
	before := 0
	for part := range 3 {
		at := fmt.Sprintf("000row%07d", *rekeyRows*(2*part+1)/6+7)
		owner.exec(`UPDATE stop_at SET id = $1`, at)
		cmd := s.Program("rekey")
		cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
		apptest.Must(t, cmd.Start())
		var pid int
		s.Await("rekey to be in the middle of a batch", func() bool {
			const sleeping = `SELECT pid FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND datname = current_database()`
			return owner.QueryRow(s.Context(), sleeping).Scan(&pid) == nil
		})
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		owner.exec(`SELECT pg_terminate_backend($1, 60000)`, pid) // waits until the process has ended, so that the next round does not find it
		fresh := everyRow(both)
		if fresh <= before || fresh >= *rekeyRows {
			t.Errorf("%d rows are under the new key after kill %d, and were %d before", fresh, part, before)
		}
		before = fresh
	}
	owner.exec(`UPDATE stop_at SET id = ''`)

	// Rekey leaves a row that another transaction has locked, and reports that.
	other := connect(s, url)
	other.exec(`SET idle_in_transaction_session_timeout = 0`)
	other.exec(`BEGIN`)
	other.exec(`SELECT FROM verifications WHERE id = $1 FOR UPDATE`, fmt.Sprintf("000row%07d", *rekeyRows))
	began := time.Now()
	if said, err := s.Program("rekey").CombinedOutput(); err == nil || !strings.Contains(string(said), "rows under other keys remain: k1 1;") {
		t.Errorf("with a locked row: %v, %s", err, said)
	}
	t.Logf("%d rows, %d sends meanwhile, the last %d in %v", *rekeyRows, sent, *rekeyRows-before, time.Since(began).Round(time.Millisecond))
	few := *rekeyRows <= 100_000 // so few that the doctor can count them in time
	if said, _ := runDoctor(s); few && (!strings.Contains(said, "first key k2: k1 1, k2 ") ||
		!strings.Contains(said, "! keys: k1 is needed until")) {
		t.Errorf("the doctor says %s", said)
	}
	other.exec(`ROLLBACK`)
	if said, err := s.Program("rekey").CombinedOutput(); err != nil || !strings.Contains(string(said), "1 rows re-encrypted; ") {
		t.Errorf("at last: %v, %s", err, said)
	}
	close(stop)
	<-done
	if sent == 0 {
		t.Error("no code was sent meanwhile")
	}
	servertest.Same(t, "rows under the new key", everyRow(ringOf(t, newKey)), *rekeyRows+1)
	s.Env["SENDCODE_SECRET_KEYS"] = "k3:" + strings.TrimPrefix(oldKey, "k1:")
	if said, _ := runDoctor(s); !strings.Contains(said, `rows can't be read: key "k2" is not in SENDCODE_SECRET_KEYS`) {
		t.Errorf("without the key, the doctor says %s", said)
	}
}
