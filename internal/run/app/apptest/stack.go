// Package apptest runs the service as operators do, for tests of the whole service. A Stack has one
// or more replicas, in the test's process or in processes of their own, with SQLite or with real
// Redis, Postgres and a mail server. Only tests use it.
package apptest

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"sendcode/internal/codes/code/codetest"
	"sendcode/internal/deliver/delivery/smtptest"
	"sendcode/internal/kit/servertest"
	"sendcode/internal/run/app"
	"sendcode/internal/run/config"
)

// Stack is one or more replicas with the parts that they share. Its environment variables configure
// the replicas.
type Stack struct {
	*testing.T
	Env      map[string]string
	Key      string
	Replicas []*Replica
	Redis    *servertest.RedisServer
	Nodes    []*servertest.RedisServer // nodes of a Redis Cluster, or the servers that Sentinel watches; one of them is Redis
	Sentinel *servertest.SentinelServer
	Postgres *servertest.PostgresServer
	Standby  *servertest.PostgresServer // the standby of Postgres
	Pooler   *servertest.PgBouncerServer
	SMTP     *smtptest.Server
	Printed  *servertest.Text
	Answered *servertest.Text          // what Do returned, and what tests add
	Wrong    func(right string) string // another wrong code at each call; see codetest.WrongCodes
	watches  bool                      // whether replicas read their configuration again
}

// Replica is a service that runs in the test's process, as one replica of several.
type Replica struct {
	*app.App
	Base   string
	Hangup chan os.Signal
	stop   context.CancelFunc
	done   chan error
}

// Ana is a recipient, and AnaMasked is the form of the address in logs. APIKey is a key of the API,
// and Token the token of an administrator.
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

func newStack(t *testing.T) *Stack {
	t.Helper()
	waitLonger()
	s := &Stack{
		T: t, Key: APIKey, Wrong: codetest.WrongCodes(t.Name()), Printed: &servertest.Text{},
		Answered: &servertest.Text{}, Env: map[string]string{
			"SENDCODE_ADDR": "127.0.0.1:0", "SENDCODE_DRAIN": "0s", "SENDCODE_API_KEY": APIKey,
			"SENDCODE_METRICS_TOKEN": servertest.MetricsToken,
		},
	}
	t.Cleanup(s.checkLog)
	return s.Write("")
}

// Write writes the configuration file, and adds Token to it as the token of an owner.
func (s *Stack) Write(content string) *Stack {
	s.Helper()
	tokens := fmt.Sprintf("\nadmin: {tokens: [{id: tests, role: owner, sha256: %x}]}\n", sha256.Sum256([]byte(Token)))
	if !strings.Contains(content, tokens) {
		content += tokens
	}
	if s.Env["SENDCODE_CONFIG"] == "" {
		s.Env["SENDCODE_CONFIG"] = filepath.Join(s.TempDir(), "sendcode.yaml")
	}
	Must(s.T, os.WriteFile(s.Env["SENDCODE_CONFIG"], []byte(content), 0o600))
	return s
}

// Add appends settings to the configuration's file.
func (s *Stack) Add(more string) *Stack {
	s.Helper()
	content, err := os.ReadFile(s.Env["SENDCODE_CONFIG"])
	Must(s.T, err)
	return s.Write(string(content) + more)
}

// Policy writes a configuration file. Its only settings are these rules of the policy default.
func (s *Stack) Policy(rules string) *Stack {
	s.Helper()
	return s.Write("policies:\n  default:\n" + rules)
}

// Watching makes the replicas watch their configuration file.
func (s *Stack) Watching() *Stack { s.watches = true; return s }

func (s *Stack) environ() []string {
	var environ []string
	for name, value := range s.Env {
		environ = append(environ, name+"="+value)
	}
	return environ
}

// Config loads the configuration as a replica does. A replica with this configuration waits for its
// parts when it starts.
func (s *Stack) Config() config.Config {
	s.Helper()
	cfg, err := config.Load(s.environ(), os.ReadFile)
	Must(s.T, err)
	cfg.StartWait = servertest.Patience
	return cfg
}

// Start starts n more replicas.
func (s *Stack) Start(n int) *Stack {
	s.Helper()
	for range n {
		a, err := s.New(s.Config())
		Must(s.T, err)
		s.Serve(a)
	}
	return s
}

// New builds a replica, for Serve. The replica logs to Printed.
func (s *Stack) New(cfg config.Config) (*app.App, error) {
	logger := slog.New(slog.NewJSONHandler(s.Printed, &slog.HandlerOptions{Level: slog.LevelDebug}))
	return app.New(s.Context(), cfg, logger)
}

// Serve runs a replica that New built, until Stop or the end of the test.
func (s *Stack) Serve(a *app.App) {
	s.Helper()
	ctx, stop := context.WithCancel(context.Background())
	r := &Replica{App: a, Base: "http://" + a.Addr(), stop: stop, done: make(chan error, 1), Hangup: make(chan os.Signal, 1)}
	if s.watches {
		a.SetReload(app.ReloadOptions{Environ: s.environ(), Hangup: r.Hangup})
	}
	go func() { r.done <- a.Serve(ctx) }()
	s.Replicas = append(s.Replicas, r)
	i := len(s.Replicas) - 1
	s.Cleanup(func() { s.Stop(i) }) // stops before the parts that it needs
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

// Restart stops the only replica and starts another one.
func (s *Stack) Restart() {
	s.Helper()
	s.Stop(0)
	s.Replicas = nil
	s.Start(1)
}

// checkLog fails the test if a recipient or a key was logged, if any work panicked, or if a process
// had a data race. Call it after all replicas have stopped.
func (s *Stack) checkLog() {
	for _, never := range []string{"ana.maria", APIKey, Token, `"msg":"panic"`, "WARNING: DATA RACE"} {
		if s.Logged(never) {
			s.Errorf("the log has %q", never)
		}
	}
}

// Logged reports whether the log has a text.
func (s *Stack) Logged(text string) bool { return strings.Contains(s.Printed.String(), text) }

// LinesOf returns the lines of the log that have a text.
func (s *Stack) LinesOf(text string) string {
	var found strings.Builder
	for line := range strings.Lines(s.Printed.String()) {
		if strings.Contains(line, text) {
			found.WriteString(line)
		}
	}
	return found.String()
}

// Answer is a response with its body.
type Answer struct {
	StatusCode int
	Header     http.Header
	Raw        []byte
	VerificationBody
}

// Problem returns the kind of problem that the answer is: the last segment of its type.
func (a Answer) Problem() string { return path.Base(a.Type) }

// VerificationBody has the members of answers that tests read.
type VerificationBody struct {
	ID                string
	Status            json.RawMessage
	Type              string
	Field             string
	To                string
	Proof             string
	Valid             bool
	RetryAfter        int      `json:"retry_after"`
	RetryAfterMS      int      `json:"retry_after_ms"`
	BlockedBy         string   `json:"blocked_by"`
	Violated          []string `json:"violated-policies"`
	AttemptsRemaining *int     `json:"attempts_remaining"`
	Send              struct {
		ID, Status, Reason string
	}
	Quota struct {
		Allowed    bool
		RetryAfter int       `json:"retry_after"`
		RetryAt    time.Time `json:"retry_at"`
		BlockedBy  string    `json:"blocked_by"`
		Rules      []struct {
			Name                     string
			Limit, Window, Remaining int
		}
	}
}

// Client sends all requests. The service closes an unused connection after 5 s; Client closes it
// earlier, since net/http does not repeat a POST on a connection that the server has closed.
var Client = &http.Client{Timeout: servertest.Patience, Transport: &http.Transport{
	MaxConnsPerHost: 100, MaxIdleConnsPerHost: 100, IdleConnTimeout: 2 * time.Second,
}}

// At sends one request to a base URL. It returns the answer, or an error if there is no answer.
func (s *Stack) At(base, method, path, body string, change ...func(*http.Request)) (a Answer, err error) {
	req, err := http.NewRequest(method, base+path, strings.NewReader(body))
	if err != nil {
		return a, err
	}
	req.Header.Set("Authorization", "Bearer "+s.Key)
	if path == "/metrics" {
		req.Header.Set("Authorization", "Bearer "+servertest.MetricsToken)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for _, c := range change {
		c(req)
	}
	resp, err := Client.Do(req)
	if err != nil {
		return a, err
	}
	defer resp.Body.Close()
	a = Answer{StatusCode: resp.StatusCode, Header: resp.Header}
	if a.Raw, err = io.ReadAll(resp.Body); err == nil && strings.HasSuffix(resp.Header.Get("Content-Type"), "json") {
		err = json.Unmarshal(a.Raw, &a.VerificationBody)
	}
	return a, err
}

// Do sends one request to replica i and returns its answer.
func (s *Stack) Do(i int, method, path, body string, change ...func(*http.Request)) Answer {
	s.Helper()
	a, err := s.At(s.Replicas[i].Base, method, path, body, change...)
	if err != nil {
		s.Fatalf("%s: %v", a.Raw, err)
	}
	_, _ = fmt.Fprintf(s.Answered, "%v\n%s\n", a.Header, a.Raw)
	return a
}

// Post sends a POST to the first replica.
func (s *Stack) Post(path, body string, change ...func(*http.Request)) Answer {
	s.Helper()
	return s.Do(0, http.MethodPost, path, body, change...)
}

// Get sends a GET to the first replica.
func (s *Stack) Get(path string, change ...func(*http.Request)) Answer {
	s.Helper()
	return s.Do(0, http.MethodGet, path, "", change...)
}

// Verification reads a verification from replica 0.
func (s *Stack) Verification(id string) Answer { s.Helper(); return s.Get("/v1/verifications/" + id) }

// AwaitState waits until the newest send of a verification has a status.
func (s *Stack) AwaitState(id, status string) {
	s.Helper()
	s.Await("a send that is "+status, func() bool { return s.Verification(id).Send.Status == status })
}

// Ask requests a code by mail from replica i.
func (s *Stack) Ask(i int, to string, change ...func(*http.Request)) Answer {
	s.Helper()
	return s.Do(i, http.MethodPost, "/v1/verifications", fmt.Sprintf(`{"channel":"email","to":%q,"locale":"en"}`, to), change...)
}

// State returns the answer's status field, or the status number of a problem.
func (a Answer) State() string { return strings.Trim(string(a.Status), `"`) }

// Letter is a mail that a person received.
type Letter struct {
	ID, To, Text string
	At           time.Time
}

// Mails returns all mails that were sent so far.
func (s *Stack) Mails() []Letter {
	var out []Letter
	if s.SMTP != nil {
		for _, m := range s.SMTP.Messages() {
			out = append(out, Letter{m.ID, strings.Join(m.To, ","), string(m.Data), m.At})
		}
		return out
	}
	for _, r := range s.Replicas {
		if r.Mailbox() == nil {
			continue
		}
		for _, m := range r.Mailbox().Messages() {
			out = append(out, Letter{m.ID, m.To, m.Text, m.At})
		}
	}
	return out
}

// AwaitMail waits until the recipient to has n mails, and returns them.
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

// Await calls [servertest.Await].
func (s *Stack) Await(what string, done func() bool) { s.Helper(); servertest.Await(s, what, done) }

// Sleep is for a wait that belongs to a test, such as a client's wait before it tries again. A test
// that waits for a condition calls Await.
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

// Must ends the test if err is not nil.
func Must(t *testing.T, err error) {
	t.Helper()
	servertest.OK(t, err)
}
