package smtp_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emersion/go-sasl"
	gosmtp "github.com/emersion/go-smtp"

	"sendcode/internal/delivery"
	"sendcode/internal/delivery/smtp"
)

// relay is a mail server of another author (go-smtp), which relays only for those who log in.
type relay struct {
	mu    sync.Mutex
	mails []string
}

type relaySession struct {
	relay *relay
	conn  *gosmtp.Conn
	known bool
}

func (s *relaySession) AuthMechanisms() []string { return []string{sasl.Plain} }
func (s *relaySession) Reset()                   {}
func (s *relaySession) Logout() error            { return nil }

func (s *relaySession) Auth(string) (sasl.Server, error) {
	return sasl.NewPlainServer(func(_, user, pass string) error {
		if _, encrypted := s.conn.TLSConnectionState(); !encrypted || user != username || pass != password {
			return gosmtp.ErrAuthFailed
		}
		s.known = true
		return nil
	}), nil
}

func (s *relaySession) Mail(string, *gosmtp.MailOptions) error {
	if !s.known {
		return gosmtp.ErrAuthRequired
	}
	return nil
}

func (s *relaySession) Rcpt(to string, _ *gosmtp.RcptOptions) error {
	if strings.HasPrefix(to, "unknown@") {
		return &gosmtp.SMTPError{Code: 550, EnhancedCode: gosmtp.EnhancedCode{5, 1, 1}, Message: "no such user " + to}
	}
	return nil
}

func (s *relaySession) Data(r io.Reader) error {
	text, err := io.ReadAll(r)
	if err != nil {
		return errors.New("broken off")
	}
	s.relay.mu.Lock()
	defer s.relay.mu.Unlock()
	s.relay.mails = append(s.relay.mails, string(text))
	return nil
}

// selfSigned makes a certificate for 127.0.0.1 and writes it where ?ca= finds it.
func selfSigned(t *testing.T) (tls.Certificate, string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, path
}

func startRelay(t *testing.T) (*relay, url.URL) {
	t.Helper()
	certificate, ca := selfSigned(t)
	r := &relay{}
	server := gosmtp.NewServer(gosmtp.BackendFunc(func(c *gosmtp.Conn) (gosmtp.Session, error) {
		return &relaySession{relay: r, conn: c}, nil
	}))
	server.TLSConfig = &tls.Config{Certificates: []tls.Certificate{certificate}}
	server.ErrorLog = log.New(io.Discard, "", 0)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(listener) })
	t.Cleanup(func() {
		_ = listener.Close()
		_ = server.Close()
		serving.Wait()
	})
	query := url.Values{"tls": {"required"}, "ca": {ca}}
	return r, url.URL{Scheme: "smtp", Host: listener.Addr().String(), User: url.UserPassword(username, password), RawQuery: query.Encode()}
}

func TestRealServerWithSTARTTLSAndAUTH(t *testing.T) {
	relay, address := startRelay(t)
	with := func(change func(*url.URL)) *smtp.Client {
		u := address
		change(&u)
		config, err := smtp.ParseURL(u.String())
		if err != nil {
			t.Fatal(err)
		}
		return newSender(t, config)
	}
	s := with(func(*url.URL) {})
	sendAll(t, s, 1, 3)

	refused := message(4)
	refused.To = "unknown@example.org"
	_, err := s.Send(t.Context(), refused)
	expect(t, err, outcome{delivery.Rejected, delivery.StageRcpt, 550, "5.1.1"})
	sendAll(t, s, 5, 5)
	if err := s.Probe(t.Context()); err != nil {
		t.Error(err)
	}

	_, err = with(func(u *url.URL) { u.User = url.UserPassword(username, "wrong") }).Send(t.Context(), message(6))
	expect(t, err, outcome{delivery.Temporary, delivery.StageAuth, 535, "5.7.8"})
	_, err = with(func(u *url.URL) { u.RawQuery = "tls=required" }).Send(t.Context(), message(7))
	expect(t, err, tlsFailure())
	_, err = with(func(u *url.URL) { u.RawQuery = "tls=none" }).Send(t.Context(), message(8))
	expect(t, err, outcome{class: delivery.Temporary, stage: delivery.StageAuth})

	relay.mu.Lock()
	defer relay.mu.Unlock()
	if len(relay.mails) != 4 || !strings.Contains(relay.mails[0], "Message-ID: <send-1@codes.example>\r\n") {
		t.Errorf("%d mails arrived", len(relay.mails))
	}
}
