package faults

import (
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"sendcode/internal/app"
	"sendcode/internal/app/apptest"
	"sendcode/internal/app/doctor"
	"sendcode/internal/parts"
)

// behindPgBouncer is the service on real parts, with a PgBouncer as it comes before its Postgres.
func behindPgBouncer(t *testing.T, settings ...string) *apptest.Stack {
	t.Helper()
	s := apptest.OnRealParts(t)
	s.Env["SENDCODE_DATABASE_URL"] = parts.PgBouncer(t, s.Postgres, settings...).Through(s.Postgres.URL())
	return s
}

// The contract of a send, over two replicas: the code of one is checked by the other, both refuse, both count, and what is
// asked at once is let in once.
func TestASendOverTwoReplicasBehindPgBouncer(t *testing.T) {
	t.Parallel()
	s := behindPgBouncer(t).Policy(three).Start(2)
	a := s.Ask(0, apptest.Ana)
	if a.StatusCode != http.StatusAccepted {
		t.Fatalf("%d %s", a.StatusCode, a.Raw)
	}
	code := s.CodeIn(s.AwaitMail(apptest.Ana, 1)[0])
	for i := range 2 {
		if refused := s.Ask(i, apptest.Ana); refused.StatusCode != http.StatusTooManyRequests || refused.BlockedBy != "short" {
			t.Errorf("replica %d: %d %s", i, refused.StatusCode, refused.Raw)
		}
	}
	if c := s.Check(1, a.ID, apptest.Wrong(code)); c.Valid || c.AttemptsRemaining == nil || *c.AttemptsRemaining != 4 {
		t.Errorf("a wrong code: %s", c.Raw)
	}
	if c := s.Check(1, a.ID, code); !c.Valid {
		t.Errorf("the code: %s", c.Raw)
	}
	if c := s.Check(0, a.ID, code); c.Valid || c.State() != "approved" {
		t.Errorf("used again: %s", c.Raw)
	}
	if n := s.Burst(60, "burst@example.com"); n != 1 {
		t.Errorf("%d let in at once", n)
	}
	s.Redis.Stop()
	if n := s.Burst(60, "alone@example.com"); n != 1 {
		t.Errorf("%d let in at once by the log alone", n)
	}
	s.InTheLog(a.Send.ID)
	s.AwaitMail("burst@example.com", 1)
	s.AwaitMail("alone@example.com", 1)
}

// Transaction mode is refused at the start, in one sentence that says what to set.
func TestPgBouncerThatDividesSessionsIsRefused(t *testing.T) {
	t.Parallel()
	s := behindPgBouncer(t, "pool_mode = transaction")
	const want = "the pooler in front of Postgres gives a connection to each transaction, and the service needs one for each session: " +
		"set pool_mode = session in PgBouncer for this database, or connect to Postgres itself"
	_, err := app.New(t.Context(), s.Config(), slog.New(slog.NewJSONHandler(io.Discard, nil)))
	if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
		t.Errorf("%v", err)
	}
	var out strings.Builder
	if err := doctor.Examine(t.Context(), s.Config(), &out); err == nil || !strings.Contains(out.String(), "✗ database: store: "+want) {
		t.Errorf("the doctor says %v\n%s", err, out.String())
	}
}
