package apptest

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"sendcode/internal/deliver/outbox"
	"sendcode/internal/kit/servertest"
	"sendcode/internal/limit/admission"
	"sendcode/internal/limit/gates"
	"sendcode/internal/run/app"
	"sendcode/internal/run/config"
	"sendcode/internal/store"
	"sendcode/internal/store/postgres"
)

// waitFactor is the factor by which the service's waits for its parts, and its leases, are longer
// than in the product, because tests run beside each other on busy machines.
var waitFactor = 4

// waitLonger multiplies the waits and leases by waitFactor.
var waitLonger = sync.OnceFunc(func() {
	postgres.OpenConnsAhead = waitFactor == 1 // otherwise connections are opened at their first use
	for _, bound := range []*time.Duration{
		&store.CallTimeout, &gates.LimiterTimeout, &outbox.DefaultLease, &outbox.MaxStopWait,
		&admission.MaxSlotWait,
	} {
		*bound *= time.Duration(waitFactor)
	}
})

// onPostgres and onRedis return the URL parameters that multiply the waits by waitFactor.
func onPostgres() string {
	return fmt.Sprintf("&lock_timeout=%ds&statement_timeout=%ds&idle_in_transaction_session_timeout=%[2]ds", waitFactor, 5*waitFactor)
}

func onRedis() string {
	return fmt.Sprintf("?read_timeout=%ds&write_timeout=%[1]ds&pool_timeout=%[1]ds", waitFactor)
}

// Process is a replica in its own process, so that a test can kill it.
type Process struct {
	Cmd  *exec.Cmd
	Base string
	Log  *servertest.Text // the output of this replica
}

// serveVariable is the environment variable that makes a test binary run the service or rekey.
const serveVariable = "SENDCODE_TEST_SERVES"

// watchVariable is the environment variable that makes a process of Spawn watch its configuration
// file.
const watchVariable = "SENDCODE_TEST_WATCHES"

// runVariable is a variable that `make test` sets to another value each time. Go caches the result
// of a test while the variables that it reads stay the same, but processes on real servers behave
// differently in each run.
const runVariable = "SENDCODE_TEST_RUN"

// Main is for the TestMain of packages whose tests call Spawn. It returns the exit code. More tests
// run in parallel than there are processors, since tests mostly wait; they share a Postgres. times
// is the factor for the service's waits for its parts. Tests of faults pass 1.
func Main(m *testing.M, parallel, times int) int {
	waitFactor = times
	waitLonger()
	if os.Getenv(serveVariable) == "" {
		_ = flag.Set("test.parallel", strconv.Itoa(parallel))
		sharing = true
		defer func() { _ = shared.Close() }()
		return m.Run()
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	cfg, err := config.Load(os.Environ(), os.ReadFile)
	cfg.StartWait, cfg.Terminal = servertest.Patience, true // the test reads the address from what the process prints
	switch {
	case err != nil:
	case os.Getenv(serveVariable) == "rekey":
		err = app.Rekey(ctx, cfg, os.Stdout)
	default:
		var reload app.ReloadOptions
		if os.Getenv(watchVariable) != "" {
			hangups := make(chan os.Signal, 1)
			signal.Notify(hangups, syscall.SIGHUP)
			reload = app.ReloadOptions{Environ: os.Environ(), Hangup: hangups}
		}
		err = app.Run(ctx, cfg, reload, slog.New(slog.NewJSONHandler(os.Stderr, nil)), os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// Program returns a command, "serve" or "rekey", that runs in its own process and is configured by
// environment variables.
func (s *Stack) Program(what string) *exec.Cmd {
	s.Helper()
	program, err := os.Executable()
	Must(s.T, err)
	_ = os.Getenv(runVariable)
	cmd := exec.Command(program)
	cmd.Env = append(s.environ(), "PATH="+os.Getenv("PATH"), "HOME="+s.TempDir(), "GORACE="+os.Getenv("GORACE"), serveVariable+"="+what)
	if s.watches {
		cmd.Env = append(cmd.Env, watchVariable+"=1")
	}
	return cmd
}

// Spawn starts the service in a process, configured by environment variables, and waits until the
// process prints its address. The process is the test binary itself, so nothing has to be built. If
// the test runs with the race detector, so does the process.
func (s *Stack) Spawn() *Process { s.Helper(); return s.SpawnCommand(s.Program("serve")) }

// SpawnCommand is Spawn for a command that Program returned and that the test has changed.
func (s *Stack) SpawnCommand(cmd *exec.Cmd) *Process {
	s.Helper()
	out, err := cmd.StdoutPipe()
	Must(s.T, err)
	p := &Process{Cmd: cmd, Log: &servertest.Text{}}
	cmd.Stderr = io.MultiWriter(s.Printed, p.Log)
	Must(s.T, cmd.Start())
	s.Cleanup(p.Kill)
	for lines := bufio.NewScanner(out); p.Base == "" && lines.Scan(); {
		_, base, _ := strings.Cut(lines.Text(), "page ")
		p.Base = strings.TrimSuffix(strings.TrimSpace(base), "/")
	}
	if p.Base == "" {
		_ = cmd.Wait() // until then, the reason may not have been read from stderr
		s.Fatalf("the process did not start: %s", s.Printed)
	}
	go func() { _, _ = io.Copy(io.Discard, out) }()
	return p
}

// Kill kills the process, as kill -9 does.
func (p *Process) Kill() {
	_ = p.Cmd.Process.Kill()
	_ = p.Cmd.Wait()
}

// Freeze stops the process, as a hypervisor does when it takes the processor away. It returns when
// all threads of the process have stopped. SIGCONT continues the process.
func (p *Process) Freeze(t *testing.T) {
	t.Helper()
	Must(t, p.Cmd.Process.Signal(syscall.SIGSTOP))
	var status syscall.WaitStatus
	for {
		_, err := syscall.Wait4(p.Cmd.Process.Pid, &status, syscall.WUNTRACED, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		Must(t, err)
		break
	}
	if !status.Stopped() {
		t.Fatalf("the process did not stop, it ended: %v", status)
	}
}
