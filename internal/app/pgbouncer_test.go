package app

import (
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"sendcode/internal/parts"
)

// behindPgBouncer is the service on real parts, with a PgBouncer as it comes before its Postgres.
func behindPgBouncer(t *testing.T, settings ...string) *stack {
	t.Helper()
	s := onRealParts(t)
	s.env["SENDCODE_DATABASE_URL"] = parts.PgBouncer(t, s.postgres, settings...).Through(s.postgres.URL())
	return s
}

// The contract of a send, over two replicas: the code of one is checked by the other, both refuse, both count, and what is
// asked at once is let in once.
func TestASendOverTwoReplicasBehindPgBouncer(t *testing.T) {
	t.Parallel()
	s := behindPgBouncer(t).policy(three).start(2)
	a := s.ask(0, ana)
	if a.status != http.StatusAccepted {
		t.Fatalf("%d %s", a.status, a.raw)
	}
	code := s.codeIn(s.awaitMail(ana, 1)[0])
	for i := range 2 {
		if refused := s.ask(i, ana); refused.status != http.StatusTooManyRequests || refused.BlockedBy != "short" {
			t.Errorf("replica %d: %d %s", i, refused.status, refused.raw)
		}
	}
	if c := s.check(1, a.ID, wrong(code)); c.Valid || c.AttemptsRemaining == nil || *c.AttemptsRemaining != 4 {
		t.Errorf("a wrong code: %s", c.raw)
	}
	if c := s.check(1, a.ID, code); !c.Valid {
		t.Errorf("the code: %s", c.raw)
	}
	if c := s.check(0, a.ID, code); c.Valid || c.state() != "approved" {
		t.Errorf("used again: %s", c.raw)
	}
	if n := s.burst(60, "burst@example.com"); n != 1 {
		t.Errorf("%d let in at once", n)
	}
	s.redis.Stop()
	if n := s.burst(60, "alone@example.com"); n != 1 {
		t.Errorf("%d let in at once by the log alone", n)
	}
	s.inTheLog(a.Send.ID)
	s.awaitMail("burst@example.com", 1)
	s.awaitMail("alone@example.com", 1)
}

// Transaction mode is refused at the start, in one sentence that says what to set.
func TestPgBouncerThatDividesSessionsIsRefused(t *testing.T) {
	t.Parallel()
	s := behindPgBouncer(t, "pool_mode = transaction")
	const want = "the pooler in front of Postgres gives a connection to each transaction, and the service needs one for each session: " +
		"set pool_mode = session in PgBouncer for this database, or connect to Postgres itself"
	_, err := New(t.Context(), s.config(), slog.New(slog.NewJSONHandler(io.Discard, nil)))
	if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
		t.Errorf("%v", err)
	}
	var out strings.Builder
	if err := Doctor(t.Context(), s.config(), &out); err == nil || !strings.Contains(out.String(), "✗ database: store: "+want) {
		t.Errorf("the doctor says %v\n%s", err, out.String())
	}
}
