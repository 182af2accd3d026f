package postgres

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"sendcode/internal/kit/servertest"
	"sendcode/internal/store/storetest"
)

// The pool's parameters in the URL aren't sent to the server, so Migrate works with them, too.
// pool_max_conns bounds only DB.pool. Without it, a replica has at most ConnsPerReplica
// connections.
func TestParametersOfThePool(t *testing.T) {
	for parameters, want := range map[string]int{
		"":                  ConnsPerReplica,
		"&pool_max_conns=1": ConnsPerReplica - otherConns + 1,
		"&pool_max_conns=40&pool_min_conns=1&pool_max_conn_lifetime=30m": ConnsPerReplica - otherConns + 40,
		"&application_name=pool_max_conns":                               ConnsPerReplica,
	} {
		t.Run(parameters, func(t *testing.T) {
			url := newDatabase(t) + parameters
			storetest.OK(t, CheckMayMigrate(url, "another"))
			storetest.OK(t, Migrate(t.Context(), url, ""))
			p := storetest.Must(Open(t.Context(), url, ""))(t)
			defer func() { storetest.OK(t, p.Close()) }()
			most := 0
			for _, pool := range p.pools() {
				most += int(pool.Stat().MaxConns())
			}
			servertest.Same(t, "the most connections", most, want)
			servertest.Same(t, "a ping", p.Ping(t.Context()), nil)
		})
	}
}

// docs/operations.md gives the pools' sizes as the numbers of connections of a replica.
func TestDocumentsKnowTheConnections(t *testing.T) {
	text := storetest.Must(os.ReadFile("../../../docs/operations.md"))(t)
	for sentence, want := range map[string]int{
		"Set `default_pool_size` to %d for each replica": ConnsPerReplica,
		"%d serve sends, checks, looks and":              ConnsPerReplica - otherConns,
		"The other %d serve the console":                 otherConns,
	} {
		sentence = fmt.Sprintf(sentence, want)
		if !strings.Contains(strings.Join(strings.Fields(string(text)), " "), sentence) {
			t.Errorf("operations.md does not say %q", sentence)
		}
	}
}

// OpenConns opens all connections of a replica, and fails if the server accepts fewer.
func TestPostgresOpensAllConnections(t *testing.T) {
	makeAppRole(t)
	address := shared.Server(t).NewDatabase(t)
	storetest.OK(t, Migrate(t.Context(), address, appRole))
	owner := connect(t, withLogin(t, address, "postgres"))
	database := `ALTER DATABASE "` + owner.Config().Database + `" CONNECTION LIMIT `
	exec(t, owner, database+`30`)
	db := openTest(t, withLogin(t, address, appRole), serverClockSQL, appRole)
	storetest.OK(t, db.OpenConns(t.Context()))
	exec(t, owner, database+`24`)
	db = openTest(t, withLogin(t, address, appRole)+"&pool_max_conns=12", serverClockSQL, appRole)
	if err := db.OpenConns(t.Context()); err == nil || !strings.Contains(err.Error(), "of 25 connections: ") ||
		!strings.Contains(err.Error(), "53300") {
		t.Errorf("with few places: %v", err)
	}
}
