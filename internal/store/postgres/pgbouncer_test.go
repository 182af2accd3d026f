package postgres

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"sendcode/internal/parts"
	"sendcode/internal/store/storetest"
)

// Behind a PgBouncer as it comes, two replicas keep the contract of what a send passes through.
func TestBehindPgBouncer(t *testing.T) {
	server := shared.Server(t)
	// each case has a database, and with it a pool: those of cases that are over make room
	bouncer := parts.PgBouncer(t, server, "max_user_connections = 100")
	storetest.RunGroups(t, func(t *testing.T) *storetest.Fixture {
		return postgresFixture(t, bouncer.Through(newTestSchema(t)))
	},
		"begin", "flight", "claim")
}

// Each connection has the settings, as if they had been in its startup message, and begins as the role.
func TestSettingsBehindPgBouncer(t *testing.T) {
	server := shared.Server(t)
	makeAppRole(t)
	bouncer := parts.PgBouncer(t, server)
	direct := server.NewDatabase(t)
	through := bouncer.Through(direct) + "&statement_timeout=7s"
	storetest.OK(t, Migrate(t.Context(), through, appRole))
	p := storetest.Must(Open(t.Context(), through, appRole))(t)
	t.Cleanup(func() { storetest.OK(t, p.Close()) })
	for setting, want := range map[string]string{
		"lock_timeout": "1s", "statement_timeout": "7s", "TimeZone": "UTC", "enable_seqscan": "off", "jit": "off", "role": appRole,
		"application_name":   "sendcode",
		"synchronous_commit": "on",
	} {
		for name, pool := range map[string]*pgxpool.Pool{"writers": p.writers, "others": p.pool} {
			got := one[string](t, pool, `SELECT current_setting($1)`, setting)
			if got != want {
				t.Errorf("%s: %s is %s, want %s", name, setting, got, want)
			}
		}
	}
}

func TestPoolersThatDivideSessionsAreRefused(t *testing.T) {
	server := shared.Server(t)
	direct := newDatabase(t)
	for name, settings := range map[string][]string{
		"transactions":              {"pool_mode = transaction"},
		"transactions, all ignored": {"pool_mode = transaction", "ignore_startup_parameters = extra_float_digits,lock_timeout,role"},
		"transactions, in turn":     {"pool_mode = transaction", "server_round_robin = 1", "min_pool_size = 3"},
		"transactions, one":         {"pool_mode = transaction", "default_pool_size = 1"},
		"statements":                {"pool_mode = statement"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := parts.PgBouncer(t, server, settings...).Through(direct)
			_, opened := Open(t.Context(), url, "")
			for _, err := range []error{opened, Migrate(t.Context(), url, "")} {
				if err == nil || !strings.Contains(err.Error(), "pool_mode = session") {
					t.Errorf("%v", err)
				}
			}
		})
	}
	for _, url := range []string{direct, parts.PgBouncer(t, server, "server_round_robin = 1", "min_pool_size = 3").Through(direct)} {
		config := storetest.Must(pgx.ParseConfig(url))(t)
		storetest.OK(t, checkSessions(t.Context(), config))
	}
}

// A session for each of two connections is the least.
func TestAPoolerWithOneConnectionIsRefused(t *testing.T) {
	server := shared.Server(t)
	url := parts.PgBouncer(t, server, "default_pool_size = 1").Through(server.NewDatabase(t))
	if err := Migrate(t.Context(), url, ""); err == nil || !strings.Contains(err.Error(), "default_pool_size") {
		t.Errorf("%v", err)
	}
}
