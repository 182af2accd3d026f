package app

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"

	"sendcode/internal/config"
)

const benchKey = "sk_of_the_benchmarks_0123456789abcdef"

// benchApp is a service that runs until the test ends.
func benchApp(tb testing.TB, env map[string]string) *App {
	tb.Helper()
	environ := []string{"SENDCODE_ADDR=127.0.0.1:0", "SENDCODE_API_KEY=" + benchKey, "SENDCODE_DATA_DIR=" + filepath.Join(tb.TempDir(), "data")}
	for name, value := range env {
		environ = append(environ, name+"="+value)
	}
	cfg, err := config.Load(environ, os.ReadFile)
	if err != nil {
		tb.Fatal(err)
	}
	a, err := New(tb.Context(), cfg, slog.New(slog.NewJSONHandler(io.Discard, nil)))
	if err != nil {
		tb.Fatal(err)
	}
	return a
}

// serveUntilEnd runs the service until the test ends.
func serveUntilEnd(tb testing.TB, a *App) {
	tb.Helper()
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- a.Serve(ctx) }()
	tb.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			tb.Error(err)
		}
	})
}

// leanCaller asks for codes over one connection, and allocates nothing.
type leanCaller struct {
	testing.TB
	conn     net.Conn
	in       *bufio.Reader
	out      []byte
	body     []byte
	expected []byte
}

func dialCaller(tb testing.TB, addr string) *leanCaller {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		tb.Error(err)
		return nil
	}
	return &leanCaller{TB: tb, conn: conn, in: bufio.NewReader(conn), expected: []byte("HTTP/1.1 202 ")}
}

func (c *leanCaller) send(n int) {
	c.body = append(c.body[:0], `{"channel":"email","to":"recipient-`...)
	c.body = strconv.AppendInt(c.body, int64(n), 10)
	c.body = append(c.body, `@example.com","purpose":"default","locale":"en"}`...)
	c.out = append(c.out[:0], "POST /v1/verifications HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer "+benchKey+"\r\nContent-Type: application/json\r\nContent-Length: "...)
	c.out = strconv.AppendInt(c.out, int64(len(c.body)), 10)
	c.out = append(append(c.out, "\r\n\r\n"...), c.body...)
	if _, err := c.conn.Write(c.out); err != nil {
		c.Error(err)
	}
	c.hear()
}

func (c *leanCaller) hear() {
	length := 0
	for first := true; ; first = false {
		line, err := c.in.ReadSlice('\n')
		if err != nil || first && !bytes.HasPrefix(line, c.expected) {
			c.Errorf("answered %q: %v", line, err)
			return
		}
		if rest, ok := bytes.CutPrefix(line, []byte("Content-Length: ")); ok {
			for _, digit := range bytes.TrimSpace(rest) {
				length = 10*length + int(digit-'0')
			}
		}
		if len(line) == 2 {
			break
		}
	}
	if _, err := c.in.Discard(length); err != nil {
		c.Error(err)
	}
}

// sink is a mail server that takes everything, counts it, and allocates nothing for a mail.
type sink struct {
	listener net.Listener
	serving  sync.WaitGroup
	mu       sync.Mutex
	more     *sync.Cond
	n        int
}

func startSink(tb testing.TB) *sink {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	s := &sink{listener: listener}
	s.more = sync.NewCond(&s.mu)
	s.serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			s.serving.Go(func() { s.serve(conn) })
		}
	})
	tb.Cleanup(func() { _ = listener.Close() })
	return s
}

func (s *sink) url() string { return fmt.Sprintf("smtp://%s", s.listener.Addr()) }

// await waits until n mails have arrived.
func (s *sink) await(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.n < n {
		s.more.Wait()
	}
}

func (s *sink) took() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.n++
	s.more.Broadcast()
}

func (s *sink) serve(conn net.Conn) {
	defer conn.Close()
	in, out := bufio.NewReaderSize(conn, 16<<10), bufio.NewWriter(conn)
	reply := "220 sink\r\n"
	content := false
	for {
		if _, err := out.WriteString(reply); err != nil {
			return
		}
		if in.Buffered() == 0 && out.Flush() != nil {
			return
		}
		line, err := in.ReadSlice('\n')
		if err != nil {
			return
		}
		switch {
		case content && !bytes.Equal(line, []byte(".\r\n")):
			reply = ""
		case content:
			content, reply = false, "250 2.0.0 taken\r\n"
			s.took()
		case bytes.HasPrefix(line, []byte("EHLO")):
			reply = "250-sink\r\n250-PIPELINING\r\n250-8BITMIME\r\n250 ENHANCEDSTATUSCODES\r\n"
		case bytes.HasPrefix(line, []byte("DATA")):
			content, reply = true, "354 go on\r\n"
		default:
			reply = "250 2.1.0 fine\r\n"
		}
	}
}
