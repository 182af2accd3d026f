package mailapi

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"sendcode/internal/deliver/delivery"
	"sendcode/internal/deliver/providerhttp"
)

// providerAPI is the part of a provider's API that differs from other providers.
type providerAPI interface {
	// buildRequest returns the request that hands over a mail.
	buildRequest(mail *delivery.RenderedMail) (providerhttp.Request, *delivery.Error)
	// readAnswer reads an answer. accepted: the answer has the provider's ID of the mail. A 2xx
	// without one is not accepted: a proxy on the way may have sent it. code and words are those of
	// a failure; empty if the answer has none.
	readAnswer(a providerhttp.Response) (accepted bool, code, words string)
	// codeMeanings returns the meanings of the provider's codes whose HTTP status does not say
	// them.
	codeMeanings() map[string]providerhttp.Meaning
	// probeRequest returns a harmless request, and good, which reports from the answer whether the
	// login works.
	probeRequest() (r providerhttp.Request, good func(status int, code string) bool)
}

// providersByScheme are the providers by the scheme of their URLs. Each checks a configuration, and
// fills in the parts that depend on the provider, such as the host.
var providersByScheme = map[string]func(c *Config) (providerAPI, error){
	"resend": openResend,
}

// Schemes returns the schemes of the providers' URLs, sorted.
func Schemes() []string { return slices.Sorted(maps.Keys(providersByScheme)) }

// IsProviderScheme reports whether a scheme is a provider's.
func IsProviderScheme(scheme string) bool { return providersByScheme[scheme] != nil }

// The meanings of a provider's code for a mail that was not accepted.
var (
	meansRejected = providerhttp.Meaning{Class: delivery.Rejected, About: delivery.AboutMessage}
	// our key, sender or request: another server may do better
	meansAccount = providerhttp.Meaning{Class: delivery.Temporary, About: delivery.AboutAccount}
	meansPace    = providerhttp.Meaning{Class: delivery.Temporary, About: delivery.AboutPace}
	meansUnknown = providerhttp.Meaning{Class: delivery.Unknown} // the mail may have been accepted
)

const (
	errClosed = delivery.SafeError("the sender is closed")
	errLogin  = delivery.SafeError("the key or the signature is refused")
)

// Client is one account with a provider. Safe for concurrent use.
type Client struct {
	delivery.LastCertificate
	config Config
	api    providerAPI
	http   providerhttp.Client
	slots  chan struct{}
	waits  atomic.Int64
	closed atomic.Bool
}

// New checks the configuration of a server, and dials nothing.
func New(c Config) (*Client, error) {
	a, err := c.openProvider()
	if err != nil {
		return nil, err
	}
	return &Client{
		config: c, api: a, http: providerhttp.Client{Dial: c.Dial, RootCAs: c.RootCAs},
		slots: make(chan struct{}, c.MaxConns),
	}, nil
}

// Address returns host:port.
func (c *Client) Address() string { return c.config.Address() }

// MaxConns returns how many requests there may be at once.
func (c *Client) MaxConns() int { return cap(c.slots) }

// ConnLimit returns MaxConns.
func (c *Client) ConnLimit() int { return cap(c.slots) }

// LoginProblem returns nil: a key is always there.
func (c *Client) LoginProblem() (since time.Time, why error) { return time.Time{}, nil }

// ConnCounts returns how many requests are under way, and how many mails waited for their turn
// since the start. Idle connections are not counted.
func (c *Client) ConnCounts() (inUse, idle int, waits int64) { return len(c.slots), 0, c.waits.Load() }

// Close makes later deliveries fail as Temporary. Deliveries under way continue.
func (c *Client) Close() { c.closed.Store(true) }

// Deliver waits at most patience for a free slot, and calls begin. If begin returns true, it offers
// the mail and returns the status of the answer that accepted it. tried is false if the mail was
// not offered: fail says that ctx ended or the server is closed; without fail, begin returned false
// or no slot became free.
func (c *Client) Deliver(ctx context.Context, patience time.Duration, begin func() bool,
	mail *delivery.RenderedMail,
) (reply string, tried bool, fail *delivery.Error) {
	ok, fail := c.acquire(ctx, patience)
	if !ok {
		return "", false, fail
	}
	defer func() { <-c.slots }()
	if !begin() {
		return "", false, nil
	}
	reply, fail = c.send(ctx, mail)
	return reply, true, fail
}

// acquire takes a slot within patience.
func (c *Client) acquire(ctx context.Context, patience time.Duration) (ok bool, fail *delivery.Error) {
	switch {
	case c.closed.Load():
		return false, &delivery.Error{Class: delivery.Temporary, Stage: delivery.StageDial, Err: errClosed}
	case ctx.Err() != nil: // select picks among ready cases at random
		return false, &delivery.Error{Class: delivery.Temporary, Stage: delivery.StageDial, Err: ctx.Err()}
	}
	select {
	case c.slots <- struct{}{}:
		return true, nil
	default:
	}
	if patience == 0 {
		return false, nil
	}
	c.waits.Add(1)
	over := time.NewTimer(patience)
	defer over.Stop()
	select {
	case c.slots <- struct{}{}:
		return true, nil
	case <-over.C:
		return false, nil
	case <-ctx.Done():
		return false, &delivery.Error{Class: delivery.Temporary, Stage: delivery.StageDial, Err: ctx.Err()}
	}
}

// repeatPauses are the waits before the repetitions of a request whose outcome is unknown.
var repeatPauses = []time.Duration{time.Second, 3 * time.Second}

// send makes the request of a mail. If its outcome is unknown, send repeats the request, which the
// provider knows.
func (c *Client) send(ctx context.Context, mail *delivery.RenderedMail) (reply string, fail *delivery.Error) {
	r, fail := c.api.buildRequest(mail)
	if fail != nil {
		return "", fail
	}
	reply, fail = c.requestOnce(ctx, r, mail.Private)
	if fail == nil || fail.Class != delivery.Unknown {
		return reply, fail
	}
	for _, pause := range repeatPauses {
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return "", fail
		}
		id, failed := c.requestOnce(ctx, r, mail.Private)
		if failed == nil || failed.Class == delivery.Rejected {
			return id, failed
		}
	}
	return "", fail
}

// requestOnce makes the request once, and returns the outcome of the mail by the answer.
func (c *Client) requestOnce(ctx context.Context, r providerhttp.Request, private delivery.PrivateData) (reply string,
	fail *delivery.Error,
) {
	a, fail := c.http.Do(ctx, r)
	if fail != nil {
		return "", fail
	}
	c.NoteCertificate(a.TLS, nil)
	accepted, code, words := c.api.readAnswer(a)
	if accepted && a.Status/100 == 2 {
		return delivery.FormatReplyCodes(a.Status, ""), nil
	}
	fail = providerhttp.ErrorByStatus(a, code)
	if m, known := c.api.codeMeanings()[code]; known {
		fail = m.ToError(a, code)
	}
	private.Login = []string{c.config.Username, c.config.Password}
	fail.Text = delivery.RedactReply(words, private)
	if fail.Class == delivery.Rejected && delivery.SaysNoMailbox(fail.Code, delivery.MeaningOf(words)) {
		fail.About = delivery.AboutMailbox
	}
	return "", fail
}

// sendIDOf returns the ID of the send, with which the Message-ID begins. The provider's events name
// the send by it.
func sendIDOf(mail *delivery.RenderedMail) string {
	id, _, _ := strings.Cut(mail.Message.MessageID, "@")
	id, _, _ = strings.Cut(id, ".")
	return id
}

// Examine makes a request that does no harm, logged in and encrypted as configured. It sends no
// mail. It returns how the connection was encrypted. The error is a [*delivery.Error], or describes
// the problem with the configuration.
func Examine(ctx context.Context, c Config) (delivery.Encryption, error) {
	s, err := New(c)
	if err != nil {
		return delivery.Encryption{}, err
	}
	r, good := s.api.probeRequest()
	a, fail := s.http.Do(ctx, r)
	if fail != nil {
		return delivery.Encryption{}, fail
	}
	if _, code, _ := s.api.readAnswer(a); !good(a.Status, code) {
		return delivery.Encryption{}, &delivery.Error{
			Class: delivery.Temporary, Stage: delivery.StageAuth, Status: a.Status, Code: providerhttp.SafeErrorCode(code),
			Err: errLogin,
		}
	}
	if a.TLS == nil {
		return delivery.Encryption{}, nil
	}
	return delivery.NewEncryption(a.TLS, true), nil
}
