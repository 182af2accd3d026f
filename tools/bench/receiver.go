package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"sync"
	"time"

	"github.com/emersion/go-smtp"
)

// receiver is a mail server that takes everything and keeps nothing but the number.
type receiver struct {
	listener net.Listener
	server   *smtp.Server
	serving  sync.WaitGroup

	mu     sync.Mutex
	n      int
	at     time.Time
	wanted int
	enough chan struct{}
}

func newReceiver() (*receiver, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r := &receiver{listener: listener}
	r.server = smtp.NewServer(smtp.BackendFunc(func(*smtp.Conn) (smtp.Session, error) { return taker{r}, nil }))
	r.server.Domain, r.server.ErrorLog = "localhost", log.New(io.Discard, "", 0)
	r.serving.Go(func() { _ = r.server.Serve(listener) })
	return r, nil
}

func (r *receiver) addr() string { return r.listener.Addr().String() }

func (r *receiver) Close() error {
	err := r.server.Close()
	r.serving.Wait()
	return err
}

func (r *receiver) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.n
}

func (r *receiver) last() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.at
}

func (r *receiver) took() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.n, r.at = r.n+1, time.Now()
	if r.enough != nil && r.n >= r.wanted {
		close(r.enough)
		r.enough = nil
	}
}

// await waits until n mails have arrived.
func (r *receiver) await(ctx context.Context, n int, limit time.Duration) error {
	r.mu.Lock()
	if r.n >= n {
		r.mu.Unlock()
		return nil
	}
	enough := make(chan struct{})
	r.wanted, r.enough = n, enough
	r.mu.Unlock()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-enough:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return fmt.Errorf("%d of %d mails arrived within %v", r.count(), n, limit)
	}
}

// taker is one SMTP session.
type taker struct{ *receiver }

func (taker) Mail(string, *smtp.MailOptions) error { return nil }
func (taker) Rcpt(string, *smtp.RcptOptions) error { return nil }
func (taker) Reset()                               {}
func (taker) Logout() error                        { return nil }

func (t taker) Data(r io.Reader) error {
	if _, err := io.Copy(io.Discard, r); err != nil {
		return err
	}
	t.took()
	return nil
}
