package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// result is one run.
type result struct {
	sends   int
	took    time.Duration   // until the last mail had arrived
	answers []time.Duration // of each request
	each    usage           // processor time for each send
}

func (r result) rate() float64 { return float64(r.sends) / r.took.Seconds() }

// settle is how long mails may take to arrive after the last answer.
const settle = 30 * time.Second

// measure has callers ask for one code after the other, each for a recipient of its own, for a time.
func (b *rig) measure(ctx context.Context, c contender, callers int, length time.Duration) (result, error) {
	before, spent := b.mails.count(), b.usage(c)
	began := time.Now()
	deadline := began.Add(length)
	answers := make([][]time.Duration, callers)
	failures := make([]error, callers)
	var all sync.WaitGroup
	for n := range callers {
		all.Go(func() {
			caller := caller{base: c.base, next: &b.recipients}
			defer caller.close()
			for ctx.Err() == nil && time.Now().Before(deadline) && failures[n] == nil {
				asked := time.Now()
				failures[n] = caller.ask()
				answers[n] = append(answers[n], time.Since(asked))
			}
		})
	}
	all.Wait()
	var r result
	for _, some := range answers {
		r.answers = append(r.answers, some...)
	}
	r.sends = len(r.answers)
	if err := errors.Join(append(failures, ctx.Err())...); err != nil {
		return r, err
	}
	err := b.mails.await(ctx, before+r.sends, settle)
	r.took = b.mails.last().Sub(began)
	r.each = b.usage(c).since(spent, r.sends)
	return r, err
}

// caller is one connection that asks. It speaks plain HTTP, since the usual client would need more of the processor
// than what is measured.
type caller struct {
	base string
	next *atomic.Int64
	conn net.Conn
	in   *bufio.Reader
}

func (c *caller) close() {
	if c.conn != nil {
		_ = c.conn.Close()
	}
}

// ask asks for a code for somebody new, who is to get one.
func (c *caller) ask() error {
	status, said, err := c.askFor(fmt.Sprintf("someone-%d@example.com", c.next.Add(1)))
	if err == nil && status != http.StatusAccepted {
		err = fmt.Errorf("%d: %s", status, said)
	}
	return err
}

func (c *caller) askFor(to string) (status int, said []byte, err error) {
	if c.conn == nil {
		conn, err := net.Dial("tcp", c.base)
		if err != nil {
			return 0, nil, err
		}
		c.conn, c.in = conn, bufio.NewReader(conn)
	}
	body := fmt.Sprintf(`{"channel":"email","to":%q,"purpose":"default","locale":"en"}`, to)
	_ = c.conn.SetDeadline(time.Now().Add(settle))
	_, err = fmt.Fprintf(c.conn, "POST /v1/verifications HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer %s\r\n"+
		"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", apiKey, len(body), body)
	if err != nil {
		return 0, nil, err
	}
	answer, err := http.ReadResponse(c.in, nil)
	if err != nil {
		return 0, nil, err
	}
	said, err = io.ReadAll(answer.Body)
	_ = answer.Body.Close()
	return answer.StatusCode, said, err
}
