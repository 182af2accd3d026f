package operators

import (
	"net"
	"net/http"
	"net/http/httptrace"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"sendcode/internal/http/server"
	"sendcode/internal/run/app/apptest"
)

// A service on one file whose socket systemd has opened restarts, in the middle of requests too, and
// no request fails.
func TestRestartWithPassedSocket(t *testing.T) {
	t.Parallel()
	restartUnderLoad(t, 2, 20)
}

// restartUnderLoad restarts the program so many times with the socket of a listener, while clients
// send at least so many requests for each restart.
func restartUnderLoad(t *testing.T, restarts int, requests int64) {
	t.Helper()
	s := apptest.Embedded(t)
	s.Policy("    - {name: day, scope: recipient, limit: 100000, window: 24h}\n")
	port, err := net.Listen("tcp", "127.0.0.1:0")
	apptest.Must(t, err)
	socket, err := port.(*net.TCPListener).File() // as systemd keeps it
	apptest.Must(t, err)
	s.Env["SENDCODE_ADDR"] = port.Addr().String()
	apptest.Must(t, port.Close())
	t.Cleanup(func() { _ = socket.Close() })
	start := func() *exec.Cmd {
		cmd := s.Program("serve")
		// systemd sets them after its fork
		cmd.Args = []string{"sh", "-c", `export LISTEN_FDS=1 LISTEN_PID=$$ && exec "$0"`, cmd.Path}
		cmd.Path, cmd.ExtraFiles = "/bin/sh", []*os.File{socket}
		return s.SpawnCommand(cmd).Cmd
	}
	running := start()

	var answered, stopped atomic.Int64 // stopped: when the newest stop began, in ns
	var stop atomic.Bool
	var load sync.WaitGroup
	for worker := range 4 {
		load.Go(func() {
			for !stop.Load() && !t.Failed() {
				var connected, wrote atomic.Int64
				trace := &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connected.Store(time.Now().UnixNano()) },
					WroteRequest: func(httptrace.WroteRequestInfo) { wrote.Store(time.Now().UnixNano()) }}
				a, err := s.At("http://"+s.Env["SENDCODE_ADDR"], http.MethodPost, "/v1/verifications",
					`{"channel":"email","to":"ana@example.com"}`, func(r *http.Request) {
						*r = *r.WithContext(httptrace.WithClientTrace(r.Context(), trace))
						r.Close = worker > 0 // one keeps its connection
						if worker == 1 {     // and one's requests are long
							apptest.Patiently(r)
						}
					})
				// a stop waits so long for a request on an open connection; a busy machine may take longer to write it
				began := stopped.Load()
				if late := time.Duration(wrote.Load() - began); err != nil && connected.Load() < began && late > server.UnreadWait {
					t.Logf("written %v after the stop began: %v", late, err)
					continue
				}
				if err != nil || a.StatusCode != http.StatusAccepted {
					t.Errorf("request %d: %v %d %s\n%s", answered.Load(), err, a.StatusCode, a.Raw, s.LinesOf("shutdown"))
				}
				answered.Add(1)
			}
		})
	}
	more := func() {
		t.Helper()
		from := answered.Load()
		s.Await("requests", func() bool { return answered.Load() >= from+requests || t.Failed() })
	}
	for n := range restarts {
		more()
		stopped.Store(time.Now().UnixNano())
		apptest.Must(t, running.Process.Signal(syscall.SIGTERM))
		if err := running.Wait(); err != nil {
			t.Errorf("restart %d: %v", n, err)
		}
		running = start()
	}
	more()
	stop.Store(true)
	load.Wait()
	t.Logf("%d requests, %d restarts", answered.Load(), restarts)
}
