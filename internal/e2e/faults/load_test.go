package faults

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/app/apptest"
	history "sendcode/internal/historytest"
	"sendcode/internal/servertest"
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
	admitted, refused, unavailable, cut atomic.Int64 // cut: requests that got no answer

	mu   sync.Mutex
	seen history.History
}

// newLoad makes a load on a stack. Where the log stalls, a client that waited as told may be refused for 5 s more.
func newLoad(s *apptest.Stack) *load {
	l := &load{Stack: s, seen: history.History{Slack: 5 * time.Second, Rebuilt: 100 * time.Millisecond}}
	for _, r := range quota.OfScope(s.Config().Policy("default").Rules, quota.Recipient) {
		l.seen.Rules = append(l.seen.Rules, history.Rule{Name: r.Name, Limit: r.Limit, Window: r.Window})
	}
	return l
}

// do makes a request and notes it with its answer.
func (l *load) do(base, method, path, body string, q history.Request, change ...func(*http.Request)) (apptest.Answer, error) {
	q.Begin = time.Now()
	a, err := l.At(base, method, path, body, change...)
	if q.End = time.Now(); err == nil {
		q.Status, q.Header, q.Body = a.StatusCode, a.Header, a.Raw
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seen.Requests = append(l.seen.Requests, q)
	return a, err
}

// crash notes that a process died, or may have lost its leases.
func (l *load) crash() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seen.Crashes = append(l.seen.Crashes, time.Now())
}

// ask asks for a code at a base URL.
func (l *load) ask(base, to string) apptest.Answer {
	a, err := l.do(base, http.MethodPost, "/v1/verifications", `{"channel":"email","to":"`+to+`"}`, history.Request{Kind: history.Send, Recipient: to})
	switch {
	case err != nil:
		l.cut.Add(1)
	case a.StatusCode == http.StatusAccepted:
		l.admitted.Add(1)
	case a.StatusCode == http.StatusTooManyRequests:
		l.refused.Add(1)
	case a.StatusCode == http.StatusServiceUnavailable:
		l.unavailable.Add(1)
	default:
		l.Errorf("answered %d %s", a.StatusCode, a.Raw)
	}
	return a
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
func under(l *load, recipients, each int, fault func(context.Context) int, needed func() bool) {
	s := l.Stack
	s.Helper()
	ctx, cancel := context.WithCancel(s.Context())
	defer cancel()
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
	for apptest.Sleep(*faultTime); time.Since(started) < max(servertest.Patience, *faultTime) && !enough(); {
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
}

// logNeeded reports whether the log had to decide where the limiter did not, or did not know enough.
func logNeeded(s *apptest.Stack) bool {
	for i := range s.Replicas {
		for _, outcome := range []string{"refused_by_database", "admitted_by_database_alone"} {
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
			a := l.ask(s.Replicas[i].Base, fmt.Sprintf("after%d.%d@example.com", i, tries))
			if a.StatusCode != http.StatusAccepted {
				return false
			}
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

// holds checks what a run left behind, given its log once all sends have ended: the history of requests and mails keeps every promise, and
// each row of the log agrees with the mails that arrived. It returns how many came twice.
func (l *load) holds(base string, h apptest.History, agrees func(row store.Send, mails int) bool) (doubled int) {
	l.Helper()
	l.list(base)
	mails := map[string]int{}
	for _, m := range l.Mails() {
		l.seen.Messages = append(l.seen.Messages, history.Message{Recipient: m.To, Code: l.CodeIn(m), ID: m.ID, At: m.At})
		mails[m.ID]++
	}
	for _, v := range history.Judge(l.seen) {
		l.Errorf("%s: %s", v.Promise, v.Detail)
	}
	for _, row := range h {
		n := mails[row.ID.String()+"@localhost"]
		doubled += max(0, n-1)
		if !agrees(row, n) {
			l.Errorf("send %s is %s %s, counts %t, in doubt %t, with %d mails", row.ID, row.Status, row.Reason, row.Counts, row.InDoubt, n)
		}
	}
	if untold := int64(len(h)) - l.admitted.Load(); untold < 0 || untold > l.unavailable.Load()+l.cut.Load() {
		l.Errorf("%d sends were accepted, and the log has %d", l.admitted.Load(), len(h))
	}
	return doubled
}

// list notes how every send ended, as administrators are told.
func (l *load) list(base string) {
	l.Helper()
	for cursor := "first"; cursor != ""; {
		query := url.Values{"limit": {"200"}}
		if cursor != "first" {
			query.Set("cursor", cursor)
		}
		a, err := l.do(base, http.MethodGet, "/v1/admin/sends?"+query.Encode(), "", history.Request{Kind: history.Look}, apptest.AsAdmin)
		apptest.Must(l.T, err)
		l.Is("the list of sends", a, http.StatusOK)
		var page struct{ Next string }
		apptest.Must(l.T, json.Unmarshal(a.Raw, &page))
		cursor = page.Next
	}
}
