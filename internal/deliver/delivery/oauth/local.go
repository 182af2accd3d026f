package oauth

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"

	"sendcode/internal/deliver/delivery"
)

const (
	// maxOutput bounds a token file, and the output of a command, in bytes.
	maxOutput = 16 << 10
	bearer    = "Bearer"
)

// readLocal reads the answer of Command or from File: JSON as a token server's, or a token alone.
func (c Client) readLocal(ctx context.Context) (a answer, err error) {
	what, out := "the token file: ", boundedBuffer{}
	if c.File == "" {
		what = "the command for tokens: "
		err = out.run(ctx, c.Command)
	} else {
		err = out.read(c.File)
	}
	text := bytes.TrimSpace(out.text)
	switch inner := errors.Unwrap(err); {
	case len(out.text) > maxOutput:
		return a, delivery.SafeError(what + "more than 16 KB")
	case inner != nil: // err names a file
		return a, delivery.SafeError(what + inner.Error())
	case err != nil:
		return a, delivery.SafeError(what + err.Error())
	case !bytes.HasPrefix(text, []byte("{")):
		return answer{Token: string(text), Type: bearer}, nil
	}
	a, err = parseAnswer(text)
	if err != nil || a.Token == "" { // another text may be private
		return a, delivery.SafeError(what + "JSON without access_token")
	}
	a.Type = bearer
	return a, nil
}

// boundedBuffer takes at most one byte more than maxOutput.
type boundedBuffer struct{ text []byte }

// Write implements io.Writer.
func (b *boundedBuffer) Write(p []byte) (int, error) {
	n := min(len(p), maxOutput+1-len(b.text))
	b.text = append(b.text, p[:n]...)
	if n < len(p) {
		return n, io.ErrShortWrite
	}
	return n, nil
}

func (b *boundedBuffer) read(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	_, err = io.Copy(b, file)
	return err
}

// run runs a command. No shell reads the arguments, and the environment is PATH and HOME alone. With the command all that
// it has started ends.
func (b *boundedBuffer) run(ctx context.Context, argv []string) error {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	command := exec.CommandContext(ctx, argv[0], argv[1:]...)
	command.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME")}
	command.Stdout, command.WaitDelay = b, time.Second
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	command.Cancel = func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGKILL) }
	err := command.Run()
	if command.Process != nil { // what it has left behind
		_ = syscall.Kill(-command.Process.Pid, syscall.SIGKILL)
	}
	if ctx.Err() == nil {
		return err
	}
	return os.ErrDeadlineExceeded
}
