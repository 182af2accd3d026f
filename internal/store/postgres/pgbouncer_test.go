//go:build nightly

// Only `make nightly` runs these tests: they need PgBouncer.

package postgres

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"sendcode/internal/kit/servertest"
	"sendcode/internal/store/storetest"
)

// Behind PgBouncer, each connection has the settings as if they were in its startup message, and
// begins as the role.
func TestSettingsBehindPgBouncer(t *testing.T) {
	server := shared.Server(t)
	makeAppRole(t)
	bouncer := servertest.PgBouncer(t, server)
	direct := server.NewDatabase(t)
	through := bouncer.Through(direct) + "&statement_timeout=7s"
	storetest.OK(t, Migrate(t.Context(), through, appRole))
	p := storetest.Must(Open(t.Context(), through, appRole))(t)
	t.Cleanup(func() { storetest.OK(t, p.Close()) })
	for setting, want := range map[string]string{
		"lock_timeout": "1s", "statement_timeout": "7s", "TimeZone": "UTC", "enable_seqscan": "off", "jit": "off",
		"role":               appRole,
		"application_name":   "sendcode",
		"synchronous_commit": "on",
	} {
		for name, pool := range map[string]*pgxpool.Pool{"writers": p.writers, "finishers": p.finishers, "others": p.pool} {
			servertest.Same(t, name+": "+setting, queryValue[string](t, pool, `SELECT current_setting($1)`, setting), want)
		}
	}
}

// If PgBouncer does not reach the server, the errors of Open and Migrate are errors of an
// unreachable server, so that a start tries again.
func TestPgBouncerWithoutAServerIsUnreachable(t *testing.T) {
	t.Parallel()
	server := servertest.Postgres(t)
	through := servertest.PgBouncer(t, server).Through(server.URL())
	server.Stop()
	for range 2 { // the second attempt gets PgBouncer's answer about the first one's failure
		_, opened := Open(t.Context(), through, "")
		for name, err := range map[string]error{"open": opened, "migrate": Migrate(t.Context(), through, "")} {
			if err == nil || !IsUnreachable(err) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

func TestPoolersThatDivideSessionsAreRefused(t *testing.T) {
	t.Parallel()
	server := shared.Server(t)
	direct := newDatabase(t)
	for name, settings := range map[string][]string{
		"transactions":              {"pool_mode = transaction"},
		"transactions, all ignored": {"pool_mode = transaction", "ignore_startup_parameters = extra_float_digits,lock_timeout,role"},
		"transactions, in turn":     {"pool_mode = transaction", "server_round_robin = 1", "min_pool_size = 3"},
		"transactions, one":         {"pool_mode = transaction", "default_pool_size = 1"},
		"statements":                {"pool_mode = statement"},
		"one session":               {"default_pool_size = 1"}, // too few, because the check opens two connections
		"one session, a short wait": {"default_pool_size = 1", "query_wait_timeout = 1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := servertest.PgBouncer(t, server, settings...).Through(direct)
			_, opened := Open(t.Context(), url, "")
			for _, err := range []error{opened, Migrate(t.Context(), url, "")} {
				want := map[bool]string{
					true:  "pool_mode = session",
					false: "default_pool_size in PgBouncer to 17 for each replica",
				}[strings.HasPrefix(settings[0], "pool_mode")]
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("%v", err)
				}
			}
		})
	}
	for _, url := range []string{direct, servertest.PgBouncer(t, server, "server_round_robin = 1", "min_pool_size = 3").Through(direct)} {
		config := storetest.Must(pgx.ParseConfig(url))(t)
		storetest.OK(t, checkServerAt(t.Context(), config))
	}
}
