package smtp

import (
	"io"
	"net"
	"slices"
	"time"
)

// maxStepBytes bounds what the server may say within one step, a TLS handshake with its certificates
// included. Real replies stay under 1 KiB, chains under 20 KiB.
const maxStepBytes = 64 << 10

// countedConn is the socket below everything else, TLS included. Only the goroutine of the dialogue reads
// and writes; any goroutine may Close.
type countedConn struct {
	net.Conn
	// sent counts the bytes that the kernel has taken.
	sent int64
	// room is how many more bytes may be read in this step.
	room int
}

// startStep sets the deadline of a step, and how many bytes the server may say within it.
func (w *countedConn) startStep(limit time.Duration) {
	w.room = maxStepBytes
	_ = w.SetDeadline(time.Now().Add(limit)) // fails only on a closed socket, and so will the step
}

func (w *countedConn) Read(p []byte) (int, error) {
	if w.room <= 0 {
		return 0, errReplyTooLong
	}
	n, err := w.Conn.Read(p[:min(len(p), w.room)])
	w.room -= n
	return n, err
}

// Write closes the socket if it fails: a later write must not complete a half-written mail, and no
// reply would come to half of the final dot.
func (w *countedConn) Write(p []byte) (int, error) {
	n, err := w.Conn.Write(p)
	w.sent += int64(n)
	if err != nil {
		_ = w.Close()
	}
	return n, err
}

// replyReader is between the connection and net/textproto. It remembers whether the stream broke in
// the middle of a line: bufio.Reader.ReadLine hands out the part before the break as a line and
// swallows the error, be it a timeout, a reset or an end. And it writes a blank after the code of a
// line without text (RFC 5321 section 4.2), which net/textproto takes for no reply.
type replyReader struct {
	source io.Reader
	within bool   // the last byte that was read did not end a line
	torn   error  // what broke the stream within a line
	digits int    // how many digits the line has so far; -1 if it has anything else
	rest   []byte // was read, but did not fit into the caller's buffer
}

func (g *replyReader) Read(p []byte) (int, error) {
	if len(g.rest) > 0 {
		n := copy(p, g.rest)
		g.rest = g.rest[n:]
		return n, nil
	}
	n, err := g.source.Read(p)
	if n > 0 {
		g.within = p[n-1] != '\n'
	}
	if err != nil && g.within {
		g.torn = err
	}
	out := g.withBlanks(p[:n])
	n = copy(p, out)
	g.rest = out[n:]
	return n, err
}

// withBlanks returns what was read, with a blank after each line of three digits alone.
func (g *replyReader) withBlanks(read []byte) []byte {
	for i := 0; i < len(read); i++ {
		switch c := read[i]; {
		case g.digits == 3 && (c == '\r' || c == '\n'):
			read, g.digits = slices.Insert(slices.Clip(read), i, ' '), -1
		case c == '\n':
			g.digits = 0
		case c >= '0' && c <= '9' && g.digits >= 0:
			g.digits++
		default:
			g.digits = -1
		}
	}
	return read
}

// guardedConn is a connection that is read through a replyReader.
type guardedConn struct {
	net.Conn
	guard *replyReader
}

func (c guardedConn) Read(p []byte) (int, error) { return c.guard.Read(p) }
