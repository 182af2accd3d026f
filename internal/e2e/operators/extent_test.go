package operators

import (
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"sendcode/internal/app/apptest"
	"sendcode/internal/app/doctor"
)

// How far the database reaches is seen in metrics and by requests; without room for now the service
// is not ready.
func TestExtentIsTold(t *testing.T) {
	t.Parallel()
	s := apptest.OnRealParts(t)
	s.Start(1)
	s.Ask(0, "ana@example.com")
	for name, want := range map[string]string{"sendcode_database_weeks_ahead": "",
		"sendcode_database_oldest_timestamp_seconds": "", "sendcode_retention_due_rows": "0",
		"sendcode_erasures_due": "0"} {
		s.Await(name+" "+want, func() bool {
			got := s.Metric(0, name+" ")
			return got != "" && (want == "" || got == want)
		})
	}
	ask := func() string {
		var out strings.Builder
		_ = doctor.Examine(s.Context(), s.Config(), &out)
		return out.String()
	}
	// of weeks: from that of 32 days ago to the fourth after this
	weeks := regexp.MustCompile(`its schema fits: (9|10) partitions, until `)
	if said := ask(); !weeks.MatchString(said) ||
		!strings.Contains(said, "; the oldest row is of "+time.Now().UTC().Format("2006-")) ||
		strings.Contains(said, "! partitions") {
		t.Errorf("the doctor says %s", said)
	}
	owner, err := pgx.Connect(s.Context(), s.Env["SENDCODE_DATABASE_URL"])
	apptest.Must(t, err)
	defer owner.Close(s.Context())
	rows, err := owner.Query(s.Context(), `SELECT 'DROP TABLE ' || name FROM sendcode_partitions`)
	apptest.Must(t, err)
	drops, err := pgx.CollectRows(rows, pgx.RowTo[string])
	apptest.Must(t, err)
	for _, drop := range drops[1:] {
		_, err := owner.Exec(s.Context(), drop)
		apptest.Must(t, err)
	}
	if said := ask(); !strings.Contains(said, "! partitions: rows can be written until ") {
		t.Errorf("the doctor says %s", said)
	}
	_, err = owner.Exec(s.Context(), drops[0])
	apptest.Must(t, err)
	s.AwaitReady(0, http.StatusOK, "degraded: database_no_partition: The database has no partition for the present time.")
}
