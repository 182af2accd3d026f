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

// maxOutput bounds a token file, and the output of a command, in bytes.
const maxOutput = 16 << 10

var errTooMuch = errors.New("more than 16 KB")

// readLocal reads the answer of Command or from File: JSON as a token server's, or a token alone.
func (c Client) readLocal(ctx context.Context) (a answer, err error) {
	var text []byte
	what := "the token file: "
	if c.File == "" {
		what = "the command for tokens: "
		text, err = run(ctx, c.Command)
	} else {
		text, err = readBounded(c.File)
	}
	if err != nil {
		return a, delivery.SafeError(what + err.Error())
	}
	text = bytes.TrimSpace(text)
	if !bytes.HasPrefix(text, []byte("{")) {
		return answer{Token: string(text), Type: bearer}, nil
	}
	a, err = parseAnswer(text)
	if err != nil || a.Token == "" { // another text may be private
		return a, delivery.SafeError(what + "JSON without access_token")
	}
	a.Type = bearer
	return a, nil
}

func readBounded(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, withoutPath(err)
	}
	defer func() { _ = file.Close() }()
	out := boundedBuffer{}
	_, err = io.Copy(&out, file)
	return out.text.Bytes(), withoutPath(err)
}

// run returns what a command writes to its standard output. No shell reads the arguments, and the environment is PATH
// and HOME alone. With the command all that it has started ends.
func run(ctx context.Context, argv []string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	command := exec.CommandContext(ctx, argv[0], argv[1:]...)
	command.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME")}
	out := boundedBuffer{}
	command.Stdout, command.WaitDelay = &out, time.Second
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	command.Cancel = func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGKILL) }
	err := command.Run()
	switch {
	case out.full:
		err = errTooMuch
	case ctx.Err() != nil:
		err = os.ErrDeadlineExceeded
	}
	return out.text.Bytes(), withoutPath(err)
}

// boundedBuffer takes maxOutput bytes.
type boundedBuffer struct {
	text bytes.Buffer
	full bool
}

// Write implements io.Writer.
func (b *boundedBuffer) Write(p []byte) (int, error) {
	b.full = b.full || b.text.Len()+len(p) > maxOutput
	if b.full {
		return 0, errTooMuch
	}
	return b.text.Write(p)
}

// withoutPath returns the cause of an error of package os, which names a file.
func withoutPath(err error) error {
	if inner := errors.Unwrap(err); inner != nil {
		return inner
	}
	return err
}

const bearer = "Bearer"
