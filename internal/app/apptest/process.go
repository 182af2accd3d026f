package apptest

import (
	"bufio"
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
)

// Process is the real binary, so that it can be killed.
type Process struct {
	Cmd  *exec.Cmd
	Base string
}

// built is the binary, made once for all tests of a package, in a directory that outlives the first of them.
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

// Main is the TestMain of packages that build the binary. It removes the binary afterwards and returns the exit code.
func Main(m *testing.M) (code int) {
	code = m.Run()
	if builtIn != "" {
		_ = os.RemoveAll(builtIn)
	}
	return code
}

// Build builds the binary, once for all tests of the package, and returns its path.
func Build(t *testing.T) string {
	t.Helper()
	binary, err := built()
	if err != nil {
		t.Fatal(err)
	}
	return binary
}

// Spawn starts the binary, configured by the environment alone, and waits until it prints its address.
func (s *Stack) Spawn(binary string) *Process {
	s.Helper()
	cmd := exec.Command(binary, "serve")
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + s.TempDir()}
	for name, value := range s.Env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		s.Fatal(err)
	}
	cmd.Stderr = s.Printed
	if err := cmd.Start(); err != nil {
		s.Fatal(err)
	}
	p := &Process{Cmd: cmd}
	s.Cleanup(p.Kill)
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if _, base, ok := strings.Cut(lines.Text(), "page "); ok {
			p.Base = strings.TrimSuffix(strings.TrimSpace(base), "/")
			break
		}
	}
	if p.Base == "" {
		s.Fatalf("the process did not start: %s", s.Printed)
	}
	go func() { _, _ = io.Copy(io.Discard, out) }()
	return p
}

// Kill kills it, as kill -9 does.
func (p *Process) Kill() {
	_ = p.Cmd.Process.Kill()
	_ = p.Cmd.Wait()
}

// AskProcess asks a process to send a code and fails the test unless it answers 202.
func (s *Stack) AskProcess(p *Process) VerificationBody {
	s.Helper()
	req, err := http.NewRequest(http.MethodPost, p.Base+"/v1/verifications", strings.NewReader(`{"channel":"email","to":"`+Ana+`"}`))
	if err != nil {
		s.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+s.Key)
	req.Header.Set("Content-Type", "application/json")
	resp, err := Client.Do(req)
	if err != nil {
		s.Fatal(err)
	}
	defer resp.Body.Close()
	var v VerificationBody
	if err := json.NewDecoder(resp.Body).Decode(&v); err != nil || resp.StatusCode != http.StatusAccepted {
		s.Fatalf("%d %v", resp.StatusCode, err)
	}
	return v
}
