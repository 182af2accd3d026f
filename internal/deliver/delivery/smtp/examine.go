package smtp

import (
	"cmp"
	"context"

	"sendcode/internal/deliver/delivery"
)

// Examine opens a connection to a mail server, encrypts it and logs in as configured. It says MAIL
// and RSET for each sender, since a server may refuse a sender after the login. It names no
// recipient. It returns how the connection was encrypted. The error is a [*delivery.Error] with the
// stage that failed, or describes the problem with the configuration.
func Examine(ctx context.Context, config Config, senders ...string) (delivery.Encryption, error) {
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
	for _, text := range senders {
		sender, ok := delivery.ParseSender(text)
		if !ok {
			return delivery.Encryption{}, delivery.SafeError("the sender is malformed")
		}
		mail := command{delivery.StageMail, "MAIL FROM:", sender.Address, "", 250}
		fail := session.runStep(ctx, mail.stage, func() error { return session.sendCommands(mail) })
		if fail == nil {
			fail = session.runStep(ctx, mail.stage, session.client.Reset)
		}
		if fail != nil {
			fail.Err = cmp.Or(fail.Err, error(delivery.SafeError("as the sender "+sender.Address)))
			return delivery.Encryption{}, fail
		}
	}
	if session.state == nil {
		offered, _ := session.client.Extension("STARTTLS")
		return delivery.Encryption{Offered: offered}, nil
	}
	encryption := delivery.NewEncryption(session.state, config.TLS == TLSImplicit)
	encryption.Unverified = session.unverified
	return encryption, nil
}
