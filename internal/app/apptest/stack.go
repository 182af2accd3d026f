// Package apptest runs the service as operators do, for tests of the whole: one or more replicas, by environment alone, in the
// test's process or as processes of their own, alone or on real Redis, Postgres and a mail server. The tests of internal/e2e
// use it; the service does not.
package apptest

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

	"sendcode/internal/app"
	"sendcode/internal/config"
	"sendcode/internal/delivery/smtptest"
	"sendcode/internal/parts"
)

// Stack is one or more replicas with the parts that they share, as an operator runs them: by environment alone.
type Stack struct {
	*testing.T
	Env      map[string]string
	Key      string
	Replicas []*Replica
	Redis    *parts.RedisServer
	Postgres *parts.PostgresServer
	SMTP     *smtptest.Server
	Printed  *parts.Text
	Answered *parts.Text // every answer, but the dev mailbox's
	watches  bool        // whether replicas read their configuration again
}

// Replica is one process's worth of service, run inside the test.
type Replica struct {
	*app.App
	Base   string
	Hangup chan os.Signal
	stop   context.CancelFunc
	done   chan error
}

// Whom codes are for, as logs show it, and the keys of the API and of administrators.
const (
	Ana       = "ana.maria.canary@example.com"
	AnaMasked = "a•••@example.com"
	APIKey    = "sk_0123456789abcdefghijABCDEFGHIJ"
	Token     = "an-admin-token-of-forty-characters-or-so"
)

// Embedded returns a service as `make run` starts it, without Redis, Postgres and a mail server.
func Embedded(t *testing.T) *Stack {
	t.Helper()
	s := newStack(t)
	s.Env["SENDCODE_DATA_DIR"] = filepath.Join(t.TempDir(), "data")
	return s
}

// OnRealParts returns a service on Redis, Postgres and a mail server that requires STARTTLS and a password.
func OnRealParts(t *testing.T) *Stack {
	t.Helper()
	s := newStack(t)
	s.Redis, s.Postgres = parts.Redis(t), parts.Postgres(t)
	s.SMTP = smtptest.StartAt(t, parts.FreePort(t), smtptest.Script{TLS: smtptest.STARTTLS, Username: "sendcode", Password: "a password & more"})
	s.Env["SENDCODE_DATA_DIR"] = filepath.Join(t.TempDir(), "data")
	s.Env["SENDCODE_REDIS_URL"] = s.Redis.URL()
	s.Env["SENDCODE_DATABASE_URL"] = s.Postgres.URL()
	s.Env["SENDCODE_SMTP_URL"] = s.SMTP.URL()
	s.Env["SENDCODE_SECRET_KEYS"] = "k1:q83vEjRWeJCrze8SNFZ4kLD3QZxs0lr2uTnVYQ1bXoM="
	s.Env["SENDCODE_INDEX_KEY"] = "8mF2hT0cJr4xWq7nZl9sVb3yKd6gPe1uAoXiRtNwQzE="
	s.Env["SENDCODE_ADMIN_PASSWORD"] = "a password for the tests"
	return s
}

func newStack(t *testing.T) *Stack {
	t.Helper()
	s := &Stack{T: t, Key: APIKey, Printed: &parts.Text{}, Answered: &parts.Text{}, Env: map[string]string{
		"SENDCODE_ADDR": "127.0.0.1:0", "SENDCODE_API_KEY": APIKey, "SENDCODE_ADMIN_TOKEN": Token, "SENDCODE_ADMIN_TOKEN_ROLE": "owner",
	}}
	t.Cleanup(s.checkNoSecretsLogged)
	return s
}

// Policy replaces the default rules.
func (s *Stack) Policy(yaml string) *Stack {
	s.Helper()
	file := filepath.Join(s.TempDir(), "sendcode.yaml")
	if err := os.WriteFile(file, []byte("policies:\n  default:\n"+yaml), 0o600); err != nil {
		s.Fatal(err)
	}
	s.Env["SENDCODE_CONFIG"] = file
	return s
}

func (s *Stack) environ() []string {
	var environ []string
	for name, value := range s.Env {
		environ = append(environ, name+"="+value)
	}
	return environ
}

// Config loads the configuration as a replica does.
func (s *Stack) Config() config.Config {
	s.Helper()
	cfg, err := config.Load(s.environ(), os.ReadFile)
	if err != nil {
		s.Fatal(err)
	}
	return cfg
}

// Start starts n more replicas.
func (s *Stack) Start(n int) *Stack {
	s.Helper()
	for range n {
		logger := slog.New(slog.NewJSONHandler(s.Printed, &slog.HandlerOptions{Level: slog.LevelDebug}))
		a, err := app.New(s.Context(), s.Config(), logger)
		if err != nil {
			s.Fatal(err)
		}
		ctx, stop := context.WithCancel(context.Background())
		r := &Replica{App: a, Base: "http://" + a.Addr(), stop: stop, done: make(chan error, 1), Hangup: make(chan os.Signal, 1)}
		if s.watches {
			a.ReadAgain(app.Reload{Environ: s.environ(), Hangup: r.Hangup})
		}
		go func() { r.done <- a.Serve(ctx) }()
		s.Replicas = append(s.Replicas, r)
		i := len(s.Replicas) - 1
		s.Cleanup(func() { s.Stop(i) }) // before the parts that it needs
	}
	return s
}

// Stop stops replica i as SIGTERM does.
func (s *Stack) Stop(i int) {
	s.Helper()
	s.Replicas[i].stop()
	if err := <-s.Replicas[i].done; err != nil {
		s.Errorf("stopping: %v", err)
	}
	s.Replicas[i].done <- nil
}

// checkNoSecretsLogged fails the test if a recipient or a key was logged, or if a request panicked. Call it after everything has
// stopped.
func (s *Stack) checkNoSecretsLogged() {
	if strings.Contains(s.Printed.String(), "ana.maria") {
		s.Error("a recipient was logged")
	}
	if strings.Contains(s.Printed.String(), APIKey) || strings.Contains(s.Printed.String(), Token) {
		s.Error("a key was logged")
	}
	if strings.Contains(s.Printed.String(), `"msg":"panic"`) {
		s.Error("a request panicked")
	}
}

// Answer is what came back.
type Answer struct {
	StatusCode int
	Header     http.Header
	Raw        []byte
	VerificationBody
}

// VerificationBody is all that the JSON of answers may have.
type VerificationBody struct {
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

// Client is that of all requests.
var Client = &http.Client{Timeout: time.Minute, Transport: &http.Transport{MaxConnsPerHost: 100, MaxIdleConnsPerHost: 100}}

// Do sends one request to replica i and returns its answer.
func (s *Stack) Do(i int, method, path, body string, change ...func(*http.Request)) Answer {
	s.Helper()
	req, err := http.NewRequest(method, s.Replicas[i].Base+path, strings.NewReader(body))
	if err != nil {
		s.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+s.Key)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for _, c := range change {
		c(req)
	}
	resp, err := Client.Do(req)
	if err != nil {
		s.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		s.Fatal(err)
	}
	_, _ = fmt.Fprintf(s.Answered, "%v\n%s\n", resp.Header, raw)
	a := Answer{StatusCode: resp.StatusCode, Header: resp.Header, Raw: raw}
	if strings.HasSuffix(resp.Header.Get("Content-Type"), "json") {
		if err := json.Unmarshal(raw, &a.VerificationBody); err != nil {
			s.Fatalf("%s: %v", raw, err)
		}
	}
	return a
}

// Ask asks for a code by mail.
func (s *Stack) Ask(i int, to string) Answer {
	s.Helper()
	return s.Do(i, http.MethodPost, "/v1/verifications", fmt.Sprintf(`{"channel":"email","to":%q,"locale":"en"}`, to))
}

// AskFrom asks for a code with a back end's key, which names the client's address.
func (s *Stack) AskFrom(i int, client, to string) Answer {
	s.Helper()
	return s.Do(i, http.MethodPost, "/v1/verifications", fmt.Sprintf(`{"channel":"email","to":%q,"locale":"en","client_ip":%q}`, to, client))
}

// State returns the answer's status field, or the status number of a problem.
func (a Answer) State() string { return strings.Trim(string(a.Status), `"`) }

// Letter is what a person received.
type Letter struct{ ID, To, Text string }

// Mails returns all mails that were sent so far.
func (s *Stack) Mails() []Letter {
	var out []Letter
	if s.SMTP != nil {
		for _, m := range s.SMTP.Messages() {
			out = append(out, Letter{m.ID, strings.Join(m.To, ","), string(m.Data)})
		}
		return out
	}
	for _, r := range s.Replicas {
		if r.Mailbox() == nil {
			continue
		}
		for _, m := range r.Mailbox().Messages() {
			out = append(out, Letter{m.ID, m.To, m.Text})
		}
	}
	return out
}

// AwaitMail waits until to has n mails, and returns them.
func (s *Stack) AwaitMail(to string, n int) []Letter {
	s.Helper()
	var got []Letter
	s.Await(fmt.Sprintf("%d mails", n), func() bool {
		got = nil
		for _, m := range s.Mails() {
			if m.To == to {
				got = append(got, m)
			}
		}
		return len(got) >= n
	})
	return got
}

// Patience is how long something may take on a busy machine that will happen.
const Patience = 2 * time.Minute

// Await polls until done returns true, and fails the test after Patience.
func (s *Stack) Await(what string, done func() bool) {
	s.Helper()
	deadline := time.After(Patience)
	for !done() {
		select {
		case <-deadline:
			s.Fatalf("waited %v for %s", Patience, what)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Sleep waits for d, which a client was told to wait.
func Sleep(d time.Duration) { <-time.After(d) }

var codeLine = regexp.MustCompile(`(?m)^\s*(\d{6,10}|[BCDFGHJKLMNPQRSTVWXZ]{8})\s*$`)

// CodeIn returns the code in a mail.
func (s *Stack) CodeIn(m Letter) string {
	s.Helper()
	found := codeLine.FindStringSubmatch(strings.ReplaceAll(m.Text, "\r", ""))
	if found == nil {
		s.Fatalf("no code in the mail")
	}
	return found[1]
}

// Contains says whether a text is in what was printed.
func Contains(b *parts.Text, text string) bool { return strings.Contains(b.String(), text) }
