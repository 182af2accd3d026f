package faults

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"sendcode/internal/app/apptest"
	history "sendcode/internal/historytest"
	"sendcode/internal/servertest"
	"sendcode/internal/store"
)

// faultTime is how long each fault run lasts at least; `make soak` makes it longer.
var faultTime = flag.Duration("faults.time", 3*time.Second, "length of each fault run")

// tight is a policy whose windows pass during a run.
const tight = "    - {name: short, scope: recipient, limit: 1, window: 2s}\n    - {name: long, scope: recipient, limit: 3, window: 6s}\n"

// bouncing is a mailbox that takes nothing, so that places are given back all the time.
const bouncing = "bouncing@example.com"

// load is clients on a stack, and what they did and heard.
type load struct{ *apptest.Load }

func newLoad(s *apptest.Stack) *load { return &load{apptest.NewLoad(s)} }

// ask asks for a code with a secret key.
func (l *load) ask(base, to string) apptest.Answer { return l.AskAt(base, to, false) }

// clients has n clients ask until the context ends. base and to name the replica and the recipient
// of the client's kth request.
func (l *load) clients(ctx context.Context, n int, base func(k int) string,
	to func(client, k int) string) *sync.WaitGroup {
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

// under runs a fault while clients, so many for each of some recipients, ask through all replicas;
// on a busy machine for longer than faultTime, until so much has happened that it shows something.
// The fault ends with its context and says how often it happened.
func under(l *load, recipients, each int, fault func(context.Context) int, needed func() bool) {
	s := l.Stack
	s.Helper()
	ctx, cancel := context.WithCancel(s.Context())
	defer cancel()
	clients := l.clients(ctx, recipients*each, func(k int) string { return s.Replicas[k%len(s.Replicas)].Base },
		func(client, _ int) string {
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
		return l.Admitted.Load() >= int64(recipients) && l.Refused.Load() >= 20 && needed()
	}
	for apptest.Sleep(*faultTime); time.Since(started) < max(servertest.Patience, *faultTime) && !enough(); {
		apptest.Sleep(100 * time.Millisecond)
	}
	cancel()
	happened := <-times
	clients.Wait()
	s.Logf("%d admitted, %d refused, %d unavailable; the fault happened %d times in %v",
		l.Admitted.Load(), l.Refused.Load(), l.Unavailable.Load(), happened, time.Since(started).Round(time.Second))
	if !enough() || happened == 0 || l.Cut.Load() > 0 {
		s.Errorf("too little happened to show anything, or %d requests got no answer", l.Cut.Load())
	}
}

// databaseNeeded reports whether the database had to decide where the limiter did not, or did not
// know enough.
func databaseNeeded(s *apptest.Stack) bool {
	for i := range s.Replicas {
		for _, outcome := range []string{"refused_by_database", "refused_by_database_alone",
			"admitted_by_database_alone"} {
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
		asked := 0
		s.Await("readiness, also of a mail server that was suspended: only a mail can tell that it is back",
			func() bool {
				status, said := s.Ready(i)
				if status == http.StatusOK && said == "ok" {
					return true
				}
				asked++
				l.ask(s.Replicas[i].Base, fmt.Sprintf("ready%d.%d@example.com", i, asked))
				apptest.Sleep(time.Second / 2)
				return false
			})
		s.Await("the metrics to say so", func() bool { return s.Metric(i, "sendcode_limiter_up") == "1" })
	}
}

// ended waits until no send is in flight and no place is owed, and returns its sends as they are
// then.
func ended(s *apptest.Stack, db apptest.Sends) (h apptest.History) {
	s.Helper()
	s.Await("every send and refund to end", func() bool {
		h = s.HistoryIn(db)
		return !slices.ContainsFunc(h, func(r store.SendOrRefusal) bool { return r.Status.InFlight() || r.RefundDue })
	})
	return h
}

// exact holds where no answer of a mail server was lost: a send arrived once and counts, or failed
// and does not. A failed send counts if an earlier attempt ended without an outcome: a busy machine
// may restart Postgres for longer than a lease.
func exact(row store.SendOrRefusal, mails int) bool {
	return row.Status == store.Sent && row.Counts && mails == 1 ||
		row.Status == store.Failed && row.Counts == row.InDoubt && mails == 0
}

// truthful holds where a link may break at any byte: a mail after whose end no answer came is
// unknown, and keeps its place; so does what a server had taken without an answer.
func truthful(row store.SendOrRefusal, mails int) bool {
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
func delivered(row store.SendOrRefusal, mails int) bool {
	return row.Status == store.Sent && row.Counts && mails > 0 && (mails == 1 || row.InDoubt)
}

// holds checks what a run left behind, given the database once all sends have ended: the history of
// requests and mails keeps every promise, and each row of the database agrees with the mails that
// arrived. It returns how many came twice.
func (l *load) holds(base string, h apptest.History, agrees func(row store.SendOrRefusal, mails int) bool) (doubled int) {
	l.Helper()
	l.List(base)
	mails := map[string]int{}
	for _, m := range l.Arrived() {
		mails[m.ID]++
	}
	found, _ := history.Judge(l.Seen)
	for _, v := range found {
		l.Errorf("%s: %s", v.Promise, v.Detail)
	}
	for _, row := range h {
		n := mails[row.ID.String()+"@localhost"]
		doubled += max(0, n-1)
		if !agrees(row, n) {
			l.Errorf("send %s is %s %s, counts %t, in doubt %t, with %d mails", row.ID, row.Status, row.Reason,
				row.Counts, row.InDoubt, n)
		}
	}
	if untold := int64(len(h)) - l.Admitted.Load(); untold < 0 || untold > l.Unavailable.Load()+l.Cut.Load() {
		l.Errorf("%d sends were accepted, and the database has %d", l.Admitted.Load(), len(h))
	}
	return doubled
}
