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

	"sendcode/internal/kit/servertest"
	"sendcode/internal/run/config"
)

// If a connection was accepted before a stop, its first request is answered, even if it comes after
// the stop has begun. A passed socket stays open, and another connection waits in it.
func TestStopAnswersAcceptedConnections(t *testing.T) {
	for name, passed := range map[string]bool{"own port": false, "passed socket": true} {
		t.Run(name, func(t *testing.T) {
			cfg := loadConfig(t, "", "SENDCODE_ADDR=127.0.0.1:0", "SENDCODE_DATA_DIR="+t.TempDir())
			if passed {
				cfg.Addr = passSocket(t)
			}
			a, err := New(t.Context(), cfg, slog.New(slog.DiscardHandler))
			servertest.OK(t, err)
			a.conns.UnreadWait = servertest.Patience
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- a.Serve(ctx) }()
			early, err := net.Dial("tcp", a.Addr())
			servertest.OK(t, err)
			defer early.Close()
			servertest.Same(t, "after it", answer(t, a.listeners[0], "/livez"), "200 ok") // the listener accepts in order, so it has accepted early
			http.DefaultClient.CloseIdleConnections()
			stop()
			<-a.listeners[0].ended
			late, refused := net.Dial("tcp", a.Addr())
			servertest.Same(t, "the port is open", refused == nil, passed)
			if refused == nil {
				defer late.Close()
			}
			_, err = early.Write([]byte("GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"))
			servertest.OK(t, err)
			got, err := bufio.NewReader(early).ReadString('\n')
			servertest.OK(t, err)
			servertest.Same(t, "answer", strings.TrimSpace(got), "HTTP/1.1 200 OK")
			servertest.OK(t, <-ended)
		})
	}
}

// If another program has the port, the error of the start says how to choose another port.
func TestListenOnATakenPort(t *testing.T) {
	other, err := net.Listen("tcp", "127.0.0.1:0")
	servertest.OK(t, err)
	defer other.Close()
	if _, err := listen(other.Addr().String(), new([]net.Listener)); err == nil || !strings.Contains(err.Error(), "choose another port with SENDCODE_ADDR") {
		t.Error(err)
	}
}

// A start fails if systemd passes a socket on a port that no setting names, since the socket would
// never be served.
func TestPassedSocketOfNoAddress(t *testing.T) {
	passSocket(t)
	cfg := loadConfig(t, "", "SENDCODE_ADDR=127.0.0.1:0", "SENDCODE_DATA_DIR="+t.TempDir())
	if _, err := New(t.Context(), cfg, slog.New(slog.DiscardHandler)); err == nil ||
		!strings.Contains(err.Error(), "correct ListenStream") {
		t.Error(err)
	}
}

// A process ignores sockets that were passed to another process, for example to its parent.
func TestPassedSocketOfAnotherProcess(t *testing.T) {
	passSocket(t)
	t.Setenv("LISTEN_PID", strconv.Itoa(os.Getppid()))
	if passed, err := passedSockets(); len(passed) > 0 || err != nil {
		t.Error(passed, err)
	}
}

// If a passed socket admits fewer clients than the address in the settings, the socket decides. A
// socket that admits more clients is refused.
func TestOpenPortsOnAPassedSocket(t *testing.T) {
	for _, c := range []struct {
		setting, socket string
		served          bool
	}{
		{"127.0.0.1", "127.0.0.1", true},
		{"localhost", "127.0.0.1", true},
		{"127.0.0.1", "127.0.0.2", true},
		{"0.0.0.0", "127.0.0.1", true},
		{"", "0.0.0.0", true},
		{"192.0.2.1", "127.0.0.1", true},
		{"127.0.0.1", "0.0.0.0", false},
		{"localhost", "[::]", false},
		{"192.0.2.1", "0.0.0.0", false},
	} {
		t.Run(c.setting+" "+c.socket, func(t *testing.T) {
			port, err := net.Listen("tcp", c.socket+":0")
			servertest.OK(t, err)
			defer port.Close()
			_, number, _ := net.SplitHostPort(port.Addr().String())
			other, err := net.Listen("tcp", "127.0.0.1:0")
			servertest.OK(t, err)
			defer other.Close()
			passed := []net.Listener{other, port}
			got, err := listen(c.setting+":"+number, &passed)
			if c.served && (err != nil || got != port || len(passed) != 1) ||
				!c.served && (err == nil || !strings.Contains(err.Error(), port.Addr().String()) ||
					!strings.Contains(err.Error(), c.setting+":"+number)) {
				t.Error(got, err)
			}
		})
	}
	addr := passSocket(t)
	cfg := loadConfig(t, "", "SENDCODE_ADDR=:"+addr[strings.LastIndex(addr, ":")+1:], "SENDCODE_DATA_DIR="+t.TempDir(),
		"SENDCODE_SECRET_KEYS="+config.NewRingKey(), "SENDCODE_INDEX_KEY="+config.NewIndexKey(), "SENDCODE_API_KEY="+loneKey,
		"SENDCODE_SMTP_URL=smtp://127.0.0.1:1", "SENDCODE_MAIL_FROM=codes@shop.example")
	var log, banner servertest.Text
	a := newApp(cfg, slog.New(slog.NewTextHandler(&log, nil)), nil)
	type reach struct{ onlyThisMachine, warnsOfConsole bool }
	reachOf := func(c config.Config) reach {
		return reach{c.Loopback(), strings.Contains(strings.Join(c.Warnings, ""), "/admin is off")}
	}
	servertest.Same(t, "by the setting", reachOf(cfg), reach{warnsOfConsole: true})
	servertest.OK(t, a.openPorts())
	servertest.Same(t, "by the listener", reachOf(a.cfg), reach{onlyThisMachine: true})
	servertest.Same(t, "by the listener after a reload", reachOf(a.cfg.WithReloadable(cfg)), reach{onlyThisMachine: true})
	servertest.Same(t, "logged", strings.Contains(log.String(), "/admin is off"), false)
	a.printBanner(&banner)
	servertest.Same(t, "a banner without secrets to show", banner.String(), "")
	servertest.OK(t, a.loadSecrets())
	a.printBanner(&banner)
	servertest.Same(t, "the password, which the setting alone would not generate", strings.Contains(banner.String(), a.generated[0].Value),
		true)
	servertest.OK(t, a.close())
}

// passSocket makes the next New find a socket as if systemd had passed it. It returns the socket's
// address.
func passSocket(t *testing.T) (addr string) {
	t.Helper()
	port, err := net.Listen("tcp", "127.0.0.1:0")
	servertest.OK(t, err)
	socket, err := port.(*net.TCPListener).File()
	servertest.OK(t, err)
	servertest.OK(t, port.Close())
	t.Cleanup(func() { _ = socket.Close() })
	firstPassedSocket, err = syscall.Dup(int(socket.Fd())) // New closes the descriptor that it gets
	servertest.OK(t, err)
	t.Setenv("LISTEN_FDS", "1")
	t.Setenv("LISTEN_PID", strconv.Itoa(os.Getpid()))
	return port.Addr().String()
}
