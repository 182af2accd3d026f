package server

import (
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/labstack/echo/v4"

	"sendcode/internal/kit/servertest"
)

// A client that sends or reads slowly keeps its connection only for a bounded time, and a handler
// does not wait for a body longer than that.
func TestHTTPServerEndsSlowClients(t *testing.T) {
	const head = "POST / HTTP/1.1\r\nHost: codes\r\nContent-Type: application/json\r\nContent-Length: 9000\r\n\r\n"
	for name, c := range map[string]struct {
		atOnce, slowly string // the text that is written at once, and the text that follows at one byte a second
		takes          bool   // the client reads the answers
		handlers       int    // number of handlers that have ended
		lives          time.Duration
	}{
		"it says nothing":             {"", "", true, 0, readHeaderTimeout},
		"a head, a byte a second":     {"", head, true, 0, readHeaderTimeout},
		"a body, a byte a second":     {head, strings.Repeat(" ", 9000), true, 1, readTimeout},
		"a request, and then nothing": {"GET / HTTP/1.1\r\nHost: codes\r\n\r\n", "", true, 1, idleTimeout},
		"an answer that is not taken": {"GET / HTTP/1.1\r\nHost: codes\r\n\r\n", "", false, 1, writeTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			servertest.Bubble(t, func(t *testing.T) {
				ended, e := 0, echo.New()
				answer := func(c echo.Context) error {
					defer func() { ended++ }()
					var v sample
					if c.Request().Method == http.MethodPost {
						if err := ReadJSON(c, &v); err == nil {
							t.Error("the body was read")
						}
					}
					return c.String(http.StatusOK, strings.Repeat("answer ", 2000))
				}
				e.GET("/", answer)
				e.POST("/", answer)
				s := NewHTTPServer(e, slog.New(slog.DiscardHandler))
				ours, theirs := net.Pipe()
				go func() { _ = s.Serve(servertest.OneConn(theirs)) }()
				began, gone := time.Now(), make(chan time.Time, 1)
				if c.takes {
					go func() { _, _ = io.Copy(io.Discard, ours); gone <- time.Now() }()
				}
				_, err := io.WriteString(ours, c.atOnce)
				for i := 0; err == nil && i < len(c.slowly); i++ {
					time.Sleep(time.Second)
					_, err = io.WriteString(ours, c.slowly[i:i+1])
				}
				if !c.takes {
					time.Sleep(c.lives + time.Second)
					synctest.Wait()
					servertest.Same(t, "handlers that ended before anything was taken", ended, c.handlers)
					_, _ = io.Copy(io.Discard, ours) // reads the bytes in the buffers
					gone <- began.Add(c.lives)
				}
				if lived := (<-gone).Sub(began); lived < c.lives || lived > c.lives+2*time.Second {
					t.Errorf("lived for %v, want %v", lived, c.lives)
				}
				synctest.Wait()
				servertest.Same(t, "handlers that ended", ended, c.handlers)
				_ = s.Close()
				_ = ours.Close()
			})
		})
	}
}
