package main

import (
	"bufio"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// The program itself: SIGHUP and a change of the file bring new policies into force, a faulty file does not end it.
func TestSIGHUPChangesThePolicy(t *testing.T) {
	file := filepath.Join(t.TempDir(), "sendcode.yaml")
	limit := func(n string) {
		t.Helper()
		rules := "policies: {default: [{name: hourly, scope: recipient, limit: " + n + ", window: 1h}]}\n"
		if err := os.WriteFile(file, []byte(rules), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	limit("5")
	const key = "sk_0123456789abcdefghijABCDEFGHIJ"
	cmd := as(t, "main", []string{"SENDCODE_ADDR=127.0.0.1:0", "SENDCODE_API_KEY=" + key, "SENDCODE_CONFIG=" + file})
	var log lockedLines
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var reading sync.WaitGroup
	reading.Go(func() { log.read(stderr) })
	base := address(t, bufio.NewReader(stdout))
	policy := func() string {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base+"v1/quota", strings.NewReader(`{"channel":"email","to":"ana@example.com"}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+key)
		req.Header.Set("Content-Type", "application/json")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		return resp.Header.Get("RateLimit-Policy")
	}
	wants := func(what, want string) {
		t.Helper()
		deadline := time.After(20 * time.Second)
		for policy() != want {
			select {
			case <-deadline:
				t.Fatalf("%s: %s, want %s\n%s", what, policy(), want, log.text())
			case <-time.After(20 * time.Millisecond):
			}
		}
	}
	hangup := func() {
		t.Helper()
		if err := cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
	}
	wants("at the start", `"hourly";q=5;w=3600`)
	limit("2")
	hangup()
	wants("after SIGHUP", `"hourly";q=2;w=3600`)
	limit("nothing")
	hangup()
	log.await(t, `"mistake":"must be a`)
	wants("with a mistake", `"hourly";q=2;w=3600`)
	limit("3")
	wants("after a change of the file", `"hourly";q=3;w=3600`)
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, stdout)
	reading.Wait()
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v\n%s", err, log.text())
	}
}

// address finds the page's in what the program prints at the start.
func address(t *testing.T, out *bufio.Reader) string {
	t.Helper()
	for {
		line, err := out.ReadString('\n')
		if found := regexp.MustCompile(`page +(http://\S+/)`).FindStringSubmatch(line); found != nil {
			return found[1]
		}
		if err != nil {
			t.Fatalf("ended without an address: %v", err)
		}
	}
}

// lockedLines is what another process logs, as it comes.
type lockedLines struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *lockedLines) read(r io.Reader) {
	for lines := bufio.NewScanner(r); lines.Scan(); {
		l.mu.Lock()
		l.b.WriteString(lines.Text() + "\n")
		l.mu.Unlock()
	}
}

func (l *lockedLines) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func (l *lockedLines) await(t *testing.T, want string) {
	t.Helper()
	deadline := time.After(20 * time.Second)
	for !strings.Contains(l.text(), want) {
		select {
		case <-deadline:
			t.Fatalf("no %s in\n%s", want, l.text())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// At a terminal SIGHUP says that it was closed: nothing catches it there.
func TestATerminalThatClosesEndsTheProgram(t *testing.T) {
	for _, terminal := range []bool{true, false} {
		again, stop := program{terminal: terminal}.reload()
		stop()
		if again.Environ == nil || (again.Hangup == nil) != terminal {
			t.Errorf("terminal %v: %+v", terminal, again)
		}
	}
}
