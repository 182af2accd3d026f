package faults

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/app/apptest"
	"sendcode/internal/recipient"
	"sendcode/internal/store"
	"sendcode/quota"
)

// faultTime is how long each fault run lasts at least; `make soak` makes it longer.
var faultTime = flag.Duration("faults.time", 3*time.Second, "length of each fault run")

// tight is a policy whose windows pass during a run.
const tight = "    - {name: short, scope: recipient, limit: 1, window: 2s}\n    - {name: long, scope: recipient, limit: 3, window: 6s}\n"

// bouncing is a mailbox that takes nothing, so that places are given back all the time.
const bouncing = "bouncing@example.com"

// load is what clients did and heard while something went wrong.
type load struct {
	*apptest.Stack
	admitted, refused, unavailable, cut atomic.Int64  // cut: requests that got no answer
	lead                                time.Duration // of the limiter's clock before the log's; 0: their instants can be compared

	mu    sync.Mutex
	sends map[uuid.UUID]bool // of every 202
	odd   []string           // any other answer
}

func newLoad(s *apptest.Stack) *load { return &load{Stack: s, sends: map[uuid.UUID]bool{}} }

// ask asks for a code at a base URL.
func (l *load) ask(base, to string) {
	a, err := l.At(base, http.MethodPost, "/v1/verifications", `{"channel":"email","to":"`+to+`"}`)
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err != nil:
		l.cut.Add(1)
	case a.StatusCode == http.StatusAccepted:
		l.admitted.Add(1)
		l.sends[uuid.MustParse(a.Send.ID)] = true
	case a.StatusCode == http.StatusTooManyRequests && a.RetryAfter >= 1:
		l.refused.Add(1)
	case a.StatusCode == http.StatusServiceUnavailable:
		l.unavailable.Add(1)
	default:
		l.odd = append(l.odd, fmt.Sprintf("%d %s", a.StatusCode, a.Raw))
	}
}

// clients has n clients ask until the context ends. base and to name the replica and the recipient of the client's kth request.
func (l *load) clients(ctx context.Context, n int, base func(k int) string, to func(client, k int) string) *sync.WaitGroup {
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			for k := i; ctx.Err() == nil; k++ {
				l.ask(base(k), to(i, k))
				apptest.Sleep(20 * time.Millisecond) // a faster load only keeps processors from the other tests
			}
		})
	}
	return &all
}

// under runs a fault while clients, so many for each of some recipients, ask through all replicas; on a busy machine for longer than
// faultTime, until so much has happened that it shows something. The fault ends with its context and says how often it happened.
func under(s *apptest.Stack, recipients, each int, fault func(context.Context) int, needed func() bool) *load {
	s.Helper()
	ctx, cancel := context.WithCancel(s.Context())
	defer cancel()
	l := newLoad(s)
	clients := l.clients(ctx, recipients*each, func(k int) string { return s.Replicas[k%len(s.Replicas)].Base }, func(client, _ int) string {
		if client%recipients == 0 {
			return bouncing
		}
		return fmt.Sprintf("r%d@example.com", client%recipients)
	})
	started, times := time.Now(), make(chan int, 1)
	go func() {
		defer close(times) // also where the fault ended the test
		times <- fault(ctx)
	}()
	enough := func() bool {
		return l.admitted.Load() >= int64(recipients) && l.refused.Load() >= 20 && needed()
	}
	for apptest.Sleep(*faultTime); time.Since(started) < max(apptest.Patience, *faultTime) && !enough(); {
		apptest.Sleep(100 * time.Millisecond)
	}
	cancel()
	happened := <-times
	clients.Wait()
	s.Logf("%d admitted, %d refused, %d unavailable; the fault happened %d times in %v",
		l.admitted.Load(), l.refused.Load(), l.unavailable.Load(), happened, time.Since(started).Round(time.Second))
	if !enough() || happened == 0 || l.cut.Load() > 0 {
		s.Errorf("too little happened to show anything, or %d requests got no answer", l.cut.Load())
	}
	return l
}

// logNeeded reports whether the log had to decide where the limiter did not, or did not know enough.
func logNeeded(s *apptest.Stack) bool {
	for i := range s.Replicas {
		for _, outcome := range []string{"refused_by_log", "admitted_by_log_alone"} {
			m := s.Metric(i, `sendcode_requests_total{app="default",channel="email",outcome="`+outcome+`"`)
			if m != "" && m != "0" {
				return true
			}
		}
	}
	return false
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
func (l *load) recovers() {
	l.Helper()
	s := l.Stack
	for i := range s.Replicas {
		s.AwaitReady(i, 200, "ok")
		s.Await("the metrics to say so", func() bool { return s.Metric(i, "sendcode_limiter_up") == "1" })
		tries := 0
		s.Await("a decision by Redis", func() bool {
			tries++
			a := s.Ask(i, fmt.Sprintf("after%d.%d@example.com", i, tries))
			if a.StatusCode != http.StatusAccepted {
				return false
			}
			l.sends[uuid.MustParse(a.Send.ID)] = true
			story, err := s.Replicas[i].Log().Story(s.Context(), uuid.MustParse(a.Send.ID))
			return err == nil && story.Send.Clock == "redis"
		})
	}
}

// ended waits until no send is in flight and no place is owed, and returns the log as it is then.
func ended(s *apptest.Stack, log apptest.Sends) (h apptest.History) {
	s.Helper()
	s.Await("every send and refund to end", func() bool {
		h = s.HistoryIn(log)
		return !slices.ContainsFunc(h, func(r store.Send) bool { return r.Status.InFlight() || r.RefundDue })
	})
	return h
}

// exact holds where no answer of a mail server was lost: a send arrived once and counts, or failed and does not.
func exact(row store.Send, mails int) bool {
	return row.Status == store.Sent && row.Counts && mails == 1 || row.Status == store.Failed && !row.Counts && mails == 0
}

// truthful holds where a link may break at any byte: a mail after whose end no answer came is unknown, and keeps its place; so does
// what a server had taken without an answer.
func truthful(row store.Send, mails int) bool {
	switch row.Status {
	case store.Sent:
		return row.Counts && (mails == 1 || row.InDoubt && mails == 2)
	case store.Failed:
		return row.Counts == row.InDoubt && (mails == 0 || row.InDoubt)
	case store.Unknown:
		return row.Counts && mails <= 1
	}
	return false
}

// delivered holds where processes are killed: all arrive, some twice.
func delivered(row store.Send, mails int) bool {
	return row.Status == store.Sent && row.Counts && mails > 0 && (mails == 1 || row.InDoubt)
}

// holds checks what a run left behind, given its log once all sends have ended: nothing is over the policy, nothing accepted is lost,
// and each row agrees with the mails that arrived, of which doubles have one code. It returns how many came twice.
func (l *load) holds(h apptest.History, agrees func(row store.Send, mails int) bool) (doubled int) {
	l.Helper()
	for _, odd := range l.odd {
		l.Errorf("answered %s", odd)
	}
	for _, breach := range overPolicy(h, quota.OfScope(l.Config().Policy("default").Rules, quota.Recipient), l.lead) {
		l.Error(breach)
	}
	mails := map[string][]apptest.Letter{}
	for _, m := range l.Mails() {
		mails[m.ID] = append(mails[m.ID], m)
	}
	seen := 0
	for _, row := range h {
		if l.sends[row.ID] {
			seen++
		}
		id := row.ID.String() + "@localhost"
		got := mails[id]
		delete(mails, id)
		if !agrees(row, len(got)) {
			l.Errorf("send %s is %s %s, counts %t, in doubt %t, with %d mails", row.ID, row.Status, row.Reason, row.Counts, row.InDoubt, len(got))
		}
		for _, again := range got[min(1, len(got)):] {
			doubled++
			if l.CodeIn(again) != l.CodeIn(got[0]) || again.To != got[0].To {
				l.Errorf("send %s came twice with two codes", row.ID)
			}
		}
	}
	if untold := len(h) - seen; seen != len(l.sends) || int64(untold) > l.unavailable.Load()+l.cut.Load() || len(mails) > 0 {
		l.Errorf("of %d accepted sends %d are in the log, which has %d of which no caller was told; %d mails belong to no send",
			len(l.sends), seen, untold, len(mails))
	}
	return doubled
}

// overPolicy lists the sends that had no place: by the instants of their takes where one clock has both, as long as lead
// is 0; else by the log's, on which a limiter's clock may be ahead by the lead.
func overPolicy(h apptest.History, rules []quota.Rule, lead time.Duration) (breaches []string) {
	of := map[recipient.Hash]apptest.History{}
	for _, row := range h {
		if row.Counts {
			of[row.Recipient] = append(of[row.Recipient], row)
		}
	}
	for _, sends := range of {
		for i, row := range sends {
			for _, rule := range rules {
				used := 0
				for _, earlier := range sends[:i] {
					age := row.LoggedAt.Sub(earlier.LoggedAt) + lead
					if lead == 0 && row.Clock == earlier.Clock && row.Clock != store.LogClock {
						age = row.TakenAt.Sub(earlier.TakenAt)
					}
					if age < rule.Window {
						used++
					}
				}
				if used >= rule.Limit {
					breaches = append(breaches, "send "+row.ID.String()+" is over "+rule.Name)
				}
			}
		}
	}
	return breaches
}
