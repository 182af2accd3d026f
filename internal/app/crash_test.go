package app

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"sendcode/internal/delivery/smtptest"
)

// process is the real binary, so that it can be killed.
type process struct {
	cmd  *exec.Cmd
	base string
}

// built is the binary, made once for all tests, in a directory that outlives the first of them.
var (
	builtIn string
	built   = sync.OnceValues(makeBinary)
)

func makeBinary() (binary string, err error) {
	if builtIn, err = os.MkdirTemp("", "sendcode-test-"); err != nil {
		return "", err
	}
	binary = filepath.Join(builtIn, "sendcode")
	out, err := exec.Command("go", "build", "-o", binary, "sendcode/cmd/sendcode").CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, out)
	}
	return binary, err
}

func TestMain(m *testing.M) {
	code := m.Run()
	if builtIn != "" {
		_ = os.RemoveAll(builtIn)
	}
	os.Exit(code)
}

func build(t *testing.T) string {
	t.Helper()
	binary, err := built()
	if err != nil {
		t.Fatal(err)
	}
	return binary
}

// spawn starts the binary by environment alone and waits until it says where it listens.
func (s *stack) spawn(binary string) *process {
	s.Helper()
	cmd := exec.Command(binary, "serve")
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + s.TempDir()}
	for name, value := range s.env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		s.Fatal(err)
	}
	cmd.Stderr = s.printed
	if err := cmd.Start(); err != nil {
		s.Fatal(err)
	}
	p := &process{cmd: cmd}
	s.Cleanup(p.kill)
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if _, base, ok := strings.Cut(lines.Text(), "page "); ok {
			p.base = strings.TrimSuffix(strings.TrimSpace(base), "/")
			break
		}
	}
	if p.base == "" {
		s.Fatalf("the process did not start: %s", s.printed)
	}
	go func() { _, _ = io.Copy(io.Discard, out) }()
	return p
}

func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

func (s *stack) askProcess(p *process) verificationBody {
	s.Helper()
	req, err := http.NewRequest(http.MethodPost, p.base+"/v1/verifications", strings.NewReader(`{"channel":"email","to":"`+ana+`"}`))
	if err != nil {
		s.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+s.key)
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		s.Fatal(err)
	}
	defer resp.Body.Close()
	var v verificationBody
	if err := json.NewDecoder(resp.Body).Decode(&v); err != nil || resp.StatusCode != http.StatusAccepted {
		s.Fatalf("%d %v", resp.StatusCode, err)
	}
	return v
}

// stall gives the stack a mail server that holds the first mail at a stage: whoever sends it can be killed there.
func (s *stack) stall(stage smtptest.Stage) {
	s.smtp = smtptest.Start(s.T, smtptest.Script{Rules: []smtptest.Rule{{Stage: stage, Times: 1, Stall: true}}})
	s.env["SENDCODE_SMTP_URL"] = s.smtp.URL()
}

// killedBeforeTheMail has a process answer 202 and kills it while it hands the mail over.
func (s *stack) killedBeforeTheMail(binary string) verificationBody {
	s.Helper()
	s.stall(smtptest.Rcpt)
	killed := s.spawn(binary)
	v := s.askProcess(killed)
	s.awaitCommand("RCPT")
	killed.kill()
	return v
}

// kill -9 between the 202 and the mail: the other replica sends it within seconds, or the same one after its restart.
func TestKilledBetweenAnswerAndMail(t *testing.T) {
	binary := build(t)
	t.Run("the other replica takes over", func(t *testing.T) {
		t.Parallel()
		s := onRealParts(t)
		v := s.killedBeforeTheMail(binary)
		s.start(1)
		s.sentOnce(0, v)
	})
	t.Run("the same one, after its restart, with nothing but Go", func(t *testing.T) {
		t.Parallel()
		s := embedded(t)
		v := s.killedBeforeTheMail(binary)
		s.start(1)
		s.sentOnce(0, v)
	})
	t.Run("killed after the mail, before the log knows: at most a double, with the same Message-ID", func(t *testing.T) {
		t.Parallel()
		s := embedded(t).policy(oneAtMost)
		s.stall(smtptest.Dot)
		killed := s.spawn(binary)
		v := s.askProcess(killed)
		s.awaitMail(ana, 1)
		killed.kill()
		s.start(1)
		s.await("an outcome", func() bool {
			return s.do(0, http.MethodGet, "/v1/verifications/"+v.ID, "").Send.Status == "sent"
		})
		ids := map[string]bool{}
		for _, m := range s.awaitMail(ana, 1) {
			ids[m.id] = true
		}
		if len(ids) != 1 {
			t.Errorf("Message-IDs: %v", ids)
		}
		if again := s.ask(0, ana); again.status != http.StatusTooManyRequests {
			t.Errorf("the place of a send in doubt was given back: %d", again.status)
		}
	})
}

func (s *stack) awaitCommand(verb string) {
	s.Helper()
	s.await(verb, func() bool {
		for _, c := range s.smtp.Commands() {
			if strings.HasPrefix(c, verb) {
				return true
			}
		}
		return false
	})
}

// sentOnce waits for the mail of v, and then long enough to see that no second one comes.
func (s *stack) sentOnce(i int, v verificationBody) {
	s.Helper()
	s.awaitMail(ana, 1)
	s.await("the state sent", func() bool {
		return s.do(i, http.MethodGet, "/v1/verifications/"+v.ID, "").Send.Status == "sent"
	})
	ctx, done := context.WithTimeout(s.Context(), 3*time.Second)
	defer done()
	<-ctx.Done()
	mails := s.awaitMail(ana, 1)
	if len(mails) != 1 || mails[0].id != v.Send.ID+"@localhost" {
		s.Errorf("%d mails, the first %s", len(mails), mails[0].id)
	}
	code := s.codeIn(mails[0])
	if c := s.check(i, v.ID, code); !c.Valid {
		s.Errorf("%s", c.raw)
	}
}
