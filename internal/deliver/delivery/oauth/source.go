// Package oauth gets access tokens for mail servers from a token server or a command. A [Source]
// keeps one token for all connections, and renews the token in the background, independently of
// sends.
//
// Errors never quote a token server's text, because the text may repeat the secret. Of an answer
// they contain only the HTTP status, error codes that the package knows, and the numbers of
// Microsoft's errors.
package oauth

import (
	"context"
	"errors"
	"sync"
	"time"

	"sendcode/internal/base/panics"
	"sendcode/internal/deliver/delivery"
	"sendcode/internal/deliver/providerhttp"
)

const (
	// fetchTimeout bounds one request to the token server.
	fetchTimeout = 10 * time.Second
	// retryAfter is the wait after a failed request, before the next request.
	retryAfter = 10 * time.Second
	// minRenewal is the least time between getting a token and renewing it.
	minRenewal = 5 * time.Second
)

const (
	errNoClient = delivery.SafeError("oauth names no client")
	errRefused  = delivery.SafeError("there is no other token")
)

// Sources are the sources of tokens, by the name of their client.
type Sources map[string]*Source

// Start begins the request for each source's first token. From then on, each source calls the
// function changed with the name of its client. It does so when its requests begin to fail, when a
// failure of another kind follows, and, with a nil failure, when there is a token again. The calls
// for one source do not overlap. The function must not call the source.
func (sources Sources) Start(changed func(client string, failure error)) {
	for name, s := range sources {
		s.mu.Lock()
		s.changed = func(failure error) { changed(name, failure) }
		s.startLocked()
		s.mu.Unlock()
	}
}

// Close ends the requests under way, and all renewals. The error is always nil.
func (sources Sources) Close() error {
	for _, s := range sources {
		s.close()
	}
	return nil
}

// Source has the token of one client. Safe for concurrent use.
type Source struct {
	client Client
	http   providerhttp.Client
	ctx    context.Context // ends with the source
	end    context.CancelFunc

	mu               sync.Mutex
	token            string
	until            time.Time     // when the token ends, by the monotonic clock
	renewal          chan struct{} // closed when the request under way ends; nil if no request is under way
	timer            *time.Timer   // starts the next renewal
	renewedByRefusal bool          // a mail server's refusal has renewed the token
	failure          error         // failure of the last request; nil if that gave a token
	failedAt         time.Time     // when requests began to fail
	changed          func(failure error)
}

// New makes the source of a client's tokens. It makes no request before Start or Token.
func New(client Client) *Source {
	s := &Source{client: client, http: providerhttp.Client{Timeout: fetchTimeout, Dial: client.Dial}, changed: func(error) {}}
	s.ctx, s.end = context.WithCancel(context.Background())
	return s
}

// Token returns the token. The parameter refused is the token that the mail server refused; ""
// means none. Token never returns the refused token. It waits for the first request for a token,
// and for the new request that a refusal causes. Between two planned renewals, refusals cause only
// one request, so that a wrong setting does not burden the token server. If there is no valid token
// and the last request failed, Token returns the error without a wait. The error is that of ctx, or
// says why there is no token. It contains no secret.
func (s *Source) Token(ctx context.Context, refused string) (string, error) {
	for s != nil {
		token, renewal, failure := s.state(refused)
		if renewal == nil {
			return token, failure
		}
		select {
		case <-renewal:
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
	return "", errNoClient
}

// state returns the token if it is valid and differs from the refused token. Otherwise state
// returns one of the two other results: either renewal, a channel that is closed when the request
// under way ends, or failure, which says why there is no token.
func (s *Source) state(refused string) (token string, renewal chan struct{}, failure error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch live := time.Now().Before(s.until); {
	case live && s.token != refused:
		return s.token, nil, nil
	case live && s.renewedByRefusal && s.renewal == nil:
		return "", nil, errRefused
	case live:
		s.renewedByRefusal = true
	case s.failure != nil:
		return "", nil, s.failure
	}
	return "", s.startLocked(), nil
}

// Problem returns the reason why there is no token, and the time when the problem began. The error
// is nil if there is a token, or if no request has failed yet.
func (s *Source) Problem() (since time.Time, why error) {
	if s == nil {
		return time.Time{}, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case time.Now().Before(s.until):
		return time.Time{}, nil
	case s.failedAt.Before(s.until):
		return s.until, s.failure
	}
	return s.failedAt, s.failure
}

// startLocked starts a request, unless one is under way. It returns a channel that is closed when
// the request ends. The caller must hold the lock.
func (s *Source) startLocked() chan struct{} {
	if s.renewal == nil {
		if s.timer != nil {
			s.timer.Stop()
		}
		s.renewal = make(chan struct{})
		go s.renew()
	}
	return s.renewal
}

// renewInTime is called by the timer. The timer fires when most of the token's life is over or,
// after a failure, when it is time to try again.
func (s *Source) renewInTime() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.renewedByRefusal = false
	s.startLocked()
}

// renew makes one request, and schedules the next request for when 80 % of the token's life have
// passed. After a failure the old token stays in use until it expires.
func (s *Source) renew() {
	token, until, err := "", time.Time{}, panics.Err
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		next := retryAfter
		if token != "" {
			s.token, s.until = token, until
		}
		if err == nil {
			next = max(time.Until(until)*8/10, minRenewal)
		}
		if s.failure == nil {
			s.failedAt = time.Now()
		}
		if !errors.Is(err, s.failure) && s.ctx.Err() == nil {
			s.changed(err)
		}
		s.failure = err
		if s.ctx.Err() == nil {
			s.timer = time.AfterFunc(next, s.renewInTime)
		}
		close(s.renewal)
		s.renewal = nil
	}()
	defer panics.Recover(panics.Other)
	token, until, err = s.fetch(s.ctx)
}

func (s *Source) close() {
	s.end()
	s.mu.Lock()
	if s.timer != nil {
		s.timer.Stop()
	}
	renewal := s.renewal
	s.mu.Unlock()
	if renewal != nil {
		<-renewal
	}
}
