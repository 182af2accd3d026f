package faults

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/app/apptest"
)

// faultTime is how long each fault run lasts at least; `make soak` makes it longer.
var faultTime = flag.Duration("faults.time", 3*time.Second, "length of each fault run")

// load is what clients did and heard while something went wrong.
type load struct {
	admitted, refused, unavailable atomic.Int64

	mu    sync.Mutex
	sends map[uuid.UUID]bool // of every 202
	odd   []string           // any other answer
}

// tight is a policy whose windows pass during a run.
const tight = "    - {name: short, scope: recipient, limit: 1, window: 2s}\n    - {name: long, scope: recipient, limit: 3, window: 6s}\n"

// bouncing is a mailbox that takes nothing, so that places are given back all the time.
const bouncing = "bouncing@example.com"

// underLoad is asking, where the log is needed to be right.
func underLoad(s *apptest.Stack, fault func(context.Context) int) *load {
	s.Helper()
	needed := func() bool { return decided(s, "refused_by_log")+decided(s, "admitted_by_log_alone") > 0 }
	l := asking(s, 5, 2, fault, needed)
	if !needed() {
		s.Error("the log was never needed")
	}
	return l
}

// asking runs a fault while clients, so many for each of some recipients, ask through all replicas, as often as they get an
// answer; on a busy machine for longer than faultTime, until so much has happened that it shows something. The fault ends with
// its context and says how often it happened.
func asking(s *apptest.Stack, recipients, each int, fault func(context.Context) int, more ...func() bool) *load {
	s.Helper()
	ctx, cancel := context.WithCancel(s.Context())
	defer cancel()
	l := &load{sends: map[uuid.UUID]bool{}}
	var clients sync.WaitGroup
	for i := range recipients * each {
		to := fmt.Sprintf("r%d@example.com", i%recipients)
		if i%recipients == 0 {
			to = bouncing
		}
		clients.Go(func() {
			for n := i; ctx.Err() == nil; n++ {
				l.ask(s.Replicas[n%len(s.Replicas)].Base, to)
				apptest.Sleep(5 * time.Millisecond)
			}
		})
	}
	started, times := time.Now(), make(chan int, 1)
	go func() {
		defer close(times)
		times <- fault(ctx)
	}()
	enough := func() bool { return l.admitted.Load() >= int64(recipients) && l.refused.Load() >= 20 }
	for apptest.Sleep(*faultTime); time.Since(started) < max(apptest.Patience, *faultTime) && !(enough() && all(more)); {
		apptest.Sleep(100 * time.Millisecond)
	}
	cancel()
	happened := <-times
	clients.Wait()
	s.Logf("%d admitted, %d refused, %d unavailable; the fault happened %d times in %v",
		l.admitted.Load(), l.refused.Load(), l.unavailable.Load(), happened, time.Since(started).Round(time.Second))
	if !enough() || happened == 0 {
		s.Error("too little happened to show anything")
	}
	for _, odd := range l.odd {
		s.Errorf("answered %s", odd)
	}
	return l
}

func all(hold []func() bool) bool {
	return !slices.ContainsFunc(hold, func(holds func() bool) bool { return !holds() })
}

// decided is how often the replicas' metrics say that a request came to an outcome.
func decided(s *apptest.Stack, outcome string) (n int) {
	s.Helper()
	for i := range s.Replicas {
		for line := range strings.Lines(string(s.Do(i, http.MethodGet, "/metrics", "").Raw)) {
			if strings.HasPrefix(line, "sendcode_requests_total{") && strings.Contains(line, `outcome="`+outcome+`"`) {
				_, value, _ := strings.Cut(line, "} ")
				count, err := strconv.Atoi(strings.TrimSpace(value))
				if err != nil {
					s.Error(err)
				}
				n += count
			}
		}
	}
	return n
}

func (l *load) ask(base, to string) {
	req, err := http.NewRequest(http.MethodPost, base+"/v1/verifications", strings.NewReader(`{"channel":"email","to":"`+to+`"}`))
	if err != nil {
		l.note(err.Error())
		return
	}
	req.Header.Set("Authorization", "Bearer "+apptest.APIKey)
	req.Header.Set("Content-Type", "application/json")
	resp, err := apptest.Client.Do(req)
	if err != nil {
		l.note(err.Error())
		return
	}
	defer resp.Body.Close()
	var body apptest.VerificationBody
	if err := json.NewDecoder(resp.Body).Decode(&body); err != nil {
		l.note(err.Error())
	}
	switch resp.StatusCode {
	case http.StatusAccepted:
		l.admitted.Add(1)
		l.mu.Lock()
		defer l.mu.Unlock()
		l.sends[uuid.MustParse(body.Send.ID)] = true
	case http.StatusTooManyRequests:
		l.refused.Add(1)
		if body.RetryAfter < 1 {
			l.note(fmt.Sprintf("a refusal that tells to wait %d s", body.RetryAfter))
		}
	case http.StatusServiceUnavailable:
		l.unavailable.Add(1)
	default:
		l.note(resp.Status)
	}
}

func (l *load) note(odd string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.odd = append(l.odd, odd)
}

// every does something at once and then at each interval, until the context ends, and counts.
func every(ctx context.Context, interval time.Duration, do func(n int)) (times int) {
	ticks := time.NewTicker(interval)
	defer ticks.Stop()
	for {
		do(times)
		times++
		select {
		case <-ctx.Done():
			return times
		case <-ticks.C:
		}
	}
}

// recovers waits until the service is whole by itself: it says so, and Redis decides.
func recovers(s *apptest.Stack) {
	s.Helper()
	for i := range s.Replicas {
		s.Await("readiness", func() bool { status, body := s.Ready(i); return status == 200 && body == "ok" })
		s.Await("the metrics to say so", func() bool { return limiterUp(s, i) == "1" })
		tries := 0
		s.Await("a decision by Redis", func() bool {
			tries++
			a := s.Ask(i, fmt.Sprintf("after%d.%d@example.com", i, tries))
			if a.StatusCode != http.StatusAccepted {
				return false
			}
			story, err := s.Replicas[i].Log().Story(s.Context(), uuid.MustParse(a.Send.ID))
			return err == nil && story.Send.Clock == "redis"
		})
	}
}
