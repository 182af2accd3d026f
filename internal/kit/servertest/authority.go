package servertest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Authority is a private certificate authority that no system trusts.
type Authority struct {
	File        string // name of the PEM file of its certificate
	Certificate *x509.Certificate
	Key         *ecdsa.PrivateKey
	serial      int64
}

// CertificateLife is how long certificates are valid. A test sets a longer time if its programs
// have a clock that is ahead.
var CertificateLife = 24 * time.Hour

// NewAuthority makes an authority whose File is removed after the test.
func NewAuthority(t testing.TB) *Authority {
	t.Helper()
	a := &Authority{File: filepath.Join(t.TempDir(), "ca.pem"), serial: 1}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotAfter: time.Now().Add(CertificateLife),
	}
	var err error
	a.Key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	mustOrSkip(t, err)
	der, err := x509.CreateCertificate(rand.Reader, template, template, &a.Key.PublicKey, a.Key)
	mustOrSkip(t, err)
	a.Certificate, err = x509.ParseCertificate(der)
	mustOrSkip(t, err)
	mustOrSkip(t, writePEM(a.File, "CERTIFICATE", der))
	return a
}

// Issue makes a certificate for 127.0.0.1. Each change edits the template before it is signed.
// Issue returns the names of the PEM files of the certificate and of its key.
func (a *Authority) Issue(t testing.TB, change ...func(*x509.Certificate)) (certificate, key string) {
	t.Helper()
	a.serial++
	own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	mustOrSkip(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(a.serial), NotAfter: time.Now().Add(CertificateLife),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	for _, c := range change {
		c(template)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.Certificate, &own.PublicKey, a.Key)
	mustOrSkip(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(own)
	mustOrSkip(t, err)
	dir := t.TempDir()
	certificate, key = filepath.Join(dir, "server.pem"), filepath.Join(dir, "server.key")
	mustOrSkip(t, writePEM(certificate, "CERTIFICATE", der))
	mustOrSkip(t, writePEM(key, "PRIVATE KEY", private))
	return certificate, key
}

func writePEM(file, kind string, der []byte) error {
	return os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}
