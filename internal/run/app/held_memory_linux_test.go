package app

import (
	"fmt"
	"io"
	"net"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sendcode/internal/kit/servertest"
)

// Whatever a client without a key sends, and even if it reads no answer, its connections hold at
// most a tenth of a MiB of this process each, on average. That is the sum of the heap and the
// stacks after a collection. It includes the test's own ends of the connections. The nightly test
// tries all kinds of connections, and 1,000 of each.
func TestConnectionsOfStrangersHoldLittleMemory(t *testing.T) {
	servertest.SkipUnderRace(t)
	a, rest := startForStrangers(t)
	for _, c := range strangersBytes()[:frequentKinds] {
		c.holdsLittle(t, a.Addr(), rest, 100)
	}
}

// frequentKinds is how many of strangersBytes each run of the tests tries.
const frequentKinds = 15

// startForStrangers starts a service whose answers soon block if they are not read. It also returns
// the number of goroutines without connections.
func startForStrangers(t *testing.T) (a *App, rest int) {
	t.Helper()
	gcPercent := debug.SetGCPercent(100) // as the service has, whatever GOGC the tests have
	t.Cleanup(func() { debug.SetGCPercent(gcPercent) })
	a = newAlone(t, "requests_per_minute: 0", "SENDCODE_ADMIN_PASSWORD=a long password of a test")
	little := func(fd uintptr) { _ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_SNDBUF, 1) }
	port, err := a.listeners[0].Listener.(syscall.Conn).SyscallConn()
	servertest.OK(t, err)
	servertest.OK(t, port.Control(little)) // accepted connections inherit this, so an unread answer soon blocks the service
	a.serveUntilTheEnd(t)
	<-time.After(time.Second) // for the service's own start
	return a, runtime.NumGoroutine()
}

// strangersBytes returns the requests by which clients without a key can occupy memory on a
// connection.
func strangersBytes() []strangersConn {
	form := "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 16000\r\n"
	parts := "Content-Type: multipart/form-data; boundary=b\r\nContent-Length: 16000\r\n"
	ours := "Sec-Fetch-Site: same-origin\r\n" + form // a form of this service's own page
	part := "--b\r\nContent-Disposition: form-data; name=%s\r\n\r\n\r\n"
	return []strangersConn{
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
			"1\r\n1\r\n0\r\n"+names(4000, "%s:\n")+"\r\n", 30)},
		{"a form without an end", "POST /admin/login HTTP/1.1\r\nHost: x\r\n" + form + "\r\n" + names(15_900, "%s&")},
		{"a form of many names", "POST /admin/login HTTP/1.1\r\nHost: x\r\n" + form + "\r\n" + names(16_000, "%s&")},
		{"a file, unread", strings.Repeat("GET /widget.js HTTP/1.1\r\nHost: x\r\n\r\n", 3)},
		{"many cookies, unread", strings.Repeat("GET /admin/login HTTP/1.1\r\nHost: x\r\nCookie: "+names(15_000, "%s=;")+"\r\n\r\n", 3)},
		{"a login of many names, unread", strings.Repeat("POST /admin/login HTTP/1.1\r\nHost: x\r\n"+ours+"\r\n"+padded(names(15_900, "%s&"), 16_000), 12)},
		{"a code of many names, unread", strings.Repeat("POST /admin/login/code HTTP/1.1\r\nHost: x\r\n"+ours+"\r\n"+padded(names(15_900, "%s=1&"), 16_000), 12)},
		{"filters of many names, unread", strings.Repeat("POST /admin/filter HTTP/1.1\r\nHost: x\r\n"+ours+"\r\n"+padded(names(15_900, "%s=1&"), 16_000), 12)},
		{"a return of many names, unread", strings.Repeat("POST /return HTTP/1.1\r\nHost: x\r\n"+ours+"\r\n"+padded(names(15_900, "%s&"), 16_000), 12)},
		{"a return in parts, unread", strings.Repeat("POST /return HTTP/1.1\r\nHost: x\r\nSec-Fetch-Site: same-origin\r\n"+parts+"\r\n"+padded(names(15_800, part)+"--b--\r\n", 16_000), 12)},
		{"a page with many names and a long one, unread", strings.Repeat("GET /?"+names(500, "%s&")+strings.Repeat("a", 14_000)+" HTTP/1.1\r\nHost: x\r\nAccept: text/html\r\n\r\n", 30)},
		{"a document, unread", strings.Repeat("GET /docs HTTP/1.1\r\nHost: x\r\n\r\n", 30)},
		{"many cookies and a form without an end", "POST /admin/login HTTP/1.1\r\nHost: x\r\nCookie: " + names(7000, "%s=;") + "\r\n" + form + "\r\n" +
			names(8000, "%s&")},
		{"cookies in many lines", "GET / HTTP/1.1\r\nHost: x\r\n" + strings.Repeat("Cookie: "+names(120, "%s=;")+"\r\n", 110) + "\r\n"},
		{"extensions of chunks without an end", "POST /v1/verifications HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" +
			strings.Repeat("1;"+names(300, "%s=1;")+"\r\n1\r\n", 40)},
		{"one endless extension of a chunk", "POST /v1/verifications HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1;" + strings.Repeat("a", 4000)},
		{"chunks of one byte without an end", "POST /v1/verifications HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" +
			strings.Repeat("1\r\n1\r\n", 3000)},
		{"names of a trailer", "POST /v1/verifications HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nTrailer: " + names(15_000, "%s,") + "zzzz\r\n\r\n1\r\n1\r\n"},
		{"names of a trailer in many lines", "POST /v1/verifications HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n" +
			strings.Repeat("Trailer: "+names(110, "%s,")+"zzzz\r\n", 110) + "\r\n1\r\n1\r\n"},
		{"a trailer without an end", "POST /v1/verifications HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n1\r\n0\r\n" + names(4000, "%s:\r\n")},
		{"heads in one piece, unread", strings.Repeat("GET /livez HTTP/1.1\r\nHost: x\r\n\r\n", 400)},
		{"long heads in one piece, unread", strings.Repeat("GET /livez HTTP/1.1\r\nHost: x\r\n"+names(600, "%s:\r\n")+"\r\n", 30)},
		{"refusals in one piece, unread", strings.Repeat("POST /v1/verifications HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}", 300)},
		{"pages in one piece, unread", strings.Repeat("GET / HTTP/1.1\r\nHost: x\r\nAccept: text/html\r\n\r\n", 100)},
		{"pages of brotli in one piece, unread", strings.Repeat("GET / HTTP/1.1\r\nHost: x\r\nAccept-Encoding: br\r\n\r\n", 100)},
		{"pages of gzip in one piece, unread", strings.Repeat("GET / HTTP/1.1\r\nHost: x\r\nAccept-Encoding: gzip\r\n\r\n", 100)},
		{"many small requests", strings.Repeat("POST /v1/verifications HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer x\r\nContent-Length: 2\r\n\r\n{}", 5)},
		{"ranges of a file, unread", strings.Repeat("GET /widget.js HTTP/1.1\r\nHost: x\r\nRange: bytes="+strings.Repeat("0-0,", 3700)+"0-0\r\n\r\n", 3)},
		{"a form in parts without an end", "POST /admin/login HTTP/1.1\r\nHost: x\r\n" + parts + "\r\n" + names(15_900, part)},
		{"a form in parts, unread", strings.Repeat("POST /admin/login HTTP/1.1\r\nHost: x\r\n"+parts+"\r\n"+padded(names(15_800, part)+"--b--\r\n", 16_000), 3)},
		{"a form of the mailbox without an end", "POST /mailbox HTTP/1.1\r\nHost: x\r\n" + form + "\r\n" + names(15_900, "%s&")},
		{"a form of the mailbox, unread", strings.Repeat("POST /mailbox/clear HTTP/1.1\r\nHost: x\r\n"+form+"\r\n"+padded(names(15_990, "%s&"), 16_000), 3)},
		{"a form of a mail's link without an end", "POST /not-me/" + strings.Repeat("a", 43) + " HTTP/1.1\r\nHost: x\r\n" + form + "\r\n" + names(15_900, "%s&")},
		{"JSON of many names without an end", "POST /v1/verifications HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer pk_x\r\nContent-Length: 16000\r\n\r\n{" +
			names(15_900, `"%s":1,`)},
		{"deep JSON without an end", "POST /v1/verifications HTTP/1.1\r\nHost: x\r\nContent-Length: 16000\r\n\r\n" + strings.Repeat("[", 15_900)},
		{"a body that waits for 100", "POST /v1/verifications HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 16000\r\n\r\n"},
		{"many hops", "POST /v1/verifications HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: " + strings.Repeat("1,", 7000) + "1\r\nContent-Length: 9\r\n\r\n12345678"},
		{"many languages, unread", strings.Repeat("GET / HTTP/1.1\r\nHost: x\r\nAccept: text/html\r\nAccept-Language: "+strings.Repeat("a_b_#c;q=x,", 1300)+"en\r\n\r\n", 3)},
		{"a long key, unread", strings.Repeat("POST /v1/verifications HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer "+strings.Repeat("a", 15_000)+"\r\nContent-Length: 2\r\n\r\n{}", 3)},
		{"events of a provider without an end", "POST /v1/events/x HTTP/1.1\r\nHost: x\r\nContent-Length: 900000\r\n\r\n" + strings.Repeat("[", 60_000)},
		{"an upgrade", "GET /v1/channels HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n" + strings.Repeat("a", 8000)},
		{"the beginning of HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + strings.Repeat("\x00", 8000)},
		{"the beginning of TLS", "\x16\x03\x01\x40\x00\x01\x00\x3f\xfc" + strings.Repeat("a", 8000)},
	}
}

// strangersConn has the bytes that a stranger sends on a connection.
type strangersConn struct{ name, text string }

// padded extends a body to a length.
func padded(body string, length int) string { return body + strings.Repeat("&", length-len(body)) }

// holdsLittle opens connections at an address, writes the text on each, and measures how much more
// memory this process has in use. rest is the number of goroutines without connections.
func (c strangersConn) holdsLittle(t *testing.T, addr string, rest, conns int) {
	t.Run(c.name, func(t *testing.T) {
		most := int64(conns) << 20 / 10
		servertest.Await(t, "the end of other connections", func() bool { return runtime.NumGoroutine() < rest+conns/10 })
		runtime.GC() // with the collection of inUse, this empties sync.Pool of what other connections used
		before, held := inUse(), int64(0)
		open := make([]net.Conn, conns)
		for n := range open {
			open[n] = dialWithLittleRoom(t, addr)
			_ = open[n].SetWriteDeadline(time.Now().Add(10 * time.Millisecond))
			_, _ = io.WriteString(open[n], c.text) // the service may read no more, or end the connection
		}
		for same, end := 0, time.Now().Add(20*time.Second); same < 8 && time.Now().Before(end); same++ {
			<-time.After(time.Duration(conns) * 100 * time.Microsecond)
			if now := inUse() - before; now > held+held/50 { // the service is still reading, or making answers
				held, same = now, 0
			}
		}
		t.Logf("%d connections hold %d kB", conns, held>>10)
		if held > most {
			t.Errorf("%d connections hold %d kB, want less than %d", conns, held>>10, most>>10)
		}
		for _, conn := range open {
			_ = conn.Close()
		}
	})
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

// inUse returns how much memory a collection found in use: heap and stacks. MemStats.HeapAlloc
// would include what was allocated since that collection. How much that is depends on GOGC and on
// how busy the machine is, because hundreds of goroutines may run before this one does again.
func inUse() int64 {
	runtime.GC()
	found := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/memory/classes/heap/stacks:bytes"}}
	metrics.Read(found)
	return int64(found[0].Value.Uint64() + found[1].Value.Uint64())
}
