package app

import (
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sendcode/internal/kit/servertest"
)

// Whatever clients without a key send, and whatever they do not read, 1,000 of their connections
// hold less than 100 MB of this process. The sum is of the heap and the stacks after a collection.
// It includes the test's own ends of the connections.
func TestConnectionsOfStrangersHoldLittleMemory(t *testing.T) {
	servertest.SkipUnderRace(t)
	const conns, most = 1000, 100 << 20
	form := "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 16000\r\n"
	a := newAlone(t, "requests_per_minute: 0", "SENDCODE_ADMIN_PASSWORD=a long password of a test")
	little := func(fd uintptr) { _ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_SNDBUF, 1) }
	port, err := a.listeners[0].Listener.(syscall.Conn).SyscallConn()
	servertest.OK(t, err)
	servertest.OK(t, port.Control(little)) // accepted connections have it, too: an answer that is not read soon blocks
	a.serveUntilTheEnd(t)
	<-time.After(time.Second) // the service's own start
	rest := runtime.NumGoroutine()
	for _, c := range []struct{ name, text string }{
		{"nothing", ""},
		{"an idle connection", "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n"},
		{"header lines", "POST /v1/verifications HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n" + names(19_000, "%s:\r\n") + "\r\n12345678"},
		{"header lines without an end", "GET / HTTP/1.1\r\nHost: x\r\n" + names(19_000, "%s:\r\n")},
		{"header lines of a second request", "GET /livez HTTP/1.1\r\nHost: x\r\n\r\nPOST /nothing HTTP/1.1\nHost: x\nContent-Length: 9\n" +
			names(19_000, "%s:\n") + "\n12345678"},
		{"header lines after blank lines", "POST /livez HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n\n\r\nPOST /nothing HTTP/1.1\r\nHost: x\r\n" +
			"Content-Length: 9\r\n" + names(19_000, "%s:\r\n") + "\r\n12345678"},
		{"the longest head", "POST /nothing HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n" +
			names(15_600, "%s:"+strings.Repeat("b", 120)+"\r\n") + "\r\n12345678"},
		{"the longest head of a second request", "GET /livez HTTP/1.1\r\nHost: x\r\n\r\nPOST /nothing HTTP/1.1\nHost: x\nContent-Length: 9\n" +
			names(1500, "%s:\n") + "\n12345678"},
		{"one endless line", "GET / HTTP/1.1\r\nHost: x\r\nX-A: " + strings.Repeat("a", 15_800)},
		{"a query of many names, unread", strings.Repeat("GET /?"+names(16_000, "%s&")+" HTTP/1.1\r\nHost: x\r\n\r\n", 3)},
		{"a body without an end", "POST /v1/verifications HTTP/1.1\r\nHost: x\r\nContent-Length: 16000\r\n\r\n" + strings.Repeat("1", 15_900)},
		{"a trailer of many lines, unread", strings.Repeat("POST /nothing HTTP/1.1\r\nHost: x\r\nAccept: text/html\r\nTransfer-Encoding: chunked\r\n\r\n"+
			"1\r\n1\r\n0\r\n"+names(4000, "%s:\n")+"\r\n", 3)},
		{"a form without an end", "POST /admin/login HTTP/1.1\r\nHost: x\r\n" + form + "\r\n" + names(15_900, "%s&")},
		{"a form of many names", "POST /admin/login HTTP/1.1\r\nHost: x\r\n" + form + "\r\n" + names(16_000, "%s&")},
		{"a file, unread", strings.Repeat("GET /widget.js HTTP/1.1\r\nHost: x\r\n\r\n", 3)},
	} {
		t.Run(c.name, func(t *testing.T) {
			servertest.Await(t, "the end of other connections", func() bool { return runtime.NumGoroutine() < rest+conns/10 })
			before, held := inUse(), int64(0)
			open := make([]net.Conn, conns)
			for n := range open {
				open[n] = dialWithLittleRoom(t, a.Addr())
				_ = open[n].SetWriteDeadline(time.Now().Add(10 * time.Millisecond))
				_, _ = io.WriteString(open[n], c.text) // the service may read no more, or end the connection
			}
			for range 8 { // less than a head may take
				<-time.After(100 * time.Millisecond)
				held = max(held, inUse()-before)
			}
			t.Logf("%d connections hold %d MB", conns, held>>20)
			if held > most {
				t.Errorf("%d connections hold %d MB, want less than %d", conns, held>>20, most>>20)
			}
			for _, conn := range open {
				_ = conn.Close()
			}
		})
	}
}

// names returns different names, each in the format. Together they have at most the length.
func names(length int, format string) string {
	const letters = "abcdefghijklmnopqrstuvwxyz"
	var all []byte
	for n := 0; ; n++ {
		name := []byte{letters[n%26], letters[n/26%26], letters[n/26/26%26]}
		if next := fmt.Appendf(all, format, name); len(next) <= length {
			all = next
			continue
		}
		return string(all)
	}
}

// dialWithLittleRoom connects with a small buffer for answers.
func dialWithLittleRoom(t *testing.T, addr string) net.Conn {
	t.Helper()
	d := net.Dialer{Control: func(_, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) { _ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, 1) })
	}}
	conn, err := d.Dial("tcp", addr)
	servertest.OK(t, err)
	return conn
}

// inUse returns how much memory is in use: heap and stacks, after a collection.
func inUse() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}
