package oauth

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/oauth2"

	"sendcode/internal/deliver/providerhttp"

	"sendcode/internal/deliver/delivery"
)

const (
	// maxOutput bounds the output of a command, in bytes.
	maxOutput = 16 << 10
	bearer    = "Bearer"
)

// run reads a token from the output of Command, which is either the JSON of a token server or only
// a token.
func (c Client) run(ctx context.Context, _ *providerhttp.Client) (*oauth2.Token, error) {
	const what = "the command for tokens: "
	out := boundedBuffer{}
	err := out.run(ctx, c.Command)
	text := bytes.TrimSpace(bytes.TrimPrefix(bytes.TrimSpace(out.text), byteOrderMark))
	switch inner := errors.Unwrap(err); {
	case len(out.text) > maxOutput:
		return nil, delivery.SafeError(what + "more than 16 KB")
	case inner != nil: // err names a file
		return nil, delivery.SafeError(what + inner.Error())
	case err != nil:
		return nil, delivery.SafeError(what + err.Error())
	case len(text) == 0:
		return nil, delivery.SafeError(what + "it printed nothing")
	case !bytes.HasPrefix(text, []byte("{")):
		return &oauth2.Token{AccessToken: string(text), TokenType: bearer}, nil
	}
	var a struct {
		Token string          `json:"access_token"`
		Life  json.RawMessage `json:"expires_in"`
	}
	if json.Unmarshal(text, &a) != nil || a.Token == "" { // another text may be private
		return nil, delivery.SafeError(what + "JSON without access_token")
	}
	t := &oauth2.Token{AccessToken: a.Token, TokenType: bearer}
	if seconds := lifeIn(a.Life); seconds > 0 {
		t.Expiry = time.Now().Add(time.Duration(seconds) * time.Second)
	}
	return t, nil
}

// boundedBuffer stores at most one byte more than maxOutput, which shows that a text is too long.
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

// run runs a command. No shell parses the arguments. The environment has only PATH and HOME. When
// the command ends, the other processes of its process group end, too.
func (b *boundedBuffer) run(ctx context.Context, argv []string) error {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	command := exec.CommandContext(ctx, argv[0], argv[1:]...)
	command.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME")}
	command.Stdout, command.WaitDelay = b, time.Second
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	command.Cancel = func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGKILL) }
	err := command.Run()
	if command.Process != nil { // ends child processes that the command left
		_ = syscall.Kill(-command.Process.Pid, syscall.SIGKILL)
		if os.Getpid() == 1 {
			go reap(command.Process.Pid)
		}
	}
	switch {
	case ctx.Err() != nil:
		return os.ErrDeadlineExceeded
	case errors.Is(err, exec.ErrWaitDelay): // the command succeeded, but a process that it started still runs
		return nil
	}
	return err
}

// reap waits for the killed processes of a group. The first process of a container inherits them
// when their parent ends, and each would stay a zombie.
func reap(group int) {
	for {
		if _, err := syscall.Wait4(-group, nil, 0, nil); err != nil && !errors.Is(err, syscall.EINTR) {
			return
		}
	}
}
