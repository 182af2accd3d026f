package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"sendcode/internal/kit/servertest"
	"sendcode/internal/run/app"
	"sendcode/internal/run/config"
	"sendcode/internal/store/sqlite"
)

// role names the environment variable that makes this test binary run as sendcode.
const role = "SENDCODE_TEST_ROLE"

func TestMain(m *testing.M) {
	if os.Getenv(role) != "" {
		main()
	}
	os.Exit(m.Run())
}

// newProcess prepares a newProcess of this program, in a directory of its own. It inherits no
// SENDCODE_ variable from this process.
func newProcess(t *testing.T, environ ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Dir = t.TempDir()
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "SENDCODE_") {
			cmd.Env = append(cmd.Env, e)
		}
	}
	cmd.Env = append(append(cmd.Env, role+"=main", "SENDCODE_ADDR=127.0.0.1:0", "SENDCODE_DRAIN=0s"), environ...)
	return cmd
}

// sendcode runs a command line in this process. It fails the test if the command leaves a file
// behind.
func sendcode(t *testing.T, environ []string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	t.Chdir(t.TempDir())
	stdout, stderr, code = runInProcess(program{environ: environ}, args...)
	if left, err := os.ReadDir("."); err != nil || len(left) != 0 {
		t.Errorf("sendcode %v left %v behind (%v)", args, left, err)
	}
	return stdout, stderr, code
}

// runInProcess runs a command line in this process. p.serve replaces the service.
func runInProcess(p program, args ...string) (stdout, stderr string, code int) {
	type exit int
	var out, err bytes.Buffer
	p.out, p.err = &out, &err
	defer func() {
		switch left := recover().(type) {
		case nil:
		case exit:
			code = int(left)
		default:
			panic(left)
		}
		stdout, stderr = out.String(), err.String()
	}()
	return "", "", p.run(context.Background(), args, func(code int) { panic(exit(code)) })
}

func TestCommands(t *testing.T) {
	mistakes := []string{"SENDCODE_ADDR=nowhere", "SENDCODE_ADR=x", "SENDCODE_REDIS_URL=redis://u:12/hidden@h", "SENDCODE_API_KEY=hidden"}
	valid := []string{
		"SENDCODE_API_KEY=sk_hiddenhiddenhidden1", "SENDCODE_DATABASE_URL=postgres://u:hidden@h/d",
		"SENDCODE_ADDR=127.0.0.1:9",
	}
	const all = "4 mistakes|SENDCODE_ADDR: |did you mean SENDCODE_ADDR?|SENDCODE_REDIS_URL: |SENDCODE_API_KEY: "
	for _, c := range []struct {
		args        string
		environ     []string
		code        int
		out, stderr string // texts that the outputs contain; "": the output must be empty
	}{
		{"", mistakes, 1, "", all},
		{"serve", mistakes, 1, "", all},
		{"migrate", mistakes, 1, "", all},
		{"config", mistakes, 1, "", all},
		{"doctor", mistakes, 1, "", all},
		{
			"config", valid, 0, "addr: 127.0.0.1:9\n|postgres://u:***@h/d|SENDCODE_API_KEY: set\n",
			"warning: SENDCODE_REDIS_URL is not set",
		},
		{"config --example", mistakes, 0, "\nretention: 2160h\n|With type: twilio", ""},
		{"config --schema", mistakes, 0, "https://json-schema.org/draft/2020-12/schema|requests_per_minute", ""},
		{"version", mistakes, 0, "sendcode 0.", ""},
		{"health --addr=127.0.0.1:1", mistakes, 1, "", "connect: connection refused"},
		{"bounce", mistakes, 75, "", "4 mistakes"},
		{"bounce --urls=x", nil, 75, "", "unknown flag --urls"},
		{"bounce", []string{"SENDCODE_DATA_DIR=" + t.TempDir()}, 75, "", "provider_events has no entry with the scheme dsn"},
		{"demo", mistakes, 2, "", "sendcode: error: "},
		{"man", mistakes, 2, "", "sendcode: error: "},
		{"--help", mistakes, 0, "doctor|docs/configuration.md", ""},
		{"help party", mistakes, 2, "", "party"},
		{"serve --hold-until=tomorrow", nil, 2, "", "--hold-until"},
		{"--hold-until=2026-01-01T00:00:00Z", nil, 2, "", "--hold-until was more than 48h0m0s ago: leave it out"},
		{"serve --hold-until=2999-01-01T00:00:00Z", nil, 2, "", "--hold-until is more than 48h0m0s ahead"},
		{"serve --debug-addr=:6060", nil, 2, "", "profiles show what is in memory"},
		{"--debug-addr=6060", nil, 2, "", "profiles show"},
		{"doctor --dkim-selector=s1._domainkey", mistakes, 2, "", "DKIM selector"},
		{"backup -", []string{"SENDCODE_DATA_DIR=" + t.TempDir()}, 1, "", "there is no database to copy"},
		{"move --to=x", nil, 1, "", "--to must be the URL of a Postgres"},
		{"copy --to=x", nil, 1, "", "copy is now called move|--to must be the URL of a Postgres"},
		{"copy", nil, 2, "", "copy is now called move|missing flags: --to|usage: move --to"},
		{"restore away.tar", nil, 2, "", "away.tar"},
		{"doctor --behind=http://codes.example", mistakes, 2, "", "--behind must begin with https://"},
		{"doctor --to=ana", mistakes, 2, "", "--to: invalid recipient"},
		{"doctor --app=shop", mistakes, 2, "", "--app needs --to"},
		{"sevre", nil, 2, "", "there is no command sevre, did you mean serve?|\n  migrate  Update"},
		{"nothing", nil, 2, "", "there is no command nothing\n|\n  doctor   Try"},
		{"admin", nil, 2, "", "usage: admin <do>|add, role, identity, password, factor, close, open or list"},
		{"admin export", nil, 2, "", "export needs --to and --reason"},
		{"admin add", nil, 2, "", "add needs <name> and --reason"},
		{"admin close ana", nil, 2, "", "close needs --reason"},
		{"key --kind=rsa", nil, 2, "", "sendcode: error: "},
		{"config x", nil, 2, "", "sendcode: error: "},
		{"--colour", nil, 2, "", "sendcode: error: "},
	} {
		out, stderr, code := sendcode(t, c.environ, strings.Fields(c.args)...)
		if code != c.code || strings.Contains(out+stderr, "hidden") {
			t.Errorf("%s: code %d, or a secret is shown: %s%s", c.args, code, out, stderr)
		}
		for _, x := range []struct{ got, want string }{{out, c.out}, {stderr, c.stderr}} {
			for piece := range strings.SplitSeq(x.want, "|") {
				if !strings.Contains(x.got, piece) || x.want == "" && x.got != "" {
					t.Errorf("%s: no %q in %q", c.args, piece, x.got)
				}
			}
		}
	}
}

func TestKeys(t *testing.T) {
	for _, kind := range []string{"secret", "public"} {
		out, stderr, code := sendcode(t, nil, "key", "--kind", kind)
		value := strings.TrimSpace(out)
		_, line, _ := strings.Cut(stderr, "\n- {")
		line, _, _ = strings.Cut("- {"+line, "\n")
		if code != 0 || !strings.HasPrefix(value, map[string]string{"secret": "sk_", "public": "pk_"}[kind]) || len(value) != 35 {
			t.Errorf("%s: code %d, %q", kind, code, out)
		}
		file := "apps:\n  - name: shop\n    keys:\n      " + line
		c, err := config.Load([]string{"SENDCODE_CONFIG=f"}, func(string) ([]byte, error) { return []byte(file), nil })
		servertest.OK(t, err)
		if k := c.Apps[1].Keys[0]; k.SHA256 != sha256.Sum256([]byte(value)) || string(k.Kind) != kind {
			t.Errorf("the line is not of the key: %+v", k)
		}
	}
	// With --trust=known, the printed line has trust: known. A public key can't have it.
	if _, stderr, code := sendcode(t, nil, "key", "--trust=known"); code != 0 || !strings.Contains(stderr, ", kind: secret, trust: known, sha256: ") {
		t.Errorf("code %d, %q", code, stderr)
	}
	if out, stderr, code := sendcode(t, nil, "key", "--trust=known", "--kind=public"); code == 0 || out != "" || !strings.Contains(stderr, "--kind secret") {
		t.Errorf("code %d, %q, %q", code, out, stderr)
	}
	// The output has all variables with secrets, one on each line.
	out, _, code := sendcode(t, nil, "key", "--kind", "env")
	if names, lines := strings.Count(out, "SENDCODE_"), strings.Count(out, "\n"); code != 0 || names != 6 || lines != 6 {
		t.Errorf("code %d, %d variables in %d lines", code, names, lines)
	}
	made := func(kind string) string {
		out, _, _ := sendcode(t, nil, "key", "--kind="+kind)
		return strings.TrimSuffix(out, "\n")
	}
	environ := []string{
		"SENDCODE_SECRET_KEYS=" + made("ring"), "SENDCODE_INDEX_KEY=" + made("index"),
		"SENDCODE_API_KEY=" + made("secret"),
		"SENDCODE_WEBHOOK_SECRETS=default:" + made("webhook"),
	}
	if _, err, code := sendcode(t, environ, "config"); code != 0 {
		t.Errorf("the settings refuse what key makes: %s", err)
	}
}

// A health check prints the answer of /readyz. It sends the admin token of the settings, so the
// answer has the reasons.
func TestHealth(t *testing.T) {
	const token = "admin-token-of-a-test-0123456789"
	for status, code := range map[int]int{http.StatusOK: 0, http.StatusServiceUnavailable: 1} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/readyz" {
				t.Errorf("%s was asked for", r.URL.Path)
			}
			w.WriteHeader(status)
			_, _ = io.WriteString(w, "as it is\n")
			if r.Header.Get("Authorization") == "Bearer "+token {
				_, _ = io.WriteString(w, "and why\n")
			}
		}))
		defer s.Close()
		out, stderr, got := sendcode(t, nil, "health", "--addr="+s.Listener.Addr().String())
		if got != code || out != "as it is\n" || (stderr == "") != (code == 0) {
			t.Errorf("%d: code %d, %q, %q", status, got, out, stderr)
		}
		file := "addr: " + s.Listener.Addr().String() + "\nmail_from: Shop <no-reply@shop.example>\n"
		if out, stderr, got := sendcode(t, []string{"SENDCODE_CONFIG_YAML=" + file}, "health"); got != code || out != "as it is\n" {
			t.Errorf("addr in the file, %d: code %d, %q, %q", status, got, out, stderr)
		}
		out, stderr, got = sendcode(t, []string{"SENDCODE_CONFIG_YAML=" + file, "SENDCODE_ADMIN_TOKEN=" + token}, "health")
		if got != code || out != "as it is\nand why\n" {
			t.Errorf("with a token, %d: code %d, %q, %q", status, got, out, stderr)
		}
	}
}

func TestHelpIsACommandToo(t *testing.T) {
	for _, command := range [][]string{nil, {"key"}, {"admin", "add"}} {
		want, _, _ := sendcode(t, nil, append(command, "--help")...)
		if got, err, code := sendcode(t, nil, append([]string{"help"}, command...)...); code != 0 || got != want || want == "" {
			t.Errorf("help %v: code %d, %s%s, not %s", command, code, got, err, want)
		}
	}
}

// The doctor prints each line once. If Redis doesn't answer, the Redis library prints no line of
// its own. The doctor looks up the selector's key even if the name servers answer nothing else.
func TestDoctor(t *testing.T) {
	for line, c := range map[string]struct{ environ, args []string }{
		"✗ redis: ":                     {[]string{"SENDCODE_REDIS_URL=redis://127.0.0.1:1"}, nil},
		"SENDCODE_REDIS_URL is not set": {[]string{"SENDCODE_DATABASE_URL=postgres://u@127.0.0.1:1/d"}, nil},
		"s1._domainkey.shop.invalid": {
			[]string{"SENDCODE_SMTP_URL=smtp://127.0.0.1:1", "SENDCODE_MAIL_FROM=codes@shop.invalid"},
			[]string{"--dkim-selector=s1"},
		},
	} {
		cmd := newProcess(t, c.environ...)
		cmd.Args = append(append(cmd.Args, "doctor"), c.args...)
		out, _ := cmd.CombinedOutput()
		if code := cmd.ProcessState.ExitCode(); code != 1 || strings.Count(string(out), line) != 1 ||
			strings.Contains(string(out), "pool.go") {
			t.Errorf("%v: code %d, %s", c.environ, code, out)
		}
	}
}

// startProcess starts a process and waits until it prints that it serves.
func startProcess(t *testing.T, cmd *exec.Cmd) *bufio.Reader {
	t.Helper()
	pipe, err := cmd.StdoutPipe()
	servertest.OK(t, err)
	if cmd.Stderr == nil {
		cmd.Stderr = os.Stderr
	}
	servertest.OK(t, cmd.Start())
	out := bufio.NewReader(pipe)
	awaitLine(t, out, "running")
	return out
}

// awaitLine reads up to a line that contains text, and returns the part of this line after text.
func awaitLine(t *testing.T, out *bufio.Reader, text string) string {
	t.Helper()
	for {
		line, err := out.ReadString('\n')
		if _, rest, found := strings.Cut(line, text); found {
			return rest
		}
		if err != nil {
			t.Fatalf("ended without saying %q: %v", text, err)
		}
	}
}

// The first signal ends the context, so that the program can finish its work. The second signal
// ends the process.
func TestContextUntilSignal(t *testing.T) {
	for second, want := range map[syscall.Signal]int{syscall.SIGTERM: 143, syscall.SIGINT: 130} {
		signals, exits := make(chan os.Signal, 2), make(chan int)
		ctx := contextUntilSignal(signals, func(code int) { exits <- code })
		signals <- second
		<-ctx.Done()
		if interrupted := errors.Is(context.Cause(ctx), app.ErrInterrupted); interrupted != (second == syscall.SIGINT) {
			t.Errorf("%v: the cause is %v", second, context.Cause(ctx))
		}
		if err := ignoreCanceled(ctx, fmt.Errorf("stopped: %w", ctx.Err())); err != nil {
			t.Error(err)
		}
		signals <- second
		if code := <-exits; code != want {
			t.Errorf("%v: code %d, want %d", second, code, want)
		}
	}
}

func TestServeFailureExitsWithOne(t *testing.T) {
	failure := errors.New("the port is taken")
	p := program{serve: func(context.Context, config.Config, app.ReloadOptions, *slog.Logger, io.Writer) error { return failure }}
	if out, stderr, code := runInProcess(p, "serve"); code != 1 || out != "" || stderr != "sendcode: the port is taken\n" {
		t.Errorf("code %d, %q, %q", code, out, stderr)
	}
}

// Logged times are in UTC, at a terminal and in JSON.
func TestServeGetsTheConfigurationAndALogger(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 678_900_000, time.FixedZone("east", 8*3600))
	for terminal, want := range map[bool]string{
		false: `Z","level":"WARN","msg":"this","at":"2026-01-01T19:04:05.678Z"}`,
		true:  `Z level=WARN msg=this at=2026-01-01T19:04:05.678Z`,
	} {
		p := program{terminal: terminal, environ: []string{"SENDCODE_ADDR=127.0.0.1:7", "SENDCODE_LOG_LEVEL=warn"}}
		until := time.Now().Add(47 * time.Hour).Truncate(time.Second)
		if terminal {
			until = until.Add(-94 * time.Hour) // after a hold, systemd may start the unit again with the same command line
		}
		p.serve = func(_ context.Context, c config.Config, _ app.ReloadOptions, l *slog.Logger, out io.Writer) error {
			l.Info("not this")
			l.Warn("this", "at", at)
			if !c.HoldUntil.Equal(until) || c.DebugAddr != "127.0.0.1:6060" || c.StartWait != 3*time.Second || c.Terminal != terminal {
				t.Errorf("held until %v, profiles at %q, waits for %v", c.HoldUntil, c.DebugAddr, c.StartWait)
			}
			_, err := fmt.Fprint(out, c.Addr)
			return err
		}
		out, stderr, code := runInProcess(p, "--hold-until="+until.Format(time.RFC3339), "--debug-addr=127.0.0.1:6060", "--wait=3s")
		if code != 0 || out != "127.0.0.1:7" || !strings.Contains(stderr, want) || strings.Contains(stderr, "not this") {
			t.Errorf("code %d, %q, %q", code, out, stderr)
		}
	}
}

// `backup -` shows its progress to a person at a terminal, but not in a timer's log.
func TestBackupShowsItsProgressAtATerminal(t *testing.T) {
	dir := t.TempDir()
	db, err := sqlite.Open(t.Context(), filepath.Join(dir, config.DatabaseFile), time.Now)
	servertest.OK(t, err)
	servertest.OK(t, db.Close())
	for _, terminal := range []bool{true, false} {
		p := program{terminal: terminal, environ: []string{"SENDCODE_DATA_DIR=" + dir}}
		_, stderr, code := runInProcess(p, "backup", "-")
		if code != 0 || strings.Contains(stderr, config.DatabaseFile+": ") != terminal {
			t.Errorf("terminal %t: code %d, %q", terminal, code, stderr)
		}
	}
}

// The heap is sampled only if its profile can be read.
func TestServeSamplesTheHeapWithADebugAddress(t *testing.T) {
	before := runtime.MemProfileRate
	defer func() { runtime.MemProfileRate = before }()
	for args, want := range map[string]int{"serve": 0, "serve --debug-addr=127.0.0.1:0": 1 << 19} {
		runtime.MemProfileRate = 1 << 19
		got := -1
		p := program{serve: func(context.Context, config.Config, app.ReloadOptions, *slog.Logger, io.Writer) error {
			got = runtime.MemProfileRate
			return nil
		}}
		if _, stderr, code := runInProcess(p, strings.Fields(args)...); code != 0 || got != want {
			t.Errorf("%s: a sample each %d bytes, want %d (%d, %s)", args, got, want, code, stderr)
		}
	}
}

// The whole program starts in an empty directory, as `make run` starts it. It prints the generated
// keys only to standard output, and logs no secret. A second process in the same directory serves
// once the first one has ended.
func TestServeInAnEmptyDirectory(t *testing.T) {
	cmd := newProcess(t, "SENDCODE_LOG_LEVEL=debug")
	var log servertest.Text
	cmd.Stderr = &log
	out := startProcess(t, cmd)
	key := "sk_" + strings.TrimSpace(awaitLine(t, out, "Bearer sk_"))
	key = strings.TrimRight(key, `' \`)
	awaitLine(t, out, `public-key="pk_`)
	secrets, err := os.ReadFile(filepath.Join(cmd.Dir, "data", "secrets.yaml"))
	if err != nil || !bytes.Contains(secrets, []byte(`api_key: "`+key+`"`)) {
		t.Errorf("secrets: %v", err)
	}
	second := newProcess(t)
	var waits servertest.Text
	second.Dir, second.Stderr = cmd.Dir, &waits
	pipe, err := second.StdoutPipe()
	servertest.OK(t, err)
	servertest.OK(t, second.Start())
	itsOut := bufio.NewReader(pipe)
	servertest.Await(t, "the second to wait", func() bool { return strings.Contains(waits.String(), "start waits: another process") })
	servertest.OK(t, cmd.Process.Signal(syscall.SIGTERM))
	rest, _ := io.ReadAll(out)
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v\n%s", err, rest)
	}
	awaitLine(t, itsOut, "running")
	servertest.OK(t, second.Process.Signal(syscall.SIGTERM))
	_, _ = io.ReadAll(itsOut)
	servertest.OK(t, second.Wait())
	if left, err := filepath.Glob(filepath.Join(cmd.Dir, "data", "*-wal*")); err != nil || len(left) != 0 {
		t.Errorf("the database was not closed: %v, %v", left, err)
	}
	lines := log.String()
	for line := range strings.Lines(string(secrets)) {
		if _, value, found := strings.Cut(line, ": \""); found && strings.Contains(lines, strings.TrimRight(value, "\"\n")) {
			t.Errorf("a secret is logged: %s", lines)
		}
	}
	if !strings.Contains(lines, `"msg":"serving","addr":"127.0.0.1:`) || strings.Contains(lines, "sk_") ||
		strings.Contains(lines, "pk_") {
		t.Errorf("the log: %s", lines)
	}
}

// SIGTERM makes /readyz fail, and requests are answered until SENDCODE_DRAIN is over or a second
// signal comes. After SIGINT, the program does not wait for SENDCODE_DRAIN.
func TestSIGTERMDrainsAndSIGINTDoesNot(t *testing.T) {
	for _, signals := range [][]syscall.Signal{{syscall.SIGTERM, syscall.SIGTERM}, {syscall.SIGTERM, syscall.SIGINT}, {syscall.SIGINT}} {
		cmd := newProcess(t, "SENDCODE_DRAIN=10m")
		var log servertest.Text
		cmd.Stderr = &log
		out := startProcess(t, cmd)
		base := "http://" + strings.Trim(awaitLine(t, out, "http://"), "/\n")
		for i, s := range signals {
			servertest.OK(t, cmd.Process.Signal(s))
			if i < len(signals)-1 {
				servertest.Await(t, "the drain", func() bool {
					resp, err := http.Get(base + "/readyz")
					return err == nil && resp.StatusCode == http.StatusServiceUnavailable && resp.Close && resp.Body.Close() == nil
				})
				if resp, err := http.Get(base); err != nil || resp.StatusCode != http.StatusOK || !resp.Close ||
					resp.Body.Close() != nil {
					t.Errorf("a request while draining: %v, %v", resp, err)
				}
			}
		}
		_ = cmd.Wait()
		want := map[bool]int{true: 0, false: 128 + int(signals[len(signals)-1])}[len(signals) == 1]
		lines := log.String()
		if code := cmd.ProcessState.ExitCode(); code != want || !strings.Contains(lines, `"shutdown begun`) ||
			strings.Contains(lines, `"shutdown ended`) != (want == 0) {
			t.Errorf("%v: code %d, want %d: %s", signals, code, want, lines)
		}
	}
}
