package smtp

import (
	"cmp"
	"context"
	"errors"
	"os"
	"time"

	"sendcode/internal/deliver/delivery"
)

// Client sends mails to one mail server over connections that it keeps. Safe for concurrent use.
type Client struct {
	delivery.LastCertificate
	config Config
	pool   *pool
}

// New checks the configuration of a server, and dials nothing.
func New(config Config) (*Client, error) {
	config, err := config.withDefaults()
	if err != nil {
		return nil, err
	}
	p := &pool{
		maxMails: config.MaxMails,
		limit:    newConnLimit(config.MinConns, config.beginConns, config.MaxConns),
		pace:     pace{perMinute: config.PerMinute},
	}
	return &Client{config: config, pool: p}, nil
}

// Address returns host:port.
func (c *Client) Address() string { return c.config.Address() }

// MaxConns returns the largest number of connections that may be open at once; see ConnLimit.
func (c *Client) MaxConns() int { return c.config.MaxConns }

// ConnLimit returns how many connections there may be soon. The outbox limits the number of its
// workers by ConnLimit. Normally ConnLimit is one more than the number of connections that may be
// open now. So in a backlog, one more mail is ready when the pool may open a further connection.
// For a while after the server refused a connection or a mail as one too many, ConnLimit is only
// the number of connections that have worked.
func (c *Client) ConnLimit() int {
	c.pool.mu.Lock()
	defer c.pool.mu.Unlock()
	return c.pool.limit.maxSoon(time.Now())
}

// LoginProblem returns the reason why the client has no OAuth token to log in with, and the time
// when this problem began. The error is nil if there is a token, and for a login with a password.
func (c *Client) LoginProblem() (since time.Time, why error) { return c.config.Tokens.Problem() }

// ConnCounts returns how many connections are in use, how many are idle, and how many mails have
// waited for a connection since the start.
func (c *Client) ConnCounts() (inUse, idle int, waits int64) {
	c.pool.mu.Lock()
	defer c.pool.mu.Unlock()
	return c.pool.conns.open - len(c.pool.idle), len(c.pool.idle), c.pool.waits
}

// Close says QUIT to idle connections, within about a second. Deliveries under way continue. A
// later delivery fails as Temporary.
func (c *Client) Close() { c.pool.close() }

// Deliver acquires a connection, or the right to open one, and waits for it for at most patience.
// Then it calls begin. If begin returns true, Deliver offers the mail once and returns the reply
// that accepted the mail.
//
// The result tried says whether the mail was offered. If it was not, fail has the reason: ctx
// ended, the client is closed, or the pace allows no mail now (ErrPace). In two other cases, the
// mail was not offered and fail is nil: begin returned false, or all connections stayed in use. If
// the server refuses a further connection, the mail waits for another connection, again at most for
// patience.
func (c *Client) Deliver(ctx context.Context, patience time.Duration, begin func() bool,
	mail *delivery.RenderedMail,
) (reply string, tried bool, fail *delivery.Error) {
	pooled, ok, fail := c.pool.acquire(ctx, patience)
	if !ok {
		return "", false, fail
	}
	if !c.mayBegin(pooled, begin) {
		return "", false, nil
	}
	reply, fail, refused := c.deliver(ctx, pooled, mail)
	for refused {
		other, ok, failed := c.pool.acquire(ctx, patience)
		if !ok {
			fail.Err, fail.About = delivery.ErrConnLimit, delivery.AboutPace
			return "", true, cmp.Or(failed, fail)
		}
		reply, fail, refused = c.deliver(ctx, other, mail)
	}
	return reply, true, fail
}

// mayBegin returns the result of begin. If begin returns false or panics, mayBegin gives back the
// session that acquire returned, and the mail does not count for the pace.
func (c *Client) mayBegin(pooled *session, begin func() bool) (ok bool) {
	defer func() {
		if !ok {
			c.pool.forgetLast()
			c.pool.release(pooled, true)
		}
	}()
	return begin()
}

// deliver offers the mail over current, the session that acquire returned. If current is nil,
// deliver opens a session. Afterwards it gives the session back to the pool. The result refused is
// true if the server has accepted other connections but refuses this new connection or its first
// mail; see refusesConnection.
//
// If the session that acquire returned fails before the server asked for the content, deliver tries
// once more on a new connection; see worthFreshConnection. No other failure is retried. If ctx ends
// before the final dot, the message was not sent, and the error is Temporary. If ctx ends after the
// final dot, the outcome is Unknown, because a slow server may answer up to ten minutes after the
// dot.
func (c *Client) deliver(ctx context.Context, current *session, mail *delivery.RenderedMail) (reply string,
	fail *delivery.Error, refused bool,
) {
	var first *delivery.Error // over a kept connection
	usable := false           // so that a panic closes the session without QUIT
	defer func() { c.pool.release(current, usable) }()
	if current != nil {
		reply, usable, fail = current.deliver(ctx, mail, nil)
		if fail == nil || ctx.Err() != nil || !worthFreshConnection(fail) {
			usable = !(fail != nil && fail.Crowded && c.pool.mailRefused()) && usable
			return reply, fail, false
		}
		first, usable = fail, false
		current.closeSocket()
		current = nil // the new session replaces the current one in the pool
		c.pool.replace()
	}
	// otherIsFree is a copy: mail.OtherIsFree changes when the mail goes to the next server.
	config, began, otherIsFree := c.config, time.Now(), mail.OtherIsFree
	config.shouldGiveUp = func(waited time.Duration) bool {
		return c.pool.isSilent(waited) || otherIsFree != nil && otherIsFree()
	}
	current, fail = openSession(ctx, config)
	if fail == nil {
		c.pool.noteOpened(time.Since(began))
		c.NoteCertificate(current.state, current.unverified)
		current.onServed = func() { c.pool.noteServed(current) }
		reply, usable, fail = current.deliver(ctx, mail, first)
	}
	switch {
	case refusesConnection(fail), refusesSilently(fail):
		usable, refused = false, c.pool.connRefused(fail.Status == 0)
	case fail != nil && fail.Crowded && c.pool.mailRefused():
		usable = false
	case usable:
		c.pool.noteServed(current)
	}
	return reply, fail, refused
}

// worthFreshConnection reports whether a new connection may help after a failure on a kept
// connection. It returns true if the connection ended before the server asked for the content, or
// if the server refused a command because of the connection. In both cases the server has accepted
// nothing. It returns false if the server was silent after its answer to MAIL, or if the recipient
// caused the failure. Then a new connection would fail in the same way.
func worthFreshConnection(fail *delivery.Error) bool {
	early := fail.Stage == delivery.StageMail ||
		(fail.Stage == delivery.StageRcpt || fail.Stage == delivery.StageData) && !errors.Is(fail.Err, os.ErrDeadlineExceeded)
	return early && fail.About != delivery.AboutRecipient && (fail.ConnectionEnds || fail.About == delivery.AboutConnection)
}
