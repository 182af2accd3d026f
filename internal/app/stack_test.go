package app

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"sendcode/internal/config"
	"sendcode/internal/delivery/smtptest"
	"sendcode/internal/parts"
)

// stack is one or more replicas with the parts that they share, as somebody would run them: by environment alone.
type stack struct {
	*testing.T
	env      map[string]string
	key      string
	replicas []*replica
	redis    *parts.RedisServer
	postgres *parts.PostgresServer
	smtp     *smtptest.Server
	printed  *parts.Text
	answered *parts.Text // every answer, but the dev mailbox's
	watches  bool        // whether replicas read their configuration again
}

// replica is one process's worth of service, run inside the test.
type replica struct {
	*App
	base string
	hup  chan os.Signal
	stop context.CancelFunc
	done chan error
}

const (
	ana       = "ana.maria.canary@example.com"
	anaMasked = "a•••@example.com"
	apiKey    = "sk_0123456789abcdefghijABCDEFGHIJ"
	token     = "an-admin-token-of-forty-characters-or-so"
)

// embedded is the service as `make run` starts it: nothing but Go.
func embedded(t *testing.T) *stack {
	t.Helper()
	s := newStack(t)
	s.env["SENDCODE_DATA_DIR"] = filepath.Join(t.TempDir(), "data")
	return s
}

// onRealParts is the service on Redis, Postgres and a mail server that wants STARTTLS and a password.
func onRealParts(t *testing.T) *stack {
	t.Helper()
	s := newStack(t)
	s.redis, s.postgres = parts.Redis(t), parts.Postgres(t)
	s.smtp = smtptest.StartAt(t, parts.FreePort(t), smtptest.Script{TLS: smtptest.STARTTLS, Username: "sendcode", Password: "a password & more"})
	s.env["SENDCODE_DATA_DIR"] = filepath.Join(t.TempDir(), "data")
	s.env["SENDCODE_REDIS_URL"] = s.redis.URL()
	s.env["SENDCODE_DATABASE_URL"] = s.postgres.URL()
	s.env["SENDCODE_SMTP_URL"] = s.smtp.URL()
	s.env["SENDCODE_SECRET_KEYS"] = "k1:q83vEjRWeJCrze8SNFZ4kLD3QZxs0lr2uTnVYQ1bXoM="
	s.env["SENDCODE_INDEX_KEY"] = "8mF2hT0cJr4xWq7nZl9sVb3yKd6gPe1uAoXiRtNwQzE="
	s.env["SENDCODE_ADMIN_PASSWORD"] = "a password for the tests"
	return s
}

func newStack(t *testing.T) *stack {
	t.Helper()
	s := &stack{T: t, key: apiKey, printed: &parts.Text{}, answered: &parts.Text{}, env: map[string]string{
		"SENDCODE_ADDR": "127.0.0.1:0", "SENDCODE_API_KEY": apiKey, "SENDCODE_ADMIN_TOKEN": token, "SENDCODE_ADMIN_TOKEN_ROLE": "owner",
	}}
	t.Cleanup(s.leaks)
	return s
}

// policy replaces the default rules.
func (s *stack) policy(yaml string) *stack {
	s.Helper()
	file := filepath.Join(s.TempDir(), "sendcode.yaml")
	if err := os.WriteFile(file, []byte("policies:\n  default:\n"+yaml), 0o600); err != nil {
		s.Fatal(err)
	}
	s.env["SENDCODE_CONFIG"] = file
	return s
}

func (s *stack) environ() []string {
	var environ []string
	for name, value := range s.env {
		environ = append(environ, name+"="+value)
	}
	return environ
}

func (s *stack) config() config.Config {
	s.Helper()
	cfg, err := config.Load(s.environ(), os.ReadFile)
	if err != nil {
		s.Fatal(err)
	}
	return cfg
}

// start adds n replicas.
func (s *stack) start(n int) *stack {
	s.Helper()
	for range n {
		logger := slog.New(slog.NewJSONHandler(s.printed, &slog.HandlerOptions{Level: slog.LevelDebug}))
		a, err := New(s.Context(), s.config(), logger)
		if err != nil {
			s.Fatal(err)
		}
		ctx, stop := context.WithCancel(context.Background())
		r := &replica{App: a, base: "http://" + a.Addr(), stop: stop, done: make(chan error, 1), hup: make(chan os.Signal, 1)}
		if s.watches {
			a.ReadAgain(Reload{Environ: s.environ(), Hangup: r.hup})
		}
		go func() { r.done <- a.Serve(ctx) }()
		s.replicas = append(s.replicas, r)
		i := len(s.replicas) - 1
		s.Cleanup(func() { s.stop(i) }) // before the parts that it needs
	}
	return s
}

// stop ends replica i as SIGTERM does.
func (s *stack) stop(i int) {
	s.Helper()
	s.replicas[i].stop()
	if err := <-s.replicas[i].done; err != nil {
		s.Errorf("stopping: %v", err)
	}
	s.replicas[i].done <- nil
}

// leaks looks at what was printed, after everything has stopped.
func (s *stack) leaks() {
	if strings.Contains(s.printed.String(), "ana.maria") {
		s.Error("a recipient was logged")
	}
	if strings.Contains(s.printed.String(), apiKey) || strings.Contains(s.printed.String(), token) {
		s.Error("a key was logged")
	}
	if strings.Contains(s.printed.String(), `"msg":"panic"`) {
		s.Error("a request panicked")
	}
}

// answer is what came back.
type answer struct {
	status int
	header http.Header
	raw    []byte
	verificationBody
}

type verificationBody struct {
	ID                string
	Status            json.RawMessage
	Type              string
	Field             string
	To                string
	Valid             bool
	RetryAfter        int      `json:"retry_after"`
	RetryAfterMS      int      `json:"retry_after_ms"`
	BlockedBy         string   `json:"blocked_by"`
	Violated          []string `json:"violated-policies"`
	AttemptsRemaining *int     `json:"attempts_remaining"`
	Send              struct {
		ID, Status, Reason string
		Number             int
	}
	Quota struct {
		Allowed    bool
		RetryAfter int    `json:"retry_after"`
		BlockedBy  string `json:"blocked_by"`
		Rules      []struct {
			Name                     string
			Limit, Window, Remaining int
			ResetAfter               int `json:"reset_after"`
		}
	}
}

var client = &http.Client{Timeout: time.Minute, Transport: &http.Transport{MaxConnsPerHost: 100, MaxIdleConnsPerHost: 100}}

func (s *stack) do(i int, method, path, body string, change ...func(*http.Request)) answer {
	s.Helper()
	req, err := http.NewRequest(method, s.replicas[i].base+path, strings.NewReader(body))
	if err != nil {
		s.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+s.key)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for _, c := range change {
		c(req)
	}
	resp, err := client.Do(req)
	if err != nil {
		s.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		s.Fatal(err)
	}
	_, _ = fmt.Fprintf(s.answered, "%v\n%s\n", resp.Header, raw)
	a := answer{status: resp.StatusCode, header: resp.Header, raw: raw}
	if strings.HasSuffix(resp.Header.Get("Content-Type"), "json") {
		if err := json.Unmarshal(raw, &a.verificationBody); err != nil {
			s.Fatalf("%s: %v", raw, err)
		}
	}
	return a
}

func (s *stack) ask(i int, to string) answer {
	s.Helper()
	return s.do(i, http.MethodPost, "/v1/verifications", fmt.Sprintf(`{"channel":"email","to":%q,"locale":"en"}`, to))
}

// askFrom asks for a client whose address the back end names.
func (s *stack) askFrom(i int, client, to string) answer {
	s.Helper()
	return s.do(i, http.MethodPost, "/v1/verifications", fmt.Sprintf(`{"channel":"email","to":%q,"locale":"en","client_ip":%q}`, to, client))
}

// state is a status in quotes, or the number of a problem.
func (a answer) state() string { return strings.Trim(string(a.Status), `"`) }

// letter is what a person received.
type letter struct{ id, to, text string }

func (s *stack) mails() []letter {
	var out []letter
	if s.smtp != nil {
		for _, m := range s.smtp.Messages() {
			out = append(out, letter{m.ID, strings.Join(m.To, ","), string(m.Data)})
		}
		return out
	}
	for _, r := range s.replicas {
		if r.Mailbox() == nil {
			continue
		}
		for _, m := range r.Mailbox().Messages() {
			out = append(out, letter{m.ID, m.To, m.Text})
		}
	}
	return out
}

// awaitMail waits until to has n mails, and returns them.
func (s *stack) awaitMail(to string, n int) []letter {
	s.Helper()
	var got []letter
	s.await(fmt.Sprintf("%d mails", n), func() bool {
		got = nil
		for _, m := range s.mails() {
			if m.to == to {
				got = append(got, m)
			}
		}
		return len(got) >= n
	})
	return got
}

// patience is how long something may take on a busy machine that will happen.
const patience = 2 * time.Minute

// await polls until done.
func (s *stack) await(what string, done func() bool) {
	s.Helper()
	deadline := time.After(patience)
	for !done() {
		select {
		case <-deadline:
			s.Fatalf("waited %v for %s", patience, what)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// after waits for a time that a client was told to wait.
func after(d time.Duration) { <-time.After(d) }

var codeLine = regexp.MustCompile(`(?m)^\s*(\d{6,10}|[BCDFGHJKLMNPQRSTVWXZ]{8})\s*$`)

func (s *stack) codeIn(m letter) string {
	s.Helper()
	found := codeLine.FindStringSubmatch(strings.ReplaceAll(m.text, "\r", ""))
	if found == nil {
		s.Fatalf("no code in the mail")
	}
	return found[1]
}

func contains(b *parts.Text, text string) bool { return strings.Contains(b.String(), text) }
