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

// Encryption describes how a connection to a mail server is encrypted.
type Encryption struct {
	Version  string    // such as "TLS 1.3"; empty in the clear
	Offered  bool      // the connection is in the clear, although the server offers STARTTLS
	Implicit bool      // TLS from the first byte, not by STARTTLS
	Issuer   string    // of the server's certificate
	Until    time.Time // when the certificate expires
	// Unverified is why the certificate could not be verified, in a mode that continues without
	// verification; nil if it was verified.
	Unverified error
}

func NewEncryption(state *tls.ConnectionState, implicit bool) Encryption {
	e := Encryption{Version: tls.VersionName(state.Version), Implicit: implicit}
	if chain := state.PeerCertificates; len(chain) > 0 {
		issuer := chain[0].Issuer
		e.Issuer = cmp.Or(strings.Join(issuer.Organization, " "), issuer.CommonName, "an authority without a name")
		e.Until = chain[0].NotAfter
	}
	return e
}

// LastCertificate records when the last certificate of a server expires. Safe for concurrent use.
type LastCertificate struct {
	end          atomic.Int64
	seenAt       atomic.Int64
	onUnverified func(why error)
	unverified   sync.Once
}

// OnUnverified sets the function that is called with the reason at the first connection with an
// unverified certificate. Call OnUnverified before the first mail.
func (l *LastCertificate) OnUnverified(f func(why error)) { l.onUnverified = f }

// certificateKnownFor is how long CertificateEnd returns the end of a connection's certificate.
// After that time without a connection, the server may have another certificate.
const certificateKnownFor = 7 * 24 * time.Hour

// NoteCertificate records when the certificate of a connection expires. state is nil without
// encryption. An unverified certificate may expire without harm, so it isn't recorded.
func (l *LastCertificate) NoteCertificate(state *tls.ConnectionState, unverified error) {
	switch {
	case unverified != nil && l.onUnverified != nil:
		l.unverified.Do(func() { l.onUnverified(unverified) })
	case unverified == nil && state != nil:
		l.end.Store(NewEncryption(state, false).Until.Unix())
		l.seenAt.Store(time.Now().Unix())
	}
}

// CertificateEnd returns when the certificate expires. It returns zero if no connection of the last
// week used TLS with a verified certificate.
func (l *LastCertificate) CertificateEnd() time.Time {
	if end := l.end.Load(); end != 0 && time.Since(time.Unix(l.seenAt.Load(), 0)) < certificateKnownFor {
		return time.Unix(end, 0)
	}
	return time.Time{}
}

// LoadCAPool returns the certificates of a PEM file, or nil if path is empty.
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
		return nil, SafeError("ca: the file contains no certificate")
	}
	return pool, nil
}
