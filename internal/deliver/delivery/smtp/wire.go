package smtp

import (
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"time"
)

// maxStepBytes bounds the server's bytes within one step of the dialogue, such as the reply to a
// command, or a TLS handshake with its certificates. Real replies stay under 1 KiB, certificate
// chains under 20 KiB.
const maxStepBytes = 64 << 10

// countedConn is the socket below TLS and all other layers. Only the goroutine of the dialogue
// reads and writes; any goroutine may Close.
type countedConn struct {
	net.Conn
	// sent counts the bytes that the kernel has accepted.
	sent int64
	// bytesLeft is the number of bytes that may still be read in this step.
	bytesLeft int
	// began is when the step began, and until is its deadline. The function shouldGiveUp decides
	// whether to give up a slow server before this deadline. The parameter waited is how long the
	// server has not answered. From shortTimeout on, shouldGiveUp is called repeatedly, and the
	// step ends as soon as it returns true. If shouldGiveUp is nil, the step waits until its
	// deadline.
	began, until time.Time
	shouldGiveUp func(waited time.Duration) bool
}

// startStep sets the deadline of a step, and how many bytes the server may send within it.
func (c *countedConn) startStep(limit time.Duration, shouldGiveUp func(waited time.Duration) bool) {
	c.bytesLeft, c.began, c.shouldGiveUp = maxStepBytes, time.Now(), shouldGiveUp
	c.until = c.began.Add(limit)
	_ = c.SetDeadline(c.until) // fails only on a closed socket; then the step fails, too
	if shouldGiveUp != nil {
		_ = c.SetReadDeadline(c.began.Add(min(limit, shortTimeout)))
	}
}

// waitsOn reports whether the step still waits for the server, although a read failed with err at
// its deadline. If so, waitsOn sets the next deadline, and the caller reads again. The step stops
// waiting if shouldGiveUp returns true, or if the deadline of the whole step has passed.
func (c *countedConn) waitsOn(err error) bool {
	now := time.Now()
	if c.shouldGiveUp == nil || !errors.Is(err, os.ErrDeadlineExceeded) || !now.Before(c.until) {
		return false
	}
	if c.shouldGiveUp(now.Sub(c.began)) {
		_ = c.SetDeadline(now) // so that HELO, which follows a failed EHLO, fails at once, too
		return false
	}
	next := now.Add(time.Second)
	if next.After(c.until) {
		next = c.until
	}
	return c.SetReadDeadline(next) == nil
}

func (c *countedConn) Read(p []byte) (int, error) {
	if c.bytesLeft <= 0 {
		return 0, errReplyTooLong
	}
	n, err := c.Conn.Read(p[:min(len(p), c.bytesLeft)])
	for n == 0 && c.waitsOn(err) {
		n, err = c.Conn.Read(p[:min(len(p), c.bytesLeft)])
	}
	c.bytesLeft -= n
	return n, err
}

// Write closes the socket if it fails. Otherwise a later write could complete a half-written mail.
// And a server that got only half of the final dot would never reply.
func (c *countedConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.sent += int64(n)
	if err != nil {
		_ = c.Close()
	}
	return n, err
}

// replyReader is between the connection and net/textproto, and corrects two faults. First, if the
// stream breaks in the middle of a line, bufio.Reader.ReadLine returns the part before the break as
// a line and drops the error (a timeout, a reset, or the end of the stream). So replyReader
// remembers such a break. Second, net/textproto does not accept a line with a code and no text (RFC
// 5321 section 4.2) as a reply. So replyReader adds a blank after the code.
type replyReader struct {
	source   io.Reader
	within   bool   // the last byte that was read did not end a line
	brokenBy error  // error that broke the stream within a line
	digits   int    // how many digits the line has so far; -1 if it has another character
	rest     []byte // bytes that were read and did not fit into the caller's buffer
}

func (r *replyReader) Read(p []byte) (int, error) {
	if len(r.rest) > 0 {
		n := copy(p, r.rest)
		r.rest = r.rest[n:]
		return n, nil
	}
	n, err := r.source.Read(p)
	if n > 0 {
		r.within = p[n-1] != '\n'
	}
	if err != nil && r.within {
		r.brokenBy = err
	}
	out := r.withBlanks(p[:n])
	n = copy(p, out)
	r.rest = out[n:]
	return n, err
}

// withBlanks returns the read bytes, with a blank after each line of only three digits.
func (r *replyReader) withBlanks(read []byte) []byte {
	for i := 0; i < len(read); i++ {
		switch c := read[i]; {
		case r.digits == 3 && (c == '\r' || c == '\n'):
			read, r.digits = slices.Insert(slices.Clip(read), i, ' '), -1
		case c == '\n':
			r.digits = 0
		case c >= '0' && c <= '9' && r.digits >= 0:
			r.digits++
		default:
			r.digits = -1
		}
	}
	return read
}

// replyConn is a connection that is read through a replyReader.
type replyConn struct {
	net.Conn
	replies *replyReader
}

func (c replyConn) Read(p []byte) (int, error) { return c.replies.Read(p) }
