package smtp

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"strings"
	"time"
)

// Encryption is what a connection to a mail server was protected by.
type Encryption struct {
	Version string    // "TLS 1.3"; empty in the clear
	Offered bool      // in the clear, although the server offers STARTTLS
	Policy  TLSPolicy // that was configured
	Issuer  string    // of the server's certificate
	Until   time.Time // when the certificate ends
}

func (s *session) encryption() Encryption {
	e := Encryption{Policy: s.config.TLS}
	if s.state == nil {
		e.Offered, _ = s.client.Extension("STARTTLS")
		return e
	}
	e.Version = tls.VersionName(s.state.Version)
	if chain := s.state.PeerCertificates; len(chain) > 0 {
		e.Issuer, e.Until = issuer(chain[0]), chain[0].NotAfter
	}
	return e
}

func issuer(c *x509.Certificate) string {
	return cmp.Or(strings.Join(c.Issuer.Organization, " "), c.Issuer.CommonName, "an authority without a name")
}
