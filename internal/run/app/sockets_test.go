package app

import (
	"bufio"
	"context"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"sendcode/internal/http/server"
	"sendcode/internal/kit/servertest"
)

// A connection that was accepted before a stop has its first request answered, though the request
// comes after the stop has begun. A passed socket is open afterwards, and another connection waits
// in it.
func TestStopAnswersAcceptedConnections(t *testing.T) {
	defer func(wait time.Duration) { server.UnreadWait = wait }(server.UnreadWait)
	server.UnreadWait = servertest.Patience
	for name, passed := range map[string]bool{"own port": false, "passed socket": true} {
		t.Run(name, func(t *testing.T) {
			cfg := loadConfig(t, "", "SENDCODE_ADDR=127.0.0.1:0", "SENDCODE_DATA_DIR="+t.TempDir())
			if passed {
				cfg.Addr = passSocket(t)
			}
			a, err := New(t.Context(), cfg, slog.New(slog.DiscardHandler))
			must(t, err)
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- a.Serve(ctx) }()
			early, err := net.Dial("tcp", a.Addr())
			must(t, err)
			defer early.Close()
			servertest.Same(t, "after it", answer(t, a.listeners[0], "/livez"), "200 ok") // so early was accepted
			http.DefaultClient.CloseIdleConnections()
			stop()
			<-a.listeners[0].ended
			late, refused := net.Dial("tcp", a.Addr())
			servertest.Same(t, "the port is open", refused == nil, passed)
			if refused == nil {
				defer late.Close()
			}
			_, err = early.Write([]byte("GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"))
			must(t, err)
			got, err := bufio.NewReader(early).ReadString('\n')
			must(t, err)
			servertest.Same(t, "answer", strings.TrimSpace(got), "HTTP/1.1 200 OK")
			must(t, <-ended)
		})
	}
}

// A socket on another port than those of the settings would never be served.
func TestPassedSocketOfNoAddress(t *testing.T) {
	passSocket(t)
	cfg := loadConfig(t, "", "SENDCODE_ADDR=127.0.0.1:0", "SENDCODE_DATA_DIR="+t.TempDir())
	if _, err := New(t.Context(), cfg, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "correct ListenStream") {
		t.Error(err)
	}
}

// passSocket makes the next New get a socket as from systemd, which has it too, and returns its address.
func passSocket(t *testing.T) (addr string) {
	t.Helper()
	port, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	socket, err := port.(*net.TCPListener).File()
	must(t, err)
	must(t, port.Close())
	t.Cleanup(func() { _ = socket.Close() })
	firstPassedSocket, err = syscall.Dup(int(socket.Fd())) // New closes its own
	must(t, err)
	t.Setenv("LISTEN_FDS", "1")
	t.Setenv("LISTEN_PID", strconv.Itoa(os.Getpid()))
	return port.Addr().String()
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
