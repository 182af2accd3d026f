//go:build nightly

package bench

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// caller is one connection of a client in plain HTTP/1.1. net/http would take more processor time
// than what is measured.
type caller struct {
	base string
	conn net.Conn
	in   *bufio.Reader
	out  []byte
	head []byte // of the last answer
	body []byte // of the last answer
}

func (c *caller) close() {
	if c.conn != nil {
		_ = c.conn.Close()
	}
}

const sendPath = "/v1/verifications"

// sendBody asks for a code.
func sendBody(to string) string { return object(send(to, "default")) }

func send(to, purpose string) []string {
	return []string{"channel", "email", "to", to, "purpose", purpose, "locale", "en"}
}

// object is JSON of pairs of plain text; "" of none.
func object(fields []string) string {
	if len(fields) == 0 {
		return ""
	}
	var out strings.Builder
	for i, text := range fields {
		out.WriteString([]string{`,"`, `":"`}[i%2] + text + []string{"", `"`}[i%2])
	}
	return "{" + out.String()[len(","):] + "}"
}

// must makes a request that is answered with the status: a POST, or a GET where there is no body.
func (c *caller) must(want int, path, body string) error {
	method := http.MethodPost
	if body == "" {
		method = http.MethodGet
	}
	status, err := c.do(method, path, body)
	if err == nil && status != want {
		err = fmt.Errorf("%d: %s", status, c.body)
	}
	return err
}

// do makes one request. The answer is in head and body until the next one.
func (c *caller) do(method, path, body string) (status int, err error) {
	if c.conn == nil {
		conn, err := net.Dial("tcp", c.base)
		if err != nil {
			return 0, err
		}
		c.conn, c.in = conn, bufio.NewReader(conn)
	}
	_ = c.conn.SetDeadline(time.Now().Add(settle))
	c.out = fmt.Appendf(c.out[:0], "%s %s HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer %s\r\nContent-Type: "+
		"application/json\r\nContent-Length: %d\r\n\r\n%s",
		method, path, apiKey, len(body), body)
	if _, err := c.conn.Write(c.out); err != nil {
		return 0, err
	}
	length := 0
	for c.head = c.head[:0]; !bytes.HasSuffix(c.head, []byte("\r\n\r\n")); {
		line, err := c.in.ReadSlice('\n')
		if err != nil {
			return 0, err
		}
		c.head = append(c.head, line...)
		if name, value, _ := bytes.Cut(line, []byte(": ")); bytes.EqualFold(name, []byte("Content-Length")) {
			if length, err = strconv.Atoi(string(bytes.TrimSpace(value))); err != nil {
				return 0, err
			}
		}
	}
	c.body = slices.Grow(c.body[:0], length)[:length]
	if _, err := io.ReadFull(c.in, c.body); err != nil {
		return 0, err
	}
	_, rest, _ := bytes.Cut(c.head, []byte(" "))
	return strconv.Atoi(string(rest[:min(3, len(rest))]))
}
