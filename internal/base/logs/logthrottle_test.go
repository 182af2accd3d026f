package logs_test

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"sendcode/internal/base/logs"
	"sendcode/internal/kit/servertest"
)

// A storm of one error gives one line a second, with the number of errors that the line stands for.
// No error is lost, and other lines pass.
func TestLimitErrors(t *testing.T) {
	servertest.Bubble(t, func(t *testing.T) {
		var out servertest.Text
		l := logs.LimitErrors(slog.New(slog.NewTextHandler(&out, nil))).With("from", "x")
		lines := func(of string) []string {
			var found []string
			for line := range strings.Lines(out.String()) {
				if strings.Contains(line, of) {
					found = append(found, line)
				}
			}
			return found
		}
		full := errors.New("disk full")
		for n := range 400 { // these take 4 s
			l.Error("request failed", "error", full, "n", n)
			l.Warn("careful", "error", full)
			time.Sleep(10 * time.Millisecond)
		}
		l.Error("request failed", "error", errors.New("another"))
		l.Error("panic", "stack", "one")
		l.Error("panic", "stack", "two")
		time.Sleep(3 * time.Second)
		counted := 0
		for _, line := range lines("disk full") {
			if !strings.Contains(line, "ERROR") {
				continue
			}
			more := 0
			if _, err := fmt.Sscanf(line[max(0, strings.Index(line, "repeated=")):], "repeated=%d", &more); err != nil {
				more = 1
			}
			if counted += more; !strings.Contains(line, "from=x") {
				t.Errorf("without its attributes: %s", line)
			}
		}
		if n := len(lines("disk full")) - 400; n < 5 || n > 6 || counted != 400 {
			t.Errorf("%d lines for %d of 400 errors", n, counted)
		}
		servertest.Same(t, "other lines", [3]int{len(lines("another")), len(lines("panic")), len(lines("careful"))}, [3]int{1, 2, 400})
		l.Error("request failed", "error", full)
		servertest.Same(t, "the next storm begins at once",
			strings.Contains(lines("disk full")[len(lines("disk full"))-1], "repeated"), false)
	})
}
