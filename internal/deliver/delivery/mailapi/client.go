package mailapi

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"sendcode/internal/deliver/delivery"
	"sendcode/internal/deliver/providerhttp"
)

const (
	errClosed = delivery.SafeError("the sender is closed")
	errLogin  = delivery.SafeError("the key or the signature is refused")
)

// Client is one account with Resend. Safe for concurrent use.
type Client struct {
	delivery.LastCertificate
	config Config
	http   providerhttp.Client
	slots  chan struct{}
	waits  atomic.Int64
	closed atomic.Bool
}

// New checks the configuration of a server, and dials nothing.
func New(c Config) (*Client, error) {
	if err := c.complete(); err != nil {
		return nil, err
	}
	return &Client{
		config: c, http: providerhttp.Client{Dial: c.Dial, RootCAs: c.RootCAs},
		slots: make(chan struct{}, c.MaxConns),
	}, nil
}

// Address returns host:port.
func (c *Client) Address() string { return c.config.Address() }

// MaxConns returns how many requests there may be at once.
func (c *Client) MaxConns() int { return cap(c.slots) }

// ConnLimit returns MaxConns, because the limit of an HTTP API never changes.
func (c *Client) ConnLimit() int { return cap(c.slots) }

// LoginProblem returns nil, because the client always has its key.
func (c *Client) LoginProblem() (since time.Time, why error) { return time.Time{}, nil }

// ConnCounts returns how many requests are in progress, and how many mails have had to wait for a
// slot since the start. The result idle is always 0, because the client does not count idle
// connections.
func (c *Client) ConnCounts() (inUse, idle int, waits int64) { return len(c.slots), 0, c.waits.Load() }

// Close makes later deliveries fail as Temporary. Deliveries under way continue.
func (c *Client) Close() { c.closed.Store(true) }

// Deliver waits for a free slot for at most patience, and then calls begin. If begin returns
// true, Deliver sends the mail, and the result tried is true. If the provider accepts the mail,
// reply is the status of the answer.
//
// If tried is false, the mail was not sent. In this case fail is nil if begin returned false or if
// no slot became free. Any other fail says that ctx ended or that the client is closed.
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
	case ctx.Err() != nil: // the select below picks among ready cases at random
		return false, gaveUp(ctx)
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
		return false, gaveUp(ctx)
	}
}

// gaveUp returns the error of a mail whose ctx ended before its request.
func gaveUp(ctx context.Context) *delivery.Error {
	return &delivery.Error{
		Class: delivery.Temporary, Stage: delivery.StageDial, About: delivery.AboutUs, Err: delivery.CauseOf(ctx),
	}
}

// repeatPauses are the waits before each repetition of a request whose outcome is unknown.
var repeatPauses = []time.Duration{time.Second, 3 * time.Second}

// send makes the request for a mail. If the outcome of the request is unknown, send repeats it. The
// provider recognizes a repeated request, so the mail is not sent twice.
func (c *Client) send(ctx context.Context, mail *delivery.RenderedMail) (reply string, fail *delivery.Error) {
	r, fail := c.config.mailRequest(mail)
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
		if failed == nil || failed.Class == delivery.Rejected && failed.Code != "" { // an answer without a code may be a proxy's
			return id, failed
		}
	}
	return "", fail
}

// requestOnce sends the request without a repetition, and derives the mail's outcome from the
// answer.
func (c *Client) requestOnce(ctx context.Context, r providerhttp.Request, private delivery.PrivateData) (reply string,
	fail *delivery.Error,
) {
	a, fail := c.http.Do(ctx, r)
	if fail != nil {
		return "", fail
	}
	c.NoteCertificate(a.TLS, nil)
	accepted, code, words := readAnswer(a)
	if accepted && a.Status/100 == 2 {
		return delivery.FormatReplyCodes(a.Status, ""), nil
	}
	fail = providerhttp.ErrorByStatus(a, code)
	if m, known := codeMeanings[code]; known {
		fail = m.ToError(a, code)
	}
	private.Login = []string{c.config.Username, c.config.Password}
	fail.Text = delivery.RedactReply(words, private)
	if fail.Class == delivery.Rejected && delivery.SaysNoMailbox(fail.Code, delivery.MeaningOf(words)) {
		fail.About = delivery.AboutMailbox
	}
	return "", fail
}

// sendIDOf returns the ID of the mail's send. The Message-ID of the mail begins with this ID. The
// provider's events also contain this ID.
func sendIDOf(mail *delivery.RenderedMail) string {
	id, _, _ := strings.Cut(mail.Message.MessageID, "@")
	id, _, _ = strings.Cut(id, ".")
	return id
}

// Examine tests the login and the encryption of the configuration by listing the domains of the
// account. It sends no mail. Examine returns how the connection was encrypted. The error is a
// [*delivery.Error] or describes the problem with the configuration.
func Examine(ctx context.Context, c Config) (delivery.Encryption, error) {
	s, err := New(c)
	if err != nil {
		return delivery.Encryption{}, err
	}
	a, fail := s.http.Do(ctx, s.config.request(http.MethodGet, "/domains"))
	if fail != nil {
		return delivery.Encryption{}, fail
	}
	// For an API key that may only send, the provider Resend answers restricted_api_key. Such a key
	// is good enough.
	if _, code, _ := readAnswer(a); a.Status != http.StatusOK && code != "restricted_api_key" {
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
