package parts

import (
	"testing"

	"github.com/jackc/pgx/v5"
)

func TestPgBouncerStandsBeforePostgres(t *testing.T) {
	postgres := Postgres(t)
	bouncer := PgBouncer(t, postgres, "pool_mode = transaction")
	for _, url := range []string{postgres.URL(), postgres.NewDatabase(t), postgres.AdminURL()} {
		config, err := pgx.ParseConfig(bouncer.Through(url))
		if err != nil {
			t.Fatal(err)
		}
		config.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
		conn, err := pgx.ConnectConfig(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		var port int
		if err := conn.QueryRow(t.Context(), "SELECT inet_server_port()").Scan(&port); err != nil || port != postgres.place.port {
			t.Errorf("port %d, %v", port, err)
		}
		if err := conn.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}
