// Package faults tests the whole under failures: of processes, databases, the limiter, networks,
// disks and mail servers.
package faults

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"sendcode/internal/app/apptest"
	"sendcode/internal/delivery/smtptest"
	"sendcode/internal/outbox"
	"sendcode/internal/servertest"
	"sendcode/internal/store"
	"sendcode/internal/store/postgres"
)

func TestMain(m *testing.M) { os.Exit(apptest.Main(m, 4, 1)) }

// kills is how often TestKilledUnderLoad kills; `make soak` does it a hundred times.
var kills = flag.Int("faults.kills", 5, "how often a replica is killed under load")

// fleet is replicas that are processes of their own, so that they can be killed and stopped.
type fleet struct {
	*load
	db *postgres.DB

	mu sync.Mutex
	at []*apptest.Process
}

func newFleet(s *apptest.Stack, n int) *fleet {
	s.Helper()
	f := &fleet{load: newLoad(s)}
	for range n {
		f.at = append(f.at, s.Spawn())
	}
	db, err := postgres.Open(s.Context(), s.Env["SENDCODE_DATABASE_URL"], "")
	apptest.Must(s.T, err)
	s.Cleanup(func() { _ = db.Close() })
	f.db = db
	return f
}

func (f *fleet) process(i int) *apptest.Process {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.at[i%len(f.at)]
}

// replace starts another process in the place of one that has ended.
func (f *fleet) replace(i int) {
	f.Helper()
	reborn := f.Spawn()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.at[i] = reborn
}

// eight has eight clients ask: for recipients whose rules are always at their end, and for new
// ones.
func (f *fleet) eight(ctx context.Context) *sync.WaitGroup {
	return f.clients(ctx, 8, func(k int) string { return f.process(k).Base }, func(client, k int) string {
		if k%2 == 0 {
			return fmt.Sprintf("once%d.%d@example.com", client, k)
		}
		return fmt.Sprintf("crowd%d@example.com", client%4)
	})
}

// A random one of two replicas is killed again and again under load. Nothing that was accepted is
// without an outcome, nothing is over the policy, and the few mails that came twice carry the same
// Message-ID and code.
func TestKilledUnderLoad(t *testing.T) {
	t.Parallel()
	f := newFleet(apptest.OnRealParts(t).Policy(tight), 2)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	clients := f.eight(ctx)
	for range *kills {
		apptest.Sleep(time.Duration(100+rand.IntN(400)) * time.Millisecond)
		i := rand.IntN(2)
		f.process(i).Kill()
		f.Crash()
		f.replace(i)
	}
	apptest.Sleep(time.Second)
	// which takes a busy machine longer
	f.Await("enough to show something", func() bool { return f.Admitted.Load() >= int64(10**kills) })
	stop()
	clients.Wait()
	h := ended(f.Stack, f.db)
	doubled := f.holds(f.process(0).Base, h, delivered)
	t.Logf("%d kills, %d sends accepted, %d in the database, %d requests without an answer, %d mails twice", *kills,
		f.Admitted.Load(), len(h), f.Cut.Load(), doubled)
	if f.Cut.Load() == 0 || doubled > outbox.DefaultWorkers**kills { // those whose outcome was not in the database yet
		t.Errorf("no kill cut anything, or %d mails came twice", doubled)
	}
}

// SIGTERM under load: whatever the database has was answered, whatever was answered is delivered
// once, and the process ends by itself. On a machine so busy that the stop takes longer than
// MaxStopWait, the attempts that it ends are unknown.
func TestTerminatedUnderLoad(t *testing.T) {
	t.Parallel()
	s := apptest.OnRealParts(t).Policy(tight)
	// so that there is always something under way
	s.MailRules(smtptest.Rule{Stage: smtptest.Dot, Delay: 50 * time.Millisecond})
	f := newFleet(s, 1)
	cutStops := 0 // stops that ended attempts, which they may after MaxStopWait
	for range 2 {
		ctx, stop := context.WithCancel(t.Context())
		clients := f.eight(ctx)
		before := len(s.Mails())
		s.Await("mails", func() bool { return len(s.Mails()) > before+50 })
		p := f.process(0).Cmd
		apptest.Must(t, p.Process.Signal(syscall.SIGTERM))
		told := time.Now()
		hung := time.AfterFunc(servertest.Patience, func() { _ = p.Process.Kill() })
		if err := p.Wait(); err != nil {
			t.Errorf("the process ended with %v", err)
		}
		hung.Stop()
		if time.Since(told) > outbox.MaxStopWait {
			cutStops++
		}
		stop()
		clients.Wait()
		f.replace(0)
	}
	h := ended(f.Stack, f.db)
	if slices.ContainsFunc(h, func(row store.SendOrRefusal) bool { return row.InDoubt }) {
		t.Error("a send was left in flight")
	}
	cut := 0
	agrees := func(row store.SendOrRefusal, mails int) bool {
		if row.Status == store.Unknown && row.Reason == outbox.ReasonNoAnswer && row.Counts && mails == 1 {
			cut++
			return cut <= cutStops*outbox.DefaultWorkers
		}
		return delivered(row, mails)
	}
	if doubled := f.holds(f.process(0).Base, h, agrees); doubled != 0 || len(h) < 100 ||
		int64(len(h)) != f.Admitted.Load() {
		t.Errorf("%d sends of which %d callers were told, %d mails twice", len(h), f.Admitted.Load(), doubled)
	}
}

// killedAt has a process answer 202 and kills it when its first mail has come to a stage, where the
// mail server holds it.
func killedAt(s *apptest.Stack, stage smtptest.Stage, arrived func() bool) apptest.Answer {
	s.Helper()
	s.SMTP = smtptest.Start(s.T, smtptest.Script{Rules: []smtptest.Rule{{Stage: stage, Times: 1, Stall: true}}})
	s.Env["SENDCODE_SMTP_URL"] = s.SMTP.URL()
	killed := s.Spawn()
	v := s.SendToAnaBy(killed)
	s.Await("the mail at the stage", arrived)
	killed.Kill()
	s.Start(1)
	s.AwaitState(v.ID, "sent")
	return v
}

// kill -9 between the 202 and the mail: the other replica sends it within seconds, or the same one
// after its restart.
func TestKilledBetweenAnswerAndMail(t *testing.T) {
	apptest.OnEach(t, func(s *apptest.Stack) {
		v := killedAt(s, smtptest.Rcpt, func() bool { return s.MailServerGot("RCPT") > 0 })
		apptest.Sleep(time.Second) // long enough to see that no second one comes
		mails := s.AwaitMail(apptest.Ana, 1)
		if len(mails) != 1 || mails[0].ID != v.Send.ID+"@localhost" {
			s.Errorf("%d mails, the first %s", len(mails), mails[0].ID)
		}
		s.Approves(0, v.ID, s.CodeIn(mails[0]))
	})
	t.Run("killed after the mail, before the database knows: at most a double, with the same Message-ID",
		func(t *testing.T) {
			t.Parallel()
			s := apptest.Embedded(t).Policy(apptest.OneAtMost)
			killedAt(s, smtptest.Dot, func() bool { return len(s.Mails()) > 0 })
			ids := map[string]bool{}
			for _, m := range s.AwaitMail(apptest.Ana, 1) {
				ids[m.ID] = true
			}
			if again := s.Ask(0, apptest.Ana); len(ids) != 1 || again.StatusCode != http.StatusTooManyRequests {
				t.Errorf("Message-IDs: %v; was the place of a send in doubt given back: %d", ids, again.StatusCode)
			}
		})
}

// A process was frozen for longer than its lease, and another is sending its mail when it wakes and
// hears that the mailbox does not exist. That changes nothing any more: no state goes back, no
// place is given back.
func TestFrozenForLongerThanItsLease(t *testing.T) {
	t.Parallel()
	s := apptest.OnRealParts(t).Policy(apptest.OneAtMost)
	refuses, accepts := make(chan struct{}), make(chan struct{})
	s.SMTP = smtptest.Start(t, smtptest.Script{Rules: []smtptest.Rule{
		{Stage: smtptest.Rcpt, Times: 1, Until: refuses, Reply: "550 5.1.1 no such user"},
		{Stage: smtptest.Rcpt, Times: 1, Until: accepts},
	}})
	s.Env["SENDCODE_SMTP_URL"] = s.SMTP.URL()
	frozen := s.Spawn()
	v := s.SendToAnaBy(frozen)
	s.Await("its mail", func() bool { return s.MailServerGot("RCPT") == 1 })
	frozen.Freeze(t)
	s.Start(1)
	s.Await("the other one to take over", func() bool { return s.MailServerGot("RCPT") == 2 })
	close(refuses)
	apptest.Must(t, frozen.Cmd.Process.Signal(syscall.SIGCONT))
	s.Await("the frozen one to hear of its failure", func() bool { return s.Logged("late outcome discarded") })
	is := func(status store.Status) {
		t.Helper()
		if h := s.History(); len(h) != 1 || h[0].Status != status || !h[0].Counts || h[0].RefundDue ||
			h[0].Attempt != 2 {
			t.Errorf("%+v, want it %s", h, status)
		}
	}
	is(store.Sending)
	close(accepts)
	s.AwaitState(v.ID, "sent")
	is(store.Sent)
	s.Is("the place was given back", s.Ask(0, apptest.Ana), http.StatusTooManyRequests)
	if list, _, err := s.Replicas[0].DB().Suppressions(t.Context(), store.SuppressionFilter{Limit: 1}); err != nil ||
		len(list) != 0 || len(s.Mails()) != 1 {
		t.Errorf("%d mails; suppressed by a failure that changed nothing: %+v, %v", len(s.Mails()), list, err)
	}
}
