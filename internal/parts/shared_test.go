package parts

import (
	"testing"

	"github.com/jackc/pgx/v5"
)

// Tests share a server and a template, and each database is its own and goes with its test.
func TestSharedPostgres(t *testing.T) {
	var shared SharedPostgres
	t.Cleanup(func() { closed(t, shared.Close()) })
	server := shared.Server(t)
	fills := 0
	urls := map[string]bool{}
	for range 2 {
		t.Run("test", func(t *testing.T) {
			if shared.Server(t) != server {
				t.Error("there are two servers")
			}
			url := shared.Copy(t, "one table", func(url string) { fills++; execAt(t, url, `CREATE TABLE empty_at_first (n int)`) })
			urls[url] = true
			execAt(t, url, `INSERT INTO empty_at_first VALUES (1)`)
			if n := countAt(t, url, `SELECT count(*) FROM empty_at_first`); n != 1 {
				t.Errorf("the copy has %d rows", n)
			}
			urls[server.NewDatabase(t)] = true
		})
	}
	if fills != 1 || len(urls) != 4 {
		t.Errorf("filled %d times, %d databases", fills, len(urls))
	}
	const others = `SELECT count(*) FROM pg_database WHERE datname NOT IN ('postgres', 'template0', 'template1')`
	if n := countAt(t, server.URL(), others); n != 2 {
		t.Errorf("%d databases are left, want the server's own and the template", n)
	}
}

func execAt(t *testing.T, url, statement string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	need(t, err)
	defer conn.Close(t.Context())
	_, err = conn.Exec(t.Context(), statement)
	need(t, err)
}

func countAt(t *testing.T, url, query string) (n int) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	need(t, err)
	defer conn.Close(t.Context())
	need(t, conn.QueryRow(t.Context(), query).Scan(&n))
	return n
}
