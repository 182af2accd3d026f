// Package mailserver offers mails to mail servers in order of preference. Each server has a circuit
// breaker, so that a dead or slow server delays only a few mails. Packages
// [sendcode/internal/deliver/delivery/smtp] and [sendcode/internal/deliver/delivery/mailapi]
// implement the two kinds of servers. [ParseURLs] chooses the kind by the URL.
package mailserver

import (
	"cmp"
	"context"
	"math"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"

	"sendcode/internal/deliver/delivery"
)

// Server is one mail server. Implementations: smtp.Client, mailapi.Client.
type Server interface {
	// Address returns host:port, the name of the server in health, logs and metrics.
	Address() string
	// Deliver waits for a free connection for at most patience, and then calls begin. If begin
	// returns true, Deliver offers the mail once, and the result tried is true. If the server then
	// accepts the mail, reply is the server's reply, in the form that is stored with the send. If
	// the server does not accept the mail, fail has the reason.
	//
	// If tried is false, the mail was not offered. In this case fail is nil if begin returned false
	// or if no connection became free in time. It is ErrPace if the limit on how fast mails go to
	// this server allows no mail yet. After nil or ErrPace, the caller should offer the mail to
	// another server. Any other fail says that ctx ended or that the server is closed.
	Deliver(ctx context.Context, patience time.Duration, begin func() bool, mail *delivery.RenderedMail) (reply string,
		tried bool, fail *delivery.Error)
	// MaxConns returns the greatest number of connections that may be in use at the same time. Each
	// connection carries one mail at a time. ConnLimit returns how many connections the server will
	// probably accept at the same time. ConnLimit may be lower than MaxConns until the server has
	// shown that it accepts more.
	MaxConns() int
	ConnLimit() int
	// ConnCounts returns how many connections are in use, how many are idle, and how many mails
	// have waited for a connection since the start.
	ConnCounts() (inUse, idle int, waits int64)
	// CertificateEnd returns when the server's certificate expires. The certificate is the verified
	// one of the last connection with TLS. The result is zero if no connection of the last week had
	// such a certificate.
	CertificateEnd() time.Time
	// LoginProblem returns the reason why no login at the server can succeed now, and the time when
	// this problem began. The result why is nil if no such reason is known.
	LoginProblem() (since time.Time, why error)
	// OnUnverified registers f, which is called if the server's certificate is not verified; see
	// delivery.LastCertificate.
	OnUnverified(f func(why error))
	// Close ends idle connections. Deliveries under way continue; later ones fail as Temporary.
	Close()
}

// Servers are mail servers in order of preference. A server is set aside after three failures in a
// row. A server that is set aside gets one mail every five seconds, until one of these mails does
// not fail. An attempt that takes longer than slowAfter is also a failure, if another server is up
// and no stranger requested the mail. The refusal of a recipient or a message is not a failure.
type Servers []*serverWithBreaker

type serverWithBreaker struct {
	Server
	address string // the server's address, stored because each call of Server.Address builds a new string
	name    string // of the server in the database: its host, or its address if another server has the same host
	health  *delivery.Breaker
	// strangers is how many mails of strangers (delivery.Mail.Stranger) are under way at the
	// server, or wait for a connection to it.
	strangers atomic.Int64
	encoder   *delivery.MailEncoder
	onAttempt func(ctx context.Context, server string, fail *delivery.Error, took time.Duration) // see OnAttempt; may be nil
	examine   func(ctx context.Context, senders []string) error                                  // Config.Examine; set only by Open
}

// New returns Servers that prefer the servers in the order of the parameter all. At least one
// server is required.
func New(all ...Server) Servers {
	servers := make(Servers, len(all))
	hosts := map[string]int{}
	for _, server := range all {
		hosts[hostOf(server.Address())]++
	}
	for n, server := range all {
		address := server.Address()
		name := hostOf(address)
		if hosts[name] > 1 {
			name = address
		}
		servers[n] = &serverWithBreaker{
			Server: server, address: address, name: name, health: delivery.NewBreaker(address, false),
			encoder: &delivery.MailEncoder{},
		}
	}
	return servers
}

const (
	errAllSetAside = delivery.SafeError("every server is set aside after failures")
	errSlow        = delivery.SafeError("slow: no outcome after 5s")
)

const (
	// slowAfter has two uses. If another server is up and no stranger requested the mail, an
	// attempt that takes longer counts as a fault of its server. If all servers are set aside, Send
	// waits at most this long for the outcome of another mail's attempt.
	slowAfter = 5 * time.Second
	// maxConnWait is how long a mail waits for a connection to a server if another server is up.
	maxConnWait = time.Second
	// crowdedConnWait replaces maxConnWait for a mail that is not a stranger's, while strangers'
	// mails have connections or wait for one. Their recipients' servers may answer slowly. And
	// before the server first refuses a connection, ConnLimit counts connections that can't be
	// opened yet, so strangers' mails may have all that are open.
	crowdedConnWait = 20 * time.Millisecond
	// unlimitedWait is how long a mail waits for a connection if no other server is up.
	unlimitedWait time.Duration = math.MaxInt64
)

// Send tries one server after the other, except servers that are set aside. It goes on to the next
// server only if the message was certainly not accepted and another server may accept it; see
// delivery.Attempts.
//
// If all servers are set aside, but another mail is just being tried at one of them, Send waits up
// to slowAfter for the outcome of that mail. If no mail is being tried, Send fails immediately with
// a Temporary error. The result and the error are those of delivery.Attempts.Outcome. The field
// Took of the result is the duration of the whole call.
func (s Servers) Send(ctx context.Context, message delivery.Mail) (delivery.Result, error) {
	began := time.Now()
	result := delivery.Result{}
	mail, fail := s[0].encoder.Encode(message)
	defer s[0].encoder.Release(mail)
	if fail == nil {
		result, fail = s.send(ctx, mail)
	}
	result.Took = time.Since(began)
	if fail != nil {
		return result, fail
	}
	return result, nil
}

func (s Servers) send(ctx context.Context, mail *delivery.RenderedMail) (result delivery.Result, fail *delivery.Error) {
	if result, fail = s.tryEach(ctx, mail); !allSetAside(fail) {
		return result, fail
	}
	patience := time.NewTimer(slowAfter)
	defer patience.Stop()
	for allSetAside(fail) && s.awaitTrial(ctx, patience.C) {
		result, fail = s.tryEach(ctx, mail)
	}
	return result, fail
}

// allSetAside reports whether no server was tried, because each one was set aside or had no free
// connection.
func allSetAside(fail *delivery.Error) bool { return fail != nil && fail.Err == errAllSetAside }

// tryEach offers the mail to one server after the other, and leaves out servers that are set aside.
// Healthy servers that no earlier mail with the same code used come first (delivery.UnusedFirst).
// delivery.Attempts says when it goes on to the next server, and what it returns.
func (s Servers) tryEach(ctx context.Context, mail *delivery.RenderedMail) (result delivery.Result, fail *delivery.Error) {
	m := &mail.Message
	attempts := delivery.NewAttempts(m.Used, m.AcceptedBy, errAllSetAside)
	order := delivery.UnusedFirst(s, m.Used, (*serverWithBreaker).host, func(x *serverWithBreaker) bool { return x.health.IsWell() })
	for n, server := range order {
		mail.OtherIsFree = func() bool { return Servers(order[n+1:]).anotherIsUp(server) }
		reply, tried, failed := server.try(ctx, s, mail)
		switch {
		case !tried && failed == nil:
			attempts.Skip(server.health.Health().Up)
			continue
		case failed != nil && failed.Err == delivery.ErrPace:
			attempts.Postpone(failed)
			continue
		}
		goesOn := attempts.Note(delivery.Result{Provider: server.host(), ReplyCodes: reply}, failed)
		if !tried || !goesOn || ctx.Err() != nil {
			break
		}
	}
	return attempts.Outcome()
}

// host returns the server's name in delivery.Result.Provider and in the database.
func (s *serverWithBreaker) host() string { return s.name }

func hostOf(address string) string {
	host, _, _ := net.SplitHostPort(address)
	return host
}

// try offers the mail to the server if the server's breaker admits an attempt; see Server.Deliver.
// The parameter all has every server of the Servers, including this one.
func (s *serverWithBreaker) try(ctx context.Context, all Servers, mail *delivery.RenderedMail) (reply string, tried bool,
	fail *delivery.Error,
) {
	if mail.Message.Stranger {
		defer s.strangers.Add(-1)
		share := delivery.ShareOfStrangers(s.ConnLimit(), delivery.ReservedConns)
		if s.strangers.Add(1) > int64(share) && mail.OtherIsFree() {
			return "", false, nil // so that known people's mails don't wait here
		}
	}
	patience := unlimitedWait
	switch state, _ := s.health.State(); {
	case state == gobreaker.StateOpen:
		return "", false, nil
	case state == gobreaker.StateHalfOpen:
		patience = 0
	case all.anotherIsUp(s) && !mail.Message.Stranger && s.strangers.Load() > 0:
		patience = crowdedConnWait
	case all.anotherIsUp(s):
		patience = maxConnWait
	}
	end, result := func(error) {}, delivery.ErrHealthUnknown // the result after a panic
	defer func() { end(result) }()
	var began time.Time
	delivery.AwaitTurn(ctx)
	reply, tried, fail = s.Deliver(ctx, patience, func() (ok bool) {
		began = time.Now()
		delivery.BeginTurn(ctx)
		end, ok = s.startAttempt(all, mail.Message.Stranger)
		return ok
	}, mail)
	if !tried {
		return "", false, fail
	}
	delivery.SetHandover(ctx, fail.MayBeAccepted())
	if mail.Message.Stranger {
		fail.NoteStranger()
	}
	if s.onAttempt != nil {
		s.onAttempt(ctx, s.address, fail, time.Since(began))
	}
	result = fail.BreakerResult()
	return reply, true, fail
}

// startAttempt starts an attempt, unless the breaker admits none. The caller calls end once with
// the result of the attempt. An attempt that takes longer than slowAfter counts as a fault if
// another server is up by then. It does not count as a fault if the parameter stranger is true. In
// that case anyone may have chosen the recipient, even one whose mail server is slow on purpose.
func (s *serverWithBreaker) startAttempt(all Servers, stranger bool) (end func(result error), ok bool) {
	report, ok := s.health.Allow()
	switch {
	case !ok:
		return func(error) {}, false
	case len(all) == 1 || stranger:
		return report, true
	}
	var once sync.Once
	slow := time.AfterFunc(slowAfter, func() {
		if all.anotherIsUp(s) {
			once.Do(func() { report(errSlow) })
		}
	})
	return func(result error) {
		slow.Stop()
		once.Do(func() { report(result) })
	}, true
}

// anotherIsUp reports whether the circuit breaker of any server other except `except` is closed.
func (s Servers) anotherIsUp(except *serverWithBreaker) bool {
	return slices.ContainsFunc(s, func(x *serverWithBreaker) bool { return x != except && x.health.Health().Up })
}

// awaitTrial reports whether the caller should try the servers again. If a mail is trying a server
// that was set aside, awaitTrial waits for that mail's outcome. It returns false if there is no
// such mail, or if patience or ctx ends first.
func (s Servers) awaitTrial(ctx context.Context, patience <-chan time.Time) bool {
	for _, server := range s {
		state, changed := server.health.State()
		if state == gobreaker.StateOpen {
			continue
		}
		if state == gobreaker.StateClosed {
			return true
		}
		select {
		case <-changed:
			return true
		case <-patience:
		case <-ctx.Done():
		}
		return false
	}
	return false
}

// AttemptsAllowed returns how many mails Send could offer to the servers now. If a server is up,
// the result is delivery.UnlimitedAttempts. If all servers are set aside, the result is the number
// of servers that may try a mail.
func (s Servers) AttemptsAllowed() (n int) {
	for _, server := range s {
		n += min(server.health.AttemptsAllowed(), delivery.UnlimitedAttempts-n)
		if n == delivery.UnlimitedAttempts {
			break
		}
	}
	return n
}

// Health returns the health of each server, in order of preference. A server that has no token for
// its login is not up, even before a mail has failed for that reason.
func (s Servers) Health() []delivery.Health {
	all := make([]delivery.Health, len(s))
	for n, server := range s {
		all[n] = server.health.Health()
		all[n].CertificateEnd = server.CertificateEnd()
		if since, why := server.LoginProblem(); why != nil && all[n].Up {
			all[n].Up, all[n].Since, all[n].Why = false, since, why.Error()
		}
	}
	return all
}

// RecheckSuspended examines each server that is set aside, may try a mail now and has none under
// way; see Config.Examine. If the examination succeeds, the server is up again.
func (s Servers) RecheckSuspended(ctx context.Context, senders []string) {
	for _, server := range s {
		if server.examine != nil {
			server.health.Recheck(ctx, func(ctx context.Context) error { return server.examine(ctx, senders) })
		}
	}
}

// OnHealthChange registers f, which is called whenever a server is set aside or is up again. f must
// return soon, and must not call a method of Servers.
func (s Servers) OnHealthChange(f func(delivery.Health)) {
	for _, server := range s {
		server.health.OnHealthChange(f)
	}
}

// OnAttempt sets the function that is called after each attempt at a server. The parameter server
// is host:port, and ctx is the context of the Send. fail is nil if the server accepted the mail.
// Call OnAttempt before the first Send. f must not block.
func (s Servers) OnAttempt(f func(ctx context.Context, server string, fail *delivery.Error, took time.Duration)) {
	for _, server := range s {
		server.onAttempt = f
	}
}

// OnUnverified sets the function that is called with the reason why a server's certificate is not
// verified. It is called once for each such server, at the first connection with such a
// certificate. Call OnUnverified before the first Send.
func (s Servers) OnUnverified(f func(server string, why error)) {
	for _, server := range s {
		server.OnUnverified(func(why error) { f(server.address, why) })
	}
}

// MaxConns returns how many connections all servers may have together. It bounds the number of
// mails under way.
func (s Servers) MaxConns() (n int) {
	for _, server := range s {
		n += server.MaxConns()
	}
	return n
}

// ConnLimit returns how many mails can probably be under way at once. The result is the largest
// ConnLimit of the servers that are up. If all servers are set aside, it is the largest ConnLimit
// of all servers. The numbers are not added up, because all mails may go to one server.
func (s Servers) ConnLimit() (n int) {
	aside := 0
	for _, server := range s {
		if server.health.Health().Up {
			n = max(n, server.ConnLimit())
		} else {
			aside = max(aside, server.ConnLimit())
		}
	}
	return cmp.Or(n, aside)
}

// Close closes each server. The error is always nil.
func (s Servers) Close() error {
	for _, server := range s {
		server.Close()
	}
	return nil
}
