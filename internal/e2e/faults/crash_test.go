// Package faults tests the whole under failures: of processes, databases, the limiter, networks, disks and mail servers.
package faults

import (
	"context"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"sendcode/internal/app/apptest"
	"sendcode/internal/delivery/smtptest"
)

func TestMain(m *testing.M) { os.Exit(apptest.Main(m)) }

// stall gives the stack a mail server that holds the first mail at a stage: the replica that sends it can be killed there.
func stall(s *apptest.Stack, stage smtptest.Stage) {
	s.SMTP = smtptest.Start(s.T, smtptest.Script{Rules: []smtptest.Rule{{Stage: stage, Times: 1, Stall: true}}})
	s.Env["SENDCODE_SMTP_URL"] = s.SMTP.URL()
}

// killedBeforeTheMail has a process answer 202 and kills it while it hands the mail over.
func killedBeforeTheMail(s *apptest.Stack, binary string) apptest.VerificationBody {
	s.Helper()
	stall(s, smtptest.Rcpt)
	killed := s.Spawn(binary)
	v := s.AskProcess(killed)
	awaitCommand(s, "RCPT")
	killed.Kill()
	return v
}

// kill -9 between the 202 and the mail: the other replica sends it within seconds, or the same one after its restart.
func TestKilledBetweenAnswerAndMail(t *testing.T) {
	binary := apptest.Build(t)
	t.Run("the other replica takes over", func(t *testing.T) {
		t.Parallel()
		s := apptest.OnRealParts(t)
		v := killedBeforeTheMail(s, binary)
		s.Start(1)
		sentOnce(s, 0, v)
	})
	t.Run("the same one, after its restart, with nothing but Go", func(t *testing.T) {
		t.Parallel()
		s := apptest.Embedded(t)
		v := killedBeforeTheMail(s, binary)
		s.Start(1)
		sentOnce(s, 0, v)
	})
	t.Run("killed after the mail, before the log knows: at most a double, with the same Message-ID", func(t *testing.T) {
		t.Parallel()
		s := apptest.Embedded(t).Policy(apptest.OneAtMost)
		stall(s, smtptest.Dot)
		killed := s.Spawn(binary)
		v := s.AskProcess(killed)
		s.AwaitMail(apptest.Ana, 1)
		killed.Kill()
		s.Start(1)
		s.Await("an outcome", func() bool {
			return s.Do(0, http.MethodGet, "/v1/verifications/"+v.ID, "").Send.Status == "sent"
		})
		ids := map[string]bool{}
		for _, m := range s.AwaitMail(apptest.Ana, 1) {
			ids[m.ID] = true
		}
		if len(ids) != 1 {
			t.Errorf("Message-IDs: %v", ids)
		}
		if again := s.Ask(0, apptest.Ana); again.StatusCode != http.StatusTooManyRequests {
			t.Errorf("the place of a send in doubt was given back: %d", again.StatusCode)
		}
	})
}

func awaitCommand(s *apptest.Stack, verb string) {
	s.Helper()
	s.Await(verb, func() bool {
		for _, c := range s.SMTP.Commands() {
			if strings.HasPrefix(c, verb) {
				return true
			}
		}
		return false
	})
}

// sentOnce waits for the mail of v, and then long enough to see that no second one comes.
func sentOnce(s *apptest.Stack, i int, v apptest.VerificationBody) {
	s.Helper()
	s.AwaitMail(apptest.Ana, 1)
	s.Await("the state sent", func() bool {
		return s.Do(i, http.MethodGet, "/v1/verifications/"+v.ID, "").Send.Status == "sent"
	})
	ctx, done := context.WithTimeout(s.Context(), 3*time.Second)
	defer done()
	<-ctx.Done()
	mails := s.AwaitMail(apptest.Ana, 1)
	if len(mails) != 1 || mails[0].ID != v.Send.ID+"@localhost" {
		s.Errorf("%d mails, the first %s", len(mails), mails[0].ID)
	}
	code := s.CodeIn(mails[0])
	if c := s.Check(i, v.ID, code); !c.Valid {
		s.Errorf("%s", c.Raw)
	}
}
