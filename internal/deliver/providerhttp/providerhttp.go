// Package providerhttp makes one HTTP request to a provider. If it cannot read an answer, it
// reports whether a byte of the request was written to the socket, below TLS. If no byte was
// written, the provider certainly does not have the message. Otherwise the outcome is unknown. The
// package also has code for providers of both text messages and mails: errors by status, safe error
// codes, values at a configured path in JSON, and signatures like those of AWS.
//
// Idle connections are kept for IdleTimeout. If a kept connection breaks, net/http repeats some
// requests itself, which could send a second message. This package therefore makes requests in a
// form that net/http cannot repeat.
package providerhttp

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptrace"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/propagation"

	"sendcode/internal/deliver/delivery"
)

// Request is an HTTP request to a provider.
type Request struct {
	Method, URL string
	Header      http.Header
	Body        []byte
}

// Response is a provider's HTTP response with its whole body.
type Response struct {
	Status int
	Header http.Header
	Body   []byte
	// TLS is the state of the connection; nil without TLS.
	TLS *tls.ConnectionState
}

const (
	// DialTimeout bounds the opening of a connection, and then its TLS handshake.
	DialTimeout = 10 * time.Second
	// defaultTimeout bounds one request, from the dial to the end of the response.
	defaultTimeout = 20 * time.Second
	// IdleTimeout is how long an idle connection is kept. Common servers close an idle connection
	// after 5 s. If the server closes a connection just as a request begins, the outcome of the
	// request is unknown. A short IdleTimeout avoids this.
	IdleTimeout = 2 * time.Second
	// maxIdleConnections bounds the connections that one Client keeps.
	maxIdleConnections = 32
	// maxResponseBytes bounds the body of a response, in bytes.
	maxResponseBytes = 64 << 10
)

// These are the causes of failures, in texts without data of the request or the response.
const (
	ErrUnreadableAnswer  = delivery.SafeError("the answer can't be read")
	ErrIncompleteMessage = delivery.SafeError("the message is not complete")
	errConnect           = delivery.SafeError("no connection")
	errConnectionBroke   = delivery.SafeError("the connection broke")
	errAnswerTooLong     = delivery.SafeError("the answer is too long")
	errRedirect          = delivery.SafeError("the provider redirects elsewhere; redirects are not followed")
)

// Client makes requests to one provider. A zero field means its default. A Client is safe for
// concurrent use. It must not be copied after the first request.
type Client struct {
	// Timeout bounds one request; by default 20 s.
	Timeout time.Duration
	// Dial opens the socket; nil means a [net.Dialer].
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// RootCAs are the certificate authorities that are trusted for the server's certificate. If
	// RootCAs is nil, the system's authorities are trusted.
	RootCAs *x509.CertPool

	once sync.Once // makes http
	http *http.Client
}

// client returns the HTTP client. Its connections use HTTP/1.1, so each connection carries one
// request at a time.
func (c *Client) client() *http.Client {
	c.once.Do(func() {
		c.http = &http.Client{
			Transport: &http.Transport{
				Proxy: http.ProxyFromEnvironment, DialContext: c.dial, TLSHandshakeTimeout: DialTimeout,
				TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: c.RootCAs},
				IdleConnTimeout: IdleTimeout, MaxIdleConnsPerHost: maxIdleConnections,
			},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}
	})
	return c.http
}

func (c *Client) dial(ctx context.Context, network, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, DialTimeout)
	defer cancel()
	dial := c.Dial
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	conn, err := dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &trackedConn{Conn: conn}, nil
}

// trackedConn asks the writeTracker of the current request before each write.
type trackedConn struct {
	net.Conn
	tracker atomic.Pointer[writeTracker] // nil before the first request, while TLS writes
}

// Write implements net.Conn. After stopAndReportSent it fails with net.ErrClosed.
func (t *trackedConn) Write(b []byte) (int, error) {
	if w := t.tracker.Load(); w != nil && !w.admit() {
		return 0, net.ErrClosed
	}
	return t.Conn.Write(b)
}

// writeTracker notes whether a byte of its request was written to a connection.
type writeTracker struct {
	mu     sync.Mutex // not held while writing
	onLeft func()     // called before the first write; may be nil
	left   bool       // a write of the request began; even if it failed, some bytes may have left
	closed bool       // further writes fail
}

func (w *writeTracker) admit() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.left && !w.closed {
		w.left = true
		if w.onLeft != nil {
			w.onLeft()
		}
	}
	return !w.closed
}

// onConnected is called when the connection is ready, after the TLS handshake if there is one. From
// then on, all bytes written belong to this request, until the connection carries the next request.
func (w *writeTracker) onConnected(info httptrace.GotConnInfo) {
	conn := info.Conn
	for {
		secured, ok := conn.(*tls.Conn)
		if !ok {
			break
		}
		conn = secured.NetConn()
	}
	conn.(*trackedConn).tracker.Store(w)
}

// stopAndReportSent makes further writes fail, and reports whether a byte of the request may have
// left. After the request has failed, net/http may still try to write it. Such a write now fails,
// so the result cannot change afterwards.
func (w *writeTracker) stopAndReportSent() (left bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	return w.left
}

// Do makes one request, and returns the response for any status. The request's header traceparent
// has the trace of ctx. The error's class is Unknown if the provider may have the message, and
// otherwise Temporary.
func (c *Client) Do(ctx context.Context, r Request) (Response, *delivery.Error) {
	caller := ctx
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(c.Timeout, defaultTimeout))
	defer cancel()
	tracker := writeTracker{onLeft: func() { delivery.SetHandover(caller, true) }}
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: tracker.onConnected})
	req, err := http.NewRequestWithContext(traced, r.Method, r.URL, bytes.NewReader(r.Body))
	if err != nil {
		return Response{}, &delivery.Error{
			Class: delivery.Temporary, Stage: delivery.StagePrepare, About: delivery.AboutUs,
			Err: ErrIncompleteMessage,
		}
	}
	req.GetBody = nil // net/http repeats a POST with an Idempotency-Key only if GetBody is set,
	if r.Method == http.MethodGet {
		req.Body = io.NopCloser(bytes.NewReader(nil)) // and repeats a GET only if it has no body
	}
	maps.Copy(req.Header, r.Header)
	propagation.TraceContext{}.Inject(ctx, propagation.HeaderCarrier(req.Header)) // adds nothing if ctx has no trace
	response, err := c.client().Do(req)
	if err != nil {
		left := tracker.stopAndReportSent()
		delivery.SetHandover(ctx, left || delivery.HandedOver(ctx))
		return Response{}, transportError(caller, ctx, left, err)
	}
	delivery.SetHandover(ctx, true)
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxResponseBytes+1))
	switch {
	case err != nil:
		return Response{}, transportError(caller, ctx, true, err)
	case len(body) > maxResponseBytes:
		return Response{}, &delivery.Error{
			Class: delivery.Unknown, Stage: delivery.StageRequest,
			Status: response.StatusCode, Err: errAnswerTooLong,
		}
	}
	return Response{response.StatusCode, response.Header, body, response.TLS}, nil
}

// transportError returns the error of a request without a whole response. Its class is Unknown if
// left is true, that is, if a byte of the request may have left, and otherwise Temporary. If
// caller, the context of Do's caller, has ended, this service gave up the request. ctx ends
// together with caller, or when the request's timeout is over.
func transportError(caller, ctx context.Context, left bool, err error) *delivery.Error {
	e := &delivery.Error{Class: delivery.Temporary, Stage: delivery.StageDial, Err: errConnect}
	if left {
		e.Class, e.Stage, e.Err = delivery.Unknown, delivery.StageRequest, errConnectionBroke
	}
	if caller.Err() != nil {
		e.About = delivery.AboutUs
	}
	var timeout net.Error
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		e.Err = delivery.CauseOf(ctx)
	case ctx.Err() != nil, errors.As(err, &timeout) && timeout.Timeout():
		e.Err = os.ErrDeadlineExceeded
	}
	return e
}
