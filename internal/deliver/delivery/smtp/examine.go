package smtp

import (
	"context"

	"sendcode/internal/deliver/delivery"
)

// Examine opens a connection to a mail server, encrypts and logs in as configured, and says NOOP
// and QUIT. It sends no mail. It returns how the connection was encrypted. The error is a
// [*delivery.Error] with the stage that failed, or describes the problem with the configuration.
func Examine(ctx context.Context, config Config) (delivery.Encryption, error) {
	config, err := config.withDefaults()
	if err != nil {
		return delivery.Encryption{}, err
	}
	session, fail := openSession(ctx, config)
	if fail != nil {
		return delivery.Encryption{}, fail
	}
	defer session.quit()
	defer context.AfterFunc(ctx, session.closeSocket)()
	if fail := session.runStep(ctx, delivery.StageHello, session.client.Noop); fail != nil {
		return delivery.Encryption{}, fail
	}
	if session.state == nil {
		offered, _ := session.client.Extension("STARTTLS")
		return delivery.Encryption{Offered: offered}, nil
	}
	seen := delivery.EncryptionOf(session.state, config.TLS == TLSImplicit)
	seen.Unverified = session.unverified
	return seen, nil
}
