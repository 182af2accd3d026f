package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// caller is one connection of a client in plain HTTP/1.1. net/http would take more processor time than what is measured.
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

// send asks for a code.
func (c *caller) send(to string) (status int, err error) {
	return c.do("POST", "/v1/verifications", `{"channel":"email","to":"`+to+`","purpose":"default","locale":"en"}`)
}

// mustSend asks for a code that has to be sent.
func (c *caller) mustSend(to string) error {
	status, err := c.send(to)
	return c.expect(http.StatusAccepted, status, err)
}

// must makes a request that is answered with the status.
func (c *caller) must(want int, method, path, body string) error {
	status, err := c.do(method, path, body)
	return c.expect(want, status, err)
}

func (c *caller) expect(want, status int, err error) error {
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
	return c.read()
}

func (c *caller) read() (status int, err error) {
	c.head, c.body = c.head[:0], c.body[:0]
	length := -1
	for {
		line, err := c.in.ReadSlice('\n')
		if err != nil {
			return 0, err
		}
		c.head = append(c.head, line...)
		if len(bytes.TrimSpace(line)) == 0 {
			break
		}
		if name, value, ok := bytes.Cut(line, []byte(":")); ok && strings.EqualFold(string(name), "Content-Length") {
			if length, err = strconv.Atoi(string(bytes.TrimSpace(value))); err != nil {
				return 0, err
			}
		}
	}
	const start = "HTTP/1.1 "
	if len(c.head) < len(start)+3 || !bytes.HasPrefix(c.head, []byte(start)) {
		return 0, errors.New("no answer of HTTP/1.1")
	}
	if status, err = strconv.Atoi(string(c.head[len(start) : len(start)+3])); err != nil {
		return 0, err
	}
	if length < 0 && status != 204 {
		return 0, errors.New("an answer without its length")
	}
	c.body = append(c.body, make([]byte, max(length, 0))...)
	_, err = io.ReadFull(c.in, c.body)
	return status, err
}
