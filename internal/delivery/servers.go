package delivery

import (
	"context"
	"errors"
	"time"
)

// Servers are mail servers in order of preference.
type Servers []*SMTP

// NewServers makes one sender for each configuration.
func NewServers(configs ...SMTPConfig) (Servers, error) {
	if len(configs) == 0 {
		return nil, problem("smtp: no server is configured")
	}
	servers := make(Servers, len(configs))
	for n, config := range configs {
		server, err := NewSMTP(config)
		if err != nil {
			return nil, err
		}
		servers[n] = server
	}
	return servers, nil
}

// Send tries one server after the other. It goes on only from a Temporary failure, after which the message was
// certainly not accepted; what was rejected or may have been accepted is never offered to another server.
// The receipt and the error are the last tried server's, Took is the whole.
func (s Servers) Send(ctx context.Context, message Message) (receipt Receipt, err error) {
	began := time.Now()
	for _, server := range s {
		receipt, err = server.Send(ctx, message)
		var fail *Error
		if !errors.As(err, &fail) || fail.Class != Temporary || ctx.Err() != nil {
			break
		}
	}
	receipt.Took = time.Since(began)
	return receipt, err
}

// Close closes every server.
func (s Servers) Close() error {
	var errs []error
	for _, server := range s {
		errs = append(errs, server.Close())
	}
	return errors.Join(errs...)
}
