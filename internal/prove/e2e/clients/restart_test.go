package clients

import (
	"database/sql"
	"fmt"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"sendcode/internal/kit/servertest"
	"sendcode/internal/run/app/apptest"
)

// The next process counts each event of /v1/limits that was answered before SIGTERM, or that was in
// the file before a kill. It also counts each wrong token that was answered before a kill. A kill
// at any instant loses only the last events; TestSavedEventsOutliveTheProcess tests how old these
// are, on a clock of its own.
func TestARestartForgetsNothing(t *testing.T) {
	t.Parallel()
	endAndStart(t, 2)
}

// endAndStart ends a service, by SIGTERM and by a kill in turn, and starts it again, as often as
// times says.
func endAndStart(t *testing.T, times int) {
	const limit, each = 10000, 20 // each is the number of takes before each end
	s := apptest.Embedded(t).Write(fmt.Sprintf("limits: {exports: [{name: day, key: user, limit: %d, window: 24h}]}\n", limit))
	p := s.Spawn()
	file, err := sql.Open("sqlite", "file:"+filepath.Join(s.Env["SENDCODE_DATA_DIR"], "sendcode.db")+"?mode=ro")
	apptest.Must(t, err)
	defer file.Close()
	of := func(user, operation string) (apptest.Answer, error) {
		return s.At(p.Base, http.MethodPost, "/v1/limits/exports/"+operation, `{"keys":{"user":"`+user+`"}}`)
	}
	ask := func(operation string) apptest.Answer {
		a, err := of("42", operation)
		apptest.Must(t, err)
		return a
	}
	rows := func() (n int) {
		_ = file.QueryRow(`SELECT count(*) FROM limiter_events`).Scan(&n)
		return n
	}
	others := 0 // the rows of takes that ran while the service was killed
	for n := 1; n <= times; n++ {
		var taken atomic.Int64 // takes that ran while the service was killed
		var takes sync.WaitGroup
		for range each {
			takes.Go(func() { ask("take") })
		}
		takes.Wait()
		if n%2 == 0 {
			servertest.Await(t, "the events in the file", func() bool { return rows() == n*each+others })
			ended := make(chan struct{})
			go func() { // each event is by another user, and comes after the answer to the event before
				defer close(ended)
				for err := error(nil); err == nil; taken.Add(1) {
					_, err = of(fmt.Sprint(n, "-", taken.Load()), "take")
				}
			}()
			servertest.Await(t, "some of them in the file", func() bool { return rows() > n*each+others })
			kill := taken.Load() + rand.Int64N(300)
			servertest.Await(t, "the instant of the kill", func() bool { return taken.Load() >= kill })
			p.Kill()
			<-ended
		} else {
			apptest.Must(t, p.Cmd.Process.Signal(syscall.SIGTERM))
			_ = p.Cmd.Wait()
		}
		p = s.Spawn()
		a := ask("peek")
		s.Is("what the next process counts", a, http.StatusOK, strings.Contains(string(a.Raw), fmt.Sprintf(`"remaining":%d`, limit-n*each)))
		kept, counted := true, 0
		for user := range taken.Load() {
			a, err := of(fmt.Sprint(n, "-", user), "peek")
			apptest.Must(t, err)
			was := kept
			if kept = strings.Contains(string(a.Raw), fmt.Sprintf(`"remaining":%d`, limit-1)); kept {
				counted++
			}
			s.Is("what is counted after a take that is not", a, http.StatusOK, was || !kept)
		}
		others += counted
		t.Logf("of %d takes before a kill, the next process counts %d", taken.Load(), counted)
	}
	guess := func() apptest.Answer {
		a, err := s.At(p.Base, http.MethodGet, "/v1/admin/stats", "", with("Authorization", "Bearer wrong"))
		apptest.Must(t, err)
		return a
	}
	for range 10 {
		s.Is("a wrong token", guess(), http.StatusUnauthorized)
	}
	p.Kill() // each wrong token was recorded before its answer
	p = s.Spawn()
	s.Is("one more, asked of the next process", guess(), http.StatusTooManyRequests)
}
