package smtp

import (
	"context"
	"time"

	"sendcode/internal/delivery"
)

// Client is exported for tests of one server.
type Client = client

// New makes a client.
func New(config Config) (*Client, error) {
	servers, err := NewServers(config)
	if err != nil {
		return nil, err
	}
	return servers[0], nil
}

// Close closes the pool.
func (s *client) Close() { s.pool.close() }

// Send delivers one message to the server, as Servers do, but past the circuit breaker.
func (s *client) Send(ctx context.Context, message delivery.Message) (delivery.Receipt, error) {
	began := time.Now()
	receipt := delivery.Receipt{Provider: s.config.Host}
	mail, fail := s.layouts.Render(message)
	defer s.layouts.Release(mail)
	var kept *session
	if fail == nil {
		kept, _, fail = s.pool.acquire(ctx, forever)
	}
	if fail == nil {
		receipt.Code, fail = s.deliver(ctx, kept, mail)
	}
	receipt.Took = time.Since(began)
	if fail != nil {
		return receipt, fail
	}
	return receipt, nil
}
