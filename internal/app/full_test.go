package app

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"sendcode/internal/parts"
)

// fullDisk has the service in front of a database that has little room, and fills its disk.
type fullDisk struct {
	*stack
	disk *parts.Disk
}

// onASmallDisk is SQLite, with its keys, on a disk of its own.
func onASmallDisk(t *testing.T) fullDisk {
	t.Helper()
	disk := parts.SmallDisk(t, 12<<20)
	s := embedded(t)
	s.env["SENDCODE_DATA_DIR"] = filepath.Join(disk.Dir, "data")
	return fullDisk{s, disk}
}

// onASmallTablespace is Postgres with the service's tables on a disk of their own.
func onASmallTablespace(t *testing.T) fullDisk {
	t.Helper()
	disk := parts.SmallDisk(t, 32<<20)
	s := onRealParts(t)
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	space := filepath.Join(disk.Dir, "space")
	check(s.postgres.GiveTo(space))
	u, err := url.Parse(s.postgres.URL())
	check(err)
	admin, err := pgx.Connect(t.Context(), s.postgres.AdminURL())
	check(err)
	defer admin.Close(context.Background())
	for _, statement := range []string{
		`CREATE TABLESPACE small LOCATION '` + space + `'`, `GRANT CREATE ON TABLESPACE small TO PUBLIC`,
		`ALTER DATABASE ` + pgx.Identifier{u.Path[1:]}.Sanitize() + ` SET default_tablespace = small`,
	} {
		_, err := admin.Exec(t.Context(), statement)
		check(err)
	}
	return fullDisk{s, disk}
}

// The disk is full: sends are refused as unavailable, and the service says that it is not ready, and why. There is room again: it
// is ready, and each recipient may be sent all that the policy says, for nothing was spent. Limiter and log count the same.
func TestFullDiskCostsNothing(t *testing.T) {
	for name, open := range map[string]func(*testing.T) fullDisk{"SQLite": onASmallDisk, "Postgres": onASmallTablespace} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := open(t)
			f.policy("    - {name: pair, scope: recipient, limit: 2, window: 1h}\n").start(1)
			ask := func(to string, more ...func(*http.Request)) answer {
				return f.do(0, http.MethodPost, "/v1/verifications", `{"channel":"email","to":"`+to+`"}`, more...)
			}
			keyed := func(n int) func(*http.Request) {
				return func(r *http.Request) { r.Header.Set("Idempotency-Key", fmt.Sprintf("a-key-of-its-own-for-%024d", n)) }
			}
			if a := ask("before@example.com"); a.status != http.StatusAccepted {
				t.Fatalf("%d %s", a.status, a.raw)
			}
			f.await("ready", func() bool { status, body := f.ready(0); return status == 200 && body == "ok" })
			if err := f.disk.Fill(); err != nil {
				t.Fatal(err)
			}
			f.await("not ready, with the reason", func() bool {
				status, body := f.ready(0)
				return status == http.StatusServiceUnavailable && strings.HasPrefix(body, "unavailable: log_full: ") && !strings.Contains(body, "/")
			})
			if got := f.metric(0, "sendcode_log_writable "); got != "sendcode_log_writable 0" {
				t.Error(got)
			}
			in, out := map[string]int{}, 0
			for n := 0; out < 30 && n < 3000; n++ { // what pages have room left is used up first
				to := fmt.Sprintf("person-%d@example.com", n%40)
				var key []func(*http.Request)
				if n%2 == 0 { // a key is claimed in the log before the limiter is asked; without one the limiter is asked first
					key = append(key, keyed(n))
				}
				a := ask(to, key...)
				switch {
				case a.status == http.StatusAccepted:
					in[to]++
				case a.status == http.StatusServiceUnavailable:
					f.unavailable(a)
					out++
				case a.status != http.StatusTooManyRequests || in[to] < 2:
					t.Fatalf("%s: %d %s", to, a.status, a.raw)
				}
			}
			if out < 30 {
				t.Fatalf("%d sends found no room", out)
			}
			if err := f.disk.MakeRoom(); err != nil {
				t.Fatal(err)
			}
			f.await("ready again", func() bool { status, body := f.ready(0); return status == 200 && body == "ok" })
			for n := range 40 {
				to := fmt.Sprintf("person-%d@example.com", n)
				f.await("every reservation of "+to, func() bool {
					look := f.do(0, http.MethodPost, "/v1/quota", `{"channel":"email","to":"`+to+`"}`)
					return len(look.Quota.Rules) == 1 && look.Quota.Rules[0].Remaining == 2-in[to]
				})
				for range 2 - in[to] {
					if a := ask(to); a.status != http.StatusAccepted {
						t.Errorf("%s after %d: %d %s", to, in[to], a.status, a.raw)
					}
				}
				if a := ask(to); a.status != http.StatusTooManyRequests {
					t.Errorf("%s: one too many: %d", to, a.status)
				}
			}
			for _, line := range []string{"the log can't be written: nothing is sent", "the log can be written again"} {
				if n := strings.Count(f.printed.String(), line); n != 1 {
					t.Errorf("%q is logged %d times", line, n)
				}
			}
		})
	}
}
