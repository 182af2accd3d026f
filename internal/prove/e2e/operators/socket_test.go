package operators

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"sendcode/internal/deliver/delivery/smtptest"
	"sendcode/internal/http/server"
	"sendcode/internal/kit/servertest"
	"sendcode/internal/run/app/apptest"
)

// slowStrangers connects 50 clients that send only a part of a request, or nothing. wantRefusals
// fails the test unless the clients whose body is missing get 503.
func slowStrangers(s *apptest.Stack) (wantRefusals func()) {
	const head = "POST /return HTTP/1.1\r\nHost: codes\r\nSec-Fetch-Site: same-origin\r\n" +
		"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 9000\r\n"
	var bodies []net.Conn
	for i := range 50 {
		conn, err := net.Dial("tcp", s.Env["SENDCODE_ADDR"])
		apptest.Must(s.T, err)
		s.Cleanup(func() { _ = conn.Close() })
		_, err = io.WriteString(conn, []string{"", "POST /return HT", head, head + "\r\n", head + "\r\nto="}[i%5])
		apptest.Must(s.T, err)
		if i%5 >= 3 {
			bodies = append(bodies, conn)
		}
	}
	late, err := net.Dial("tcp", s.Env["SENDCODE_ADDR"])
	apptest.Must(s.T, err)
	defer late.Close()
	_, err = io.WriteString(late, "GET /livez HTTP/1.1\r\nHost: codes\r\n\r\n")
	apptest.Must(s.T, err)
	_, err = http.ReadResponse(bufio.NewReader(late), nil) // after this answer, the service has accepted the earlier connections
	apptest.Must(s.T, err)
	return func() {
		for _, conn := range bodies {
			answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				s.Error(err)
				continue
			}
			servertest.Same(s, "status of the answer", answer.StatusCode, http.StatusServiceUnavailable)
			servertest.Same(s, "Retry-After", answer.Header.Get("Retry-After"), "2")
			servertest.Same(s, "the answer closes the connection", answer.Close, true)
		}
	}
}

// A service on one file, on a socket that systemd opened, restarts in the middle of requests and
// while strangers send slowly. No request fails.
func TestRestartWithPassedSocket(t *testing.T) {
	t.Parallel()
	restartUnderLoad(t, true, 2, 20)
}

// A service that opens its own port refuses connections during a restart. It still answers each
// request that it has read.
func TestRestartWithItsOwnPort(t *testing.T) {
	t.Parallel()
	restartUnderLoad(t, false, 1, 20)
}

// Under a unit of Type=notify, the service tells systemd when it serves requests, and when a stop
// begins.
func TestSystemdIsNotifiedOfReadyAndStopping(t *testing.T) {
	t.Parallel()
	s := apptest.Embedded(t)
	dir, err := os.MkdirTemp("/tmp", "sendcode-") // not t.TempDir: the path of a socket has at most 107 bytes
	apptest.Must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	s.Env["NOTIFY_SOCKET"] = filepath.Join(dir, "notify")
	states, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: s.Env["NOTIFY_SOCKET"], Net: "unixgram"})
	apptest.Must(t, err)
	defer states.Close()
	apptest.Must(t, states.SetReadDeadline(time.Now().Add(servertest.Patience)))
	hears := func(want string) {
		t.Helper()
		state := make([]byte, 100)
		n, err := states.Read(state)
		apptest.Must(t, err)
		servertest.Same(t, "state", string(state[:n]), want)
	}
	p := s.Spawn()
	hears("READY=1")
	s.Is("a request", func() apptest.Answer { a, _ := s.At(p.Base, http.MethodGet, "/livez", ""); return a }(), http.StatusOK)
	apptest.Must(t, p.Cmd.Process.Signal(syscall.SIGTERM))
	hears("STOPPING=1")
	apptest.Must(t, p.Cmd.Wait())
}

// withPassedSocket opens a port, as systemd does. start returns the command that runs the program
// with that port.
func withPassedSocket(s *apptest.Stack) (start func() *exec.Cmd) {
	s.Helper()
	port, err := net.Listen("tcp", "127.0.0.1:0")
	apptest.Must(s.T, err)
	socket, err := port.(*net.TCPListener).File()
	apptest.Must(s.T, err)
	s.Env["SENDCODE_ADDR"] = port.Addr().String()
	apptest.Must(s.T, port.Close())
	s.Cleanup(func() { _ = socket.Close() })
	return func() *exec.Cmd {
		cmd := s.Program("serve")
		// systemd sets these variables after its fork.
		cmd.Args = []string{"sh", "-c", `export LISTEN_FDS=1 LISTEN_PID=$$ && exec "$0"`, cmd.Path}
		cmd.Path, cmd.ExtraFiles = "/bin/sh", []*os.File{socket}
		return s.SpawnCommand(cmd).Cmd
	}
}

// restartUnderLoad restarts the program, on the socket of a listener if passed is true, while
// clients send requests. Before each restart they get at least as many answers as requests says.
// The log must have as many requests as the clients got answers, and each mail must leave once.
func restartUnderLoad(t *testing.T, passed bool, restarts int, requests int64) {
	t.Helper()
	s := apptest.Embedded(t)
	s.Policy("    - {name: day, scope: recipient, limit: 100000, window: 24h}\n")
	s.SMTP = smtptest.Start(t, smtptest.Misbehaving(smtptest.Rule{Stage: smtptest.Dot, Delay: 100 * time.Millisecond}))
	s.Env["SENDCODE_SMTP_URL"], s.Env["SENDCODE_ADDR"] = s.SMTP.URL(), fmt.Sprint("127.0.0.1:", servertest.FreePort(t))
	start := func() *exec.Cmd { return s.Spawn().Cmd }
	if passed {
		start = withPassedSocket(s)
	}
	running := start()

	var answered, stopped atomic.Int64 // stopped is when the last stop began, in ns since 1970
	var stop atomic.Bool
	var load sync.WaitGroup
	var away sync.RWMutex // locked while no process may have the port
	for worker := range 4 {
		load.Go(func() {
			for !stop.Load() && !t.Failed() {
				var connected, wrote atomic.Int64
				trace := &httptrace.ClientTrace{
					GotConn:      func(httptrace.GotConnInfo) { connected.Store(time.Now().UnixNano()) },
					WroteRequest: func(httptrace.WroteRequestInfo) { wrote.Store(time.Now().UnixNano()) },
				}
				a, err := s.At("http://"+s.Env["SENDCODE_ADDR"], http.MethodPost, "/v1/verifications",
					`{"channel":"email","to":"ana@example.com","trust":"known"}`, func(r *http.Request) {
						*r = *r.WithContext(httptrace.WithClientTrace(r.Context(), trace))
						r.Close = worker > 0 // one worker keeps its connection
						if worker == 1 {     // one worker sends long requests
							apptest.Patiently(r)
						}
					})
				if err != nil && !passed { // the port was closed; had the service read the request, answered would lack it
					func() { away.RLock(); defer away.RUnlock() }() // waits until a process may have the port
					continue
				}
				// A stop waits at most server.DefaultUnreadWait for a request on an open
				// connection. A busy machine may need longer to write the request.
				began := stopped.Load()
				if late := time.Duration(wrote.Load() - began); err != nil && connected.Load() < began && late > server.DefaultUnreadWait {
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
		wantRefusals := slowStrangers(s)
		away.Lock()
		stopped.Store(time.Now().UnixNano())
		apptest.Must(t, running.Process.Signal(syscall.SIGTERM))
		wantRefusals()
		if err := running.Wait(); err != nil {
			t.Errorf("restart %d: %v", n, err)
		}
		t.Logf("stop %d took %v", n, time.Since(time.Unix(0, stopped.Load())))
		running = start()
		away.Unlock()
	}
	more()
	stop.Store(true)
	load.Wait()
	logged := func() int64 {
		return int64(strings.Count(s.Printed.String(), `"route":"/v1/verifications","status":202`))
	}
	s.Await("the line of the last answer", func() bool { return logged() >= answered.Load() })
	servertest.Same(t, "answers, of the requests that were read", answered.Load(), logged())
	servertest.Same(t, "a stop that waited for a body until its own end", s.Logged("shutdown cuts requests"), false)
	s.Await("a mail for each", func() bool { return int64(len(s.Mails())) >= answered.Load() })
	apptest.Must(t, running.Process.Signal(syscall.SIGTERM))
	apptest.Must(t, running.Wait())
	servertest.Same(t, "mails", int64(len(s.Mails())), answered.Load())
	t.Logf("%d requests, %d restarts", answered.Load(), restarts)
}
