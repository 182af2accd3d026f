package smtp

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"strings"
	"time"

	"sendcode/internal/delivery"
)

// Encryption describes how a connection to a mail server was encrypted.
type Encryption struct {
	Version string    // "TLS 1.3"; empty in the clear
	Offered bool      // in the clear, although the server offers STARTTLS
	Policy  TLSPolicy // that was configured
	Issuer  string    // of the server's certificate
	Until   time.Time // when the certificate ends
}

// Examine opens a connection to a mail server, encrypts and logs in as configured, and says NOOP and QUIT. It sends no mail. It returns
// how the connection was encrypted. The error is a [*delivery.Error] with the stage that failed, or describes the problem with the
// configuration.
func Examine(ctx context.Context, config Config) (Encryption, error) {
	config, err := config.withDefaults()
	if err != nil {
		return Encryption{}, err
	}
	session, fail := open(ctx, config)
	if fail != nil {
		return Encryption{}, fail
	}
	defer session.quit()
	defer context.AfterFunc(ctx, session.closeSocket)()
	if fail := session.runStep(ctx, delivery.StageHello, session.client.Noop); fail != nil {
		return Encryption{}, fail
	}
	return session.encryption(), nil
}

func (s *session) encryption() Encryption {
	e := Encryption{Policy: s.config.TLS}
	if s.state == nil {
		e.Offered, _ = s.client.Extension("STARTTLS")
		return e
	}
	e.Version = tls.VersionName(s.state.Version)
	if chain := s.state.PeerCertificates; len(chain) > 0 {
		e.Issuer, e.Until = issuerName(chain[0]), chain[0].NotAfter
	}
	return e
}

func issuerName(c *x509.Certificate) string {
	return cmp.Or(strings.Join(c.Issuer.Organization, " "), c.Issuer.CommonName, "an authority without a name")
}
