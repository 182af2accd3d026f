package delivery

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Encryption describes how a connection to a mail server was encrypted.
type Encryption struct {
	Version  string    // "TLS 1.3"; empty in the clear
	Offered  bool      // the connection is in the clear, although the server offers STARTTLS
	Implicit bool      // TLS from the first byte, not by STARTTLS
	Issuer   string    // of the server's certificate
	Until    time.Time // when the certificate expires
	// Unverified is why the certificate could not be verified, if the mode goes on without
	// verification; nil: it was verified.
	Unverified error
}

// NewEncryption returns the encryption of a TLS connection.
func NewEncryption(state *tls.ConnectionState, implicit bool) Encryption {
	e := Encryption{Version: tls.VersionName(state.Version), Implicit: implicit}
	if chain := state.PeerCertificates; len(chain) > 0 {
		issuer := chain[0].Issuer
		e.Issuer = cmp.Or(strings.Join(issuer.Organization, " "), issuer.CommonName, "an authority without a name")
		e.Until = chain[0].NotAfter
	}
	return e
}

// LastCertificate has the end of the certificate that a server showed last. Safe for concurrent
// use.
type LastCertificate struct {
	end          atomic.Int64
	seenAt       atomic.Int64
	onUnverified func(why error)
	unverified   sync.Once
}

// OnUnverified sets the function that is called, with the reason, at the first mail with an
// unverified certificate. Call OnUnverified before the first mail.
func (l *LastCertificate) OnUnverified(f func(why error)) { l.onUnverified = f }

// certificateKnownFor is how long the end of a certificate is known: a server that is no longer
// used may have another one by now.
const certificateKnownFor = 7 * 24 * time.Hour

// NoteCertificate notes when the certificate of a connection expires; nil: the connection is not
// encrypted. If the certificate is unverified, its end does not matter and is not noted.
func (l *LastCertificate) NoteCertificate(state *tls.ConnectionState, unverified error) {
	switch {
	case unverified != nil && l.onUnverified != nil:
		l.unverified.Do(func() { l.onUnverified(unverified) })
	case unverified == nil && state != nil:
		l.end.Store(NewEncryption(state, false).Until.Unix())
		l.seenAt.Store(time.Now().Unix())
	}
}

// CertificateEnd returns when the certificate expires; zero if no connection of the last week was
// by TLS.
func (l *LastCertificate) CertificateEnd() time.Time {
	if end := l.end.Load(); end != 0 && time.Since(time.Unix(l.seenAt.Load(), 0)) < certificateKnownFor {
		return time.Unix(end, 0)
	}
	return time.Time{}
}

// LoadCAPool returns the certificates of a PEM file; nil if path is empty.
func LoadCAPool(path string) (*x509.CertPool, error) {
	if path == "" {
		return nil, nil
	}
	pem, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("ca: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, SafeError("ca: no certificate in the file")
	}
	return pool, nil
}
