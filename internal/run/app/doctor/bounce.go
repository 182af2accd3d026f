package doctor

import (
	"context"
	"errors"
	"io"
	"strings"
	"syscall"

	"github.com/google/uuid"

	"sendcode/internal/codes/keys"
	"sendcode/internal/deliver/bounce"
	"sendcode/internal/deliver/delivery"
	"sendcode/internal/deliver/feedback"
	"sendcode/internal/run/commands"
	"sendcode/internal/run/config"
)

// checkBounces posts a bounce mail to the running service, as `sendcode bounce` does. The service
// records nothing, since the mail names a send that does not exist. If the service does not run
// yet, checkBounces prints a remark and counts no failure.
func (d *doctor) checkBounces(ctx context.Context) {
	const what = "bounce mails"
	source, ok := feedback.BounceSource(d.cfg.Providers)
	if !ok {
		return
	}
	if d.cfg.DatabaseURL == "" && !config.DatabaseFileMayExist(d.cfg.DataDir) { // the first start makes the keys, too
		d.remark(what, "not checked, since the service has never run: start it, and run the doctor again")
		return
	}
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	cfg, err := d.cfg.WithStoredKeys()
	var mail string
	if err == nil {
		mail, err = trialBounce(cfg.SecretKeys.Reveal())
	}
	if err == nil {
		err = commands.PostBounce(ctx, commands.BounceTarget{}, func() (config.Config, error) { return cfg, nil }, strings.NewReader(mail),
			io.Discard)
	}
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		d.remark(what, "not checked, since no service runs at "+cfg.Addr+": start it, and run the doctor again")
	case err != nil:
		d.fail(what, err.Error())
	default:
		d.pass(what, "the service accepts them at /v1/events/"+source.Name+"; only a real bounce shows whether bounces to "+
			cfg.MailFrom+" are forwarded")
	}
}

// trialBounce returns a bounce mail for a send that does not exist. The keys in secretKeys sign the
// Message-ID of that send, and trialBounce checks that the same keys also verify the Message-ID.
func trialBounce(secretKeys string) (string, error) {
	ring, err := keys.Parse(secretKeys)
	if err != nil {
		return "", err
	}
	vault, send := keys.Vault{Ring: ring}, uuid.New()
	id, _, err := vault.MailTokens(send, ring.CurrentID())
	mail := "Content-Type: multipart/report; boundary=b\n\n--b\nContent-Type: message/delivery-status\n\nReporting-MTA: dns; localhost\n\n" +
		"Final-Recipient: rfc822; doctor@" + delivery.SimulatorDomain + "\nAction: failed\nStatus: 5.1.1\n\n--b\n" +
		"Content-Type: text/rfc822-headers\n\nMessage-ID: <" + id + "@localhost>\n\n--b--\n"
	for _, local := range bounce.Read([]byte(mail)).MessageIDs {
		if of, ok := vault.SendOfMessageID(local); ok && of == send {
			return mail, nil
		}
	}
	return "", errors.Join(err, errors.New("the keys do not verify a Message-ID that they signed"))
}
