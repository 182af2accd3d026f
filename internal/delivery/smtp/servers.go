package smtp

import (
	"context"
	"time"

	"github.com/sony/gobreaker/v2"

	"sendcode/internal/delivery"
)

// Servers are mail servers in order of preference. A server that failed three times in a row, or made mails wait while
// another was up, is set aside: it gets one mail every five seconds, and is preferred again once such a mail got
// through. Refusing a recipient or a message is no failure.
type Servers []*client

// NewServers checks the configurations of the servers, and dials nothing.
func NewServers(configs ...Config) (Servers, error) {
	if len(configs) == 0 {
		return nil, delivery.Problem("smtp: no server is configured")
	}
	servers := make(Servers, len(configs))
	for n, config := range configs {
		config, err := config.withDefaults()
		if err != nil {
			return nil, err
		}
		servers[n] = &client{
			config: config, pool: &pool{least: config.MinConns, most: config.MaxConns, maxMails: config.MaxMails},
			health: delivery.NewBreaker(config.address(), false), encoder: &delivery.Encoder{},
		}
	}
	return servers, nil
}

// Send tries one server after the other, but not those that are set aside. It goes on only after a Temporary failure, after which the
// message was certainly not accepted. A message that was rejected or may have been accepted is never offered to another server. If all
// servers are set aside, and a mail tries one of them, Send waits up to slowAfter for the outcome of that mail; else it fails at once,
// Temporary. The receipt and the error are those of the last server that was tried; Took is the whole time.
func (s Servers) Send(ctx context.Context, message delivery.Message) (delivery.Receipt, error) {
	began := time.Now()
	receipt := delivery.Receipt{}
	mail, fail := s[0].encoder.Encode(message)
	defer s[0].encoder.Release(mail)
	if fail == nil {
		receipt, fail = s.send(ctx, mail)
	}
	receipt.Took = time.Since(began)
	if fail != nil {
		return receipt, fail
	}
	return receipt, nil
}

func (s Servers) send(ctx context.Context, mail *delivery.Rendered) (receipt delivery.Receipt, fail *delivery.Error) {
	if receipt, fail = s.tryEach(ctx, mail); !allSetAside(fail) {
		return receipt, fail
	}
	patience := time.NewTimer(slowAfter)
	defer patience.Stop()
	for allSetAside(fail) && s.awaitTrial(ctx, patience.C) {
		receipt, fail = s.tryEach(ctx, mail)
	}
	return receipt, fail
}

// allSetAside reports whether all servers were set aside, so that none was tried.
func allSetAside(fail *delivery.Error) bool { return fail != nil && fail.Err == errAside }

// tryEach offers the mail to one server after the other, but for those set aside, until one accepts it or the failure is not Temporary.
func (s Servers) tryEach(ctx context.Context, mail *delivery.Rendered) (receipt delivery.Receipt, fail *delivery.Error) {
	fail = &delivery.Error{Class: delivery.Temporary, Stage: delivery.StageAside, Err: errAside}
	for _, server := range s {
		otherUp := func() bool { return s.anotherIsUp(server) }
		kept, end, shut := server.admit(ctx, otherUp)
		if end == nil && shut == nil {
			continue
		}
		receipt.Provider = server.config.Host
		if shut != nil {
			return receipt, shut
		}
		began := time.Now()
		receipt.Code, fail = server.deliver(ctx, kept, mail)
		if server.tried != nil {
			server.tried(server.config.address(), fail, time.Since(began))
		}
		end(breakerVerdict(ctx, fail))
		if fail == nil || fail.Class != delivery.Temporary || ctx.Err() != nil {
			break
		}
	}
	return receipt, fail
}

// anotherIsUp reports whether a server other than this one is up.
func (s Servers) anotherIsUp(than *client) bool {
	for _, server := range s {
		if server != than && server.health.Health().Up {
			return true
		}
	}
	return false
}

// awaitTrial reports whether the caller should try the servers again. If a mail is trying a server that was set aside, it waits for that
// mail's outcome. It returns false if there is no such mail, or if patience or ctx ends first.
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

// Admits returns how many mails would be tried now: delivery.AnyNumber while a server is up, else one for each server that a mail may try.
func (s Servers) Admits() (n int) {
	for _, server := range s {
		if n += min(server.health.Admits(), delivery.AnyNumber-n); n == delivery.AnyNumber {
			break
		}
	}
	return n
}

// Health returns the health of each server, in order of preference.
func (s Servers) Health() []delivery.Health {
	all := make([]delivery.Health, len(s))
	for n, server := range s {
		all[n] = server.health.Health()
	}
	return all
}

// Watch has f called whenever a server is set aside or is up again. f must return soon, and not call Servers.
func (s Servers) Watch(f func(delivery.Health)) {
	for _, server := range s {
		server.health.Watch(f)
	}
}

// Observe has f called after each attempt at a server, host:port; fail is nil if it accepted the mail. Call it before the first Send. f
// must not block.
func (s Servers) Observe(f func(server string, fail *delivery.Error, took time.Duration)) {
	for _, server := range s {
		server.tried = f
	}
}

// poolState is the state of a server's connections.
type poolState struct {
	Server      string // host:port
	InUse, Idle int
	Waits       int64 // mails that waited for a connection, since the start
}

// Pools returns the state of each server's connections.
func (s Servers) Pools() (all []poolState) {
	for _, server := range s {
		p := server.pool
		p.mu.Lock()
		all = append(all, poolState{server.config.address(), p.open - len(p.idle), len(p.idle), p.waits})
		p.mu.Unlock()
	}
	return all
}

// MaxConns returns how many connections all servers may have together, which bounds how many mails are under way at once.
func (s Servers) MaxConns() (n int) {
	for _, server := range s {
		n += server.config.MaxConns
	}
	return n
}

// Close says QUIT to idle connections, within about a second for each server. Sends under way end undisturbed; later ones fail with
// Temporary. The error is nil.
func (s Servers) Close() error {
	for _, server := range s {
		server.pool.close()
	}
	return nil
}
