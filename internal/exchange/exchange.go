// Package exchange makes one HTTP request to a provider and tells, if no answer can be read,
// whether a byte of the request has left this machine, counted on the socket below TLS: before, the
// provider certainly has no message; after, the outcome is unknown. It also has what the providers
// of text messages and of mails share: errors by status, safe codes, and the signatures of AWS's
// family.
//
// Every connection is used once, since net/http would by itself repeat a request on a kept one that
// broke, and a repeated request is a second message.
package exchange

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
	"time"

	"go.opentelemetry.io/otel/propagation"

	"sendcode/internal/delivery"
)

// Request is what goes to a provider.
type Request struct {
	Method, URL string
	Header      http.Header
	Body        []byte
}

// Response is what came back, whole.
type Response struct {
	Status int
	Header http.Header
	Body   []byte
	// TLS is the state of the connection; nil in the clear.
	TLS *tls.ConnectionState
}

const (
	// DialTimeout bounds opening a connection, and the handshake.
	DialTimeout = 10 * time.Second
	// defaultTimeout bounds one request, whole.
	defaultTimeout = 20 * time.Second
	// maxResponseBytes bounds what is read of an answer, in bytes.
	maxResponseBytes = 64 << 10
)

// The causes of failures, in our own words.
const (
	ErrUnreadableAnswer  = delivery.SafeText("the answer can't be read")
	ErrIncompleteMessage = delivery.SafeText("the message is not complete")
	errConnect           = delivery.SafeText("no connection")
	errConnectionBroke   = delivery.SafeText("the connection broke")
	errAnswerTooLong     = delivery.SafeText("the answer is too long")
	errRedirect          = delivery.SafeText("the provider points elsewhere, which is not followed")
)

// Client makes requests, each on a connection of its own. A zero field means its default.
type Client struct {
	// Timeout bounds one request; by default 20 s.
	Timeout time.Duration
	// Dial opens the socket; nil means a [net.Dialer].
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// RootCAs are the authorities that the server's certificate may come from; nil means the
	// system's.
	RootCAs *x509.CertPool
}

// sendTracker tells whether a byte of a request has left.
type sendTracker struct {
	open   func(ctx context.Context, network, address string) (net.Conn, error)
	mu     sync.Mutex // not held while writing
	begun  bool       // the connection is ready: what is written from now on is the request
	left   bool       // something of it was given to the socket: a write that fails may have left in part
	sealed bool
}

// trackedConn is a connection that tells what is written.
type trackedConn struct {
	net.Conn
	*sendTracker
}

func (d *sendTracker) dial(ctx context.Context, network, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, DialTimeout)
	defer cancel()
	conn, err := d.open(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return trackedConn{conn, d}, nil
}

// Write implements net.Conn.
func (s trackedConn) Write(b []byte) (int, error) {
	s.mu.Lock()
	sealed := s.sealed
	s.left = s.left || s.begun && !sealed
	s.mu.Unlock()
	if sealed {
		return 0, net.ErrClosed
	}
	return s.Conn.Write(b)
}

// onConnected is called when the connection is ready, TLS included.
func (d *sendTracker) onConnected(httptrace.GotConnInfo) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.begun = true
}

// stopAndReportSent closes the connection for writing and reports whether a byte of the request has
// left. The answer stays true, although net/http may still be writing a request that was given up.
func (d *sendTracker) stopAndReportSent() (left bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.sealed = true
	return d.left
}

// Do makes one request, which names the trace of ctx in the header traceparent, and returns any
// whole answer. The error says whether the provider may have the message.
func (c *Client) Do(ctx context.Context, r Request) (Response, *delivery.Error) {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(c.Timeout, defaultTimeout))
	defer cancel()
	gone := sendTracker{open: c.Dial}
	if gone.open == nil {
		gone.open = new(net.Dialer).DialContext
	}
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: gone.onConnected})
	req, err := http.NewRequestWithContext(traced, r.Method, r.URL, bytes.NewReader(r.Body))
	if err != nil {
		return Response{}, &delivery.Error{Class: delivery.Temporary, Stage: delivery.StageMessage, Err: ErrIncompleteMessage}
	}
	maps.Copy(req.Header, r.Header)
	propagation.TraceContext{}.Inject(ctx, propagation.HeaderCarrier(req.Header)) // without a trace, nothing
	client := &http.Client{
		Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, DialContext: gone.dial, TLSHandshakeTimeout: DialTimeout,
			TLSClientConfig:   &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: c.RootCAs},
			DisableKeepAlives: true, // see the package's comment
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	response, err := client.Do(req)
	if err != nil {
		return Response{}, transportError(ctx, gone.stopAndReportSent(), err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxResponseBytes+1))
	switch {
	case err != nil:
		return Response{}, transportError(ctx, true, err)
	case len(body) > maxResponseBytes:
		return Response{}, &delivery.Error{Class: delivery.Unknown, Stage: delivery.StageRequest,
			Status: response.StatusCode, Err: errAnswerTooLong}
	}
	return Response{response.StatusCode, response.Header, body, response.TLS}, nil
}

// transportError returns the error of a request without a whole answer: Unknown if a byte of the
// request has left, else Temporary.
func transportError(ctx context.Context, left bool, err error) *delivery.Error {
	e := &delivery.Error{Class: delivery.Temporary, Stage: delivery.StageDial, Err: errConnect}
	if left {
		e.Class, e.Stage, e.Err = delivery.Unknown, delivery.StageRequest, errConnectionBroke
	}
	var timeout net.Error
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		e.Err = context.Canceled
	case ctx.Err() != nil, errors.As(err, &timeout) && timeout.Timeout():
		e.Err = os.ErrDeadlineExceeded
	}
	return e
}
