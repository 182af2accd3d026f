package webhook

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/propagation"

	"sendcode/internal/base/panics"
	"sendcode/internal/deliver/providerhttp"
	"sendcode/internal/deliver/standardwebhooks"
	"sendcode/internal/store"
)

// These constants bound the headers and the body of an answer. The client reads the body, because
// only then can it use the connection again.
const (
	maxHeaderBytes = 16 << 10
	maxAnswerBytes = 64 << 10
)

const maxRetryAfter = time.Hour

// client posts events. It connects only to addresses that its guard allows, keeps a few
// connections, follows no redirect and keeps no cookie. It uses no proxy: a proxy resolves names
// itself, so the guard could not check the addresses.
type client struct {
	http.Client
	now     func() time.Time
	timeout time.Duration // of one attempt
}

// dialSettings has the root certificates and the resolver of a client. Tests set both. A nil value
// means the system's roots or resolver.
type dialSettings struct {
	roots    *x509.CertPool
	resolver *net.Resolver
}

func newClient(g Guard, now func() time.Time, w dialSettings) *client {
	return &client{now: now, timeout: attemptTimeout, Client: g.NewClient(w.roots, w.resolver)}
}

// NewClient returns an HTTP client that connects only to addresses that the guard allows. The
// client follows no redirect, keeps no cookie and uses no proxy. If roots or resolver is nil, the
// client uses that of the system. The caller must bound the duration of each request, and how many
// bytes of the answer it reads.
func (g Guard) NewClient(roots *x509.CertPool, resolver *net.Resolver) http.Client {
	dialer := func(plain bool) *net.Dialer {
		return &net.Dialer{Timeout: attemptTimeout, Resolver: resolver, ControlContext: g.checkDial(plain)}
	}
	encrypted := &tls.Dialer{
		NetDialer: dialer(false),
		Config:    &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots},
	}
	return http.Client{
		Transport: &http.Transport{
			Proxy: nil, DialContext: dialer(true).DialContext, DialTLSContext: encrypted.DialContext,
			DisableCompression: true,
			MaxConnsPerHost:    2 * maxAttemptsPerApp, MaxIdleConnsPerHost: maxAttemptsPerApp, MaxIdleConns: 256,
			IdleConnTimeout:        idleConnTimeout,
			MaxResponseHeaderBytes: maxHeaderBytes,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

type attemptResult struct {
	word       string        // the HTTP status or the kind of failure, for the administrator
	ok         bool          // 2xx: the event is delivered
	gone       bool          // status 410: the receiver will never accept the event
	retryAfter time.Duration // how long the receiver asks to wait; 0: not said
}

// postEvent makes one attempt to deliver an event. It blocks for at most c.timeout. A panic makes
// the attempt fail.
func (c *client) postEvent(ctx context.Context, to Endpoint, e store.AppEvent) (got attemptResult) {
	defer panics.Recover(panics.Other, func() { got.word = "internal" })
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	body, err := marshalEvent(e)
	if err != nil {
		return attemptResult{word: "unreadable"}
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, to.URL, bytes.NewReader(body))
	if err != nil {
		return attemptResult{word: "bad address"}
	}
	at, id := c.now(), e.ID.String()
	r.Header = http.Header{
		"Content-Type": {"application/json"}, "User-Agent": {"sendcode"},
		"Webhook-Id": {id}, "Webhook-Timestamp": {strconv.FormatInt(at.Unix(), 10)},
		"Webhook-Signature": {standardwebhooks.Sign(to.Secrets, id, at, body)},
	}
	propagation.TraceContext{}.Inject(ctx, propagation.HeaderCarrier(r.Header)) // adds nothing if ctx has no trace
	resp, err := c.Do(r)
	if err != nil {
		return attemptResult{word: failureWord(err)}
	}
	defer func() { _ = resp.Body.Close() }()
	_, _ = io.CopyN(io.Discard, resp.Body, maxAnswerBytes) // a body that was read frees the connection
	return attemptResult{
		word: strconv.Itoa(resp.StatusCode), ok: resp.StatusCode/100 == 2, gone: resp.StatusCode == http.StatusGone,
		retryAfter: providerhttp.RetryAfterIn(resp.Header, maxRetryAfter),
	}
}

// failureWord returns a word for the kind of failure. The text of the error itself must not be
// shown, because it contains addresses.
func failureWord(err error) string {
	var dns *net.DNSError
	var cert *tls.CertificateVerificationError
	var timeout net.Error
	switch {
	case errors.Is(err, errAddressForbidden):
		return "forbidden address"
	case errors.Is(err, context.Canceled):
		return "canceled"
	case errors.As(err, &timeout) && timeout.Timeout(), errors.Is(err, context.DeadlineExceeded):
		return "timeout"
	case errors.As(err, &dns):
		return "unknown host"
	case errors.As(err, &cert):
		return "bad certificate"
	case errors.Is(err, http.ErrSchemeMismatch):
		return "no TLS"
	}
	return "no answer"
}

// idleConnTimeout is less than the 5 s after which common receivers close an idle connection. An
// event that is sent on a connection which was just closed would have to be retried.
const idleConnTimeout = 2 * time.Second
