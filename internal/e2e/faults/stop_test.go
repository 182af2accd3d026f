package faults

import (
	"context"
	"errors"
	"net/http"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"sendcode/internal/app/apptest"
	"sendcode/internal/delivery/smtptest"
	"sendcode/internal/store"
)

func signal(p *apptest.Process, s *apptest.Stack, sig syscall.Signal) {
	s.Helper()
	if err := p.Cmd.Process.Signal(sig); err != nil {
		s.Fatal(err)
	}
}

// exit waits for the process and gives its exit code, -1 where a signal ended it.
func exit(p *apptest.Process, s *apptest.Stack) int {
	s.Helper()
	ended := make(chan error, 1)
	go func() { ended <- p.Cmd.Wait() }()
	select {
	case err := <-ended:
		var failed *exec.ExitError
		if err != nil && !errors.As(err, &failed) {
			s.Fatal(err)
		}
		return p.Cmd.ProcessState.ExitCode()
	case <-time.After(40 * time.Second): // twice the patience of a stop
		s.Fatal("the process did not end")
		return 0
	}
}

// SIGTERM under load: whatever the log has was answered, whatever was answered is delivered once, and the process
// ends by itself.
func TestTerminatedUnderLoad(t *testing.T) {
	t.Parallel()
	s := apptest.OnRealParts(t).Policy(tight)
	s.SMTP.SetScript(smtptest.Script{TLS: smtptest.STARTTLS, Username: "sendcode", Password: "a password & more", Rules: []smtptest.Rule{
		{Stage: smtptest.Dot, Delay: 50 * time.Millisecond}, // so that there is always something under way
	}})
	f := newFleet(s, 1)
	for range 2 {
		ctx, stop := context.WithCancel(t.Context())
		clients := f.clients(ctx, 8)
		before := len(s.Mails())
		s.Await("mails", func() bool { return len(s.Mails()) > before+50 })
		signal(f.process(0), s, syscall.SIGTERM)
		if code := exit(f.process(0), s); code != 0 {
			t.Errorf("exit code %d", code)
		}
		stop()
		clients.Wait()
		reborn := f.Spawn(f.binary)
		f.mu.Lock()
		f.at[0] = reborn
		f.mu.Unlock()
	}
	h := ended(f.Stack, f.log)
	for _, row := range h {
		if !f.told[row.ID] {
			t.Errorf("send %s was let in, and no caller was told", row.ID)
		}
		if row.InDoubt {
			t.Errorf("send %s was left in flight", row.ID)
		}
	}
	if doubled := f.verdict(h); doubled != 0 || len(h) < 100 {
		t.Errorf("%d sends, %d mails twice", len(h), doubled)
	}
}

// A process was frozen for longer than its lease, and another is sending its mail when it wakes and hears that the mailbox
// does not exist. That changes nothing any more: no state goes back, no place is given back.
func TestFrozenForLongerThanItsLease(t *testing.T) {
	t.Parallel()
	s := apptest.OnRealParts(t).Policy(apptest.OneAtMost)
	refuses, accepts := make(chan struct{}), make(chan struct{})
	s.SMTP = smtptest.Start(t, smtptest.Script{Rules: []smtptest.Rule{
		{Stage: smtptest.Rcpt, Times: 1, Until: refuses, Reply: "550 5.1.1 no such user"},
		{Stage: smtptest.Rcpt, Times: 1, Until: accepts},
	}})
	s.Env["SENDCODE_SMTP_URL"] = s.SMTP.URL()
	frozen := s.Spawn(apptest.Build(t))
	v := s.AskProcess(frozen)
	awaitCommand(s, "RCPT")
	signal(frozen, s, syscall.SIGSTOP)
	s.Start(1)
	s.Await("the other one to take over", func() bool { return s.CountRcptTo(apptest.Ana) == 2 })
	close(refuses)
	signal(frozen, s, syscall.SIGCONT)
	s.Await("the frozen one to hear of its failure", func() bool {
		return apptest.Contains(s.Printed, "an outcome came too late")
	})
	if now := s.History()[0]; now.Status != store.Sending || !now.Counts || now.RefundDue || now.Attempt != 2 {
		t.Errorf("while the other one sends: %+v", now)
	}
	close(accepts)
	sentOnce(s, 0, v)
	h := s.History()
	if len(h) != 1 || h[0].Status != store.Sent || !h[0].Counts || h[0].RefundDue || h[0].Attempt != 2 {
		t.Errorf("in the end: %+v", h)
	}
	if again := s.Ask(0, apptest.Ana); again.StatusCode != http.StatusTooManyRequests {
		t.Errorf("the place was given back: %d", again.StatusCode)
	}
	if list, _, err := s.Replicas[0].Log().Suppressions(t.Context(), store.SuppressionFilter{Limit: 1}); err != nil || len(list) != 0 {
		t.Errorf("suppressed by a failure that changed nothing: %+v, %v", list, err)
	}
}
