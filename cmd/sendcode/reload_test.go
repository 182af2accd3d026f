package main

import (
	"bufio"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"sendcode/internal/parts"
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
	var log parts.Text
	cmd.Stderr = &log
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
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
	await := func(what, want string, now func() string) {
		t.Helper()
		deadline := time.After(time.Minute)
		for !strings.Contains(now(), want) {
			select {
			case <-deadline:
				t.Fatalf("%s: %s, want %s\n%s", what, now(), want, log.String())
			case <-time.After(20 * time.Millisecond):
			}
		}
	}
	wants := func(what, want string) { t.Helper(); await(what, want, policy) }
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
	await("the log", `"mistake":"must be a`, log.String)
	wants("with a mistake", `"hourly";q=2;w=3600`)
	limit("3")
	wants("after a change of the file", `"hourly";q=3;w=3600`)
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, stdout)
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v\n%s", err, log.String())
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
