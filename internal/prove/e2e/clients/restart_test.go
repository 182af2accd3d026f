package clients

import (
	"database/sql"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"sendcode/internal/kit/servertest"
	"sendcode/internal/run/app/apptest"
)

// The next process counts each event of /v1/limits that was answered before SIGTERM, or that was in the
// file before a kill, and each wrong token that was answered before a kill.
func TestARestartForgetsNothing(t *testing.T) {
	t.Parallel()
	endAndStart(t, 2)
}

// endAndStart ends a service so many times, in turn by SIGTERM and by a kill.
func endAndStart(t *testing.T, times int) {
	const limit, each = 10000, 20 // takes before each end
	s := apptest.Embedded(t).Write(fmt.Sprintf("limits: {exports: [{name: day, key: user, limit: %d, window: 24h}]}\n", limit))
	p := s.Spawn()
	file, err := sql.Open("sqlite", "file:"+filepath.Join(s.Env["SENDCODE_DATA_DIR"], "sendcode.db")+"?mode=ro")
	apptest.Must(t, err)
	defer file.Close()
	ask := func(operation string) apptest.Answer {
		a, err := s.At(p.Base, http.MethodPost, "/v1/limits/exports/"+operation, `{"keys":{"user":"42"}}`)
		apptest.Must(t, err)
		return a
	}
	for n := 1; n <= times; n++ {
		var takes sync.WaitGroup
		for range each {
			takes.Go(func() { ask("take") })
		}
		takes.Wait()
		if n%2 == 0 {
			servertest.Await(t, "the events in the file", func() bool {
				var rows int
				return file.QueryRow(`SELECT count(*) FROM limiter_events`).Scan(&rows) == nil && rows == n*each
			})
			p.Kill()
		} else {
			apptest.Must(t, p.Cmd.Process.Signal(syscall.SIGTERM))
			_ = p.Cmd.Wait()
		}
		p = s.Spawn()
		a := ask("peek")
		s.Is("what the next process counts", a, http.StatusOK, strings.Contains(string(a.Raw), fmt.Sprintf(`"remaining":%d`, limit-n*each)))
	}
	guess := func() apptest.Answer {
		a, err := s.At(p.Base, http.MethodGet, "/v1/admin/stats", "", with("Authorization", "Bearer wrong"))
		apptest.Must(t, err)
		return a
	}
	for range 10 {
		s.Is("a wrong token", guess(), http.StatusUnauthorized)
	}
	p.Kill() // each was written before its answer
	p = s.Spawn()
	s.Is("one more, asked of the next process", guess(), http.StatusTooManyRequests)
}
