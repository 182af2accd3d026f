package servertest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// Process is a child process that ends with this process on Linux. On other systems they end
// together only at a Ctrl-C in the terminal.
type Process struct {
	cmd  *exec.Cmd
	done chan struct{}
	err  error // result of Wait; set before done is closed
}

// Run starts cmd as a child process. On Linux, the child dies with this process, and has its own
// process group, so that a Ctrl-C in the terminal ends the parent first. The caller must not use
// cmd.ProcessState afterwards, because another goroutine sets it.
func Run(cmd *exec.Cmd) (*Process, error) {
	return startProcess(cmd, syscall.SIGKILL)
}

// startProcess is Run with the signal that the kernel sends to the child when this process dies.
func startProcess(cmd *exec.Cmd, lastSignal syscall.Signal) (*Process, error) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	dieWithParent(cmd.SysProcAttr, lastSignal)
	p := &Process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		// The kernel counts the thread that forked as the parent, so this thread has to live as
		// long as the child.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			p.err = cmd.Wait()
			close(p.done)
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// PID returns the process ID, even after the end.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Signal sends sig. If the process has ended, the error is os.ErrProcessDone.
func (p *Process) Signal(sig os.Signal) error { return p.cmd.Process.Signal(sig) }

// Wait waits until the process has ended, and returns what exec.Cmd.Wait returned. If ctx ends
// first, Wait returns the context's error.
func (p *Process) Wait(ctx context.Context) error {
	select {
	case <-p.done:
		return p.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// End sends sig to the process, and SIGKILL if the process has not ended after patience. It returns
// when the process has ended.
func (p *Process) End(sig os.Signal, patience time.Duration) {
	_ = p.Signal(sig) // fails if the process has ended already
	select {
	case <-p.done:
	case <-time.After(patience):
	}
	p.Kill()
}

// Kill ends the process with SIGKILL and waits for its end. If the process has ended already, Kill
// does nothing.
func (p *Process) Kill() {
	_ = p.Signal(syscall.SIGKILL) // the only error says that the process has finished already
	<-p.done
}

func (p *Process) running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// startError returns an error that says why a server did not start, with the last lines of its log.
func startError(program string, cause error, log string) error {
	const lines = 20
	text, _ := os.ReadFile(log)
	tail := strings.Split(strings.TrimSpace(string(text)), "\n")
	tail = tail[max(0, len(tail)-lines):]
	return fmt.Errorf("%s did not start: %w; the end of its log:\n%s", filepath.Base(program), cause, strings.Join(tail, "\n"))
}
