// Package snstest imitates Amazon SNS for tests: a certificate authority, SNS's certificate, and
// servers on loopback that serve both and confirm subscriptions.
package snstest

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"sendcode/internal/deliver/sns"
	"sendcode/internal/deliver/webhook"
)

// Topic is the ARN of a topic, and Host is the host of SNS in the topic's region.
const (
	Topic = "arn:aws:sns:eu-west-1:123456789012:ses-events"
	Host  = "sns.eu-west-1.amazonaws.com"
)

const issuerAddress = "http://crt.example/issuer.cer"

// Amazon imitates SNS. Change the exported fields only while no request is under way.
type Amazon struct {
	testing.TB
	Roots  *x509.CertPool
	Leaf   x509.Certificate // the template of SNS's certificate
	Key    crypto.Signer    // the key of that certificate
	Answer http.HandlerFunc // answers in place of SNS; nil: SNS does

	issuer    *x509.Certificate
	issuerKey crypto.Signer
	client    http.Client

	mu        sync.Mutex
	asked     []string // the requested addresses
	confirmed []string // see Confirmed
}

var snsKey = sync.OnceValues(func() (*rsa.PrivateKey, error) { return rsa.GenerateKey(rand.Reader, 2048) })

// must returns a function that returns x, or ends the test if err is not nil.
func must[T any](x T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
}

// New starts an imitation of SNS that runs until the test ends.
func New(t testing.TB) *Amazon {
	t.Helper()
	rootKey, issuerKey := newKey(t), newKey(t)
	authority := func(name string, serial int64) x509.Certificate {
		return x509.Certificate{
			Subject: pkix.Name{CommonName: name}, SerialNumber: big.NewInt(serial), IsCA: true,
			BasicConstraintsValid: true,
			KeyUsage:              x509.KeyUsageCertSign, NotBefore: time.Unix(0, 0),
			NotAfter: time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC),
		}
	}
	template := authority("root", 1)
	root := issue(t, template, &template, rootKey.Public(), rootKey)
	a := &Amazon{
		TB: t, Roots: x509.NewCertPool(), Key: must(snsKey())(t),
		issuer:    issue(t, authority("issuer", 2), root, issuerKey.Public(), rootKey),
		issuerKey: issuerKey, Leaf: server("sns.amazonaws.com", 3),
	}
	a.Leaf.IssuingCertificateURL = []string{issuerAddress}
	a.Roots.AddCert(root)
	hostKey := newKey(t)
	host := issue(t, server(Host, 4), a.issuer, hostKey.Public(), issuerKey)
	encrypted, plain := httptest.NewUnstartedServer(http.HandlerFunc(a.serve)), httptest.NewServer(http.HandlerFunc(a.serve))
	encrypted.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{host.Raw, a.issuer.Raw}, PrivateKey: hostKey}}}
	encrypted.StartTLS()
	a.client = webhook.Guard{AllowPlain: true}.NewClient(a.Roots, nil)
	a.client.Transport = &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: a.Roots},
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			to := plain.Listener.Addr()
			if strings.HasSuffix(address, ":443") {
				to = encrypted.Listener.Addr()
			}
			return new(net.Dialer).DialContext(ctx, network, to.String())
		},
	}
	t.Cleanup(func() {
		a.client.CloseIdleConnections()
		encrypted.Close()
		plain.Close()
	})
	return a
}

func newKey(t testing.TB) crypto.Signer {
	return must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
}

func server(name string, serial int64) x509.Certificate {
	return x509.Certificate{
		Subject: pkix.Name{CommonName: name}, DNSNames: []string{name}, SerialNumber: big.NewInt(serial),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, NotBefore: time.Unix(0, 0),
		NotAfter: time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC),
	}
}

func issue(t testing.TB, template x509.Certificate, parent *x509.Certificate, public crypto.PublicKey,
	key crypto.Signer,
) *x509.Certificate {
	t.Helper()
	der := must(x509.CreateCertificate(rand.Reader, &template, parent, public, key))(t)
	return must(x509.ParseCertificate(der))(t)
}

// Subscriber returns the topic as a new process has it, with no certificate in its cache.
func (a *Amazon) Subscriber() *sns.Topic { return sns.NewTopic(Topic, &a.client, a.Roots) }

// Certificate returns a certificate by the template Leaf for Key, in PEM.
func (a *Amazon) Certificate() []byte {
	cert := issue(a.TB, a.Leaf, a.issuer, a.Key.Public(), a.issuerKey)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw})
}

func (a *Amazon) serve(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	a.asked = append(a.asked, r.Host+r.URL.Path)
	a.mu.Unlock()
	switch {
	case a.Answer != nil && r.Host == Host:
		a.Answer(w, r)
	case "http://"+r.Host+r.URL.Path == issuerAddress && r.TLS == nil:
		_, _ = w.Write(a.issuer.Raw)
	case r.Host != Host || r.TLS == nil:
		http.NotFound(w, r)
	case r.URL.Path == "/SimpleNotificationService-0123456789abcdef.pem":
		_, _ = w.Write(a.Certificate())
	case r.URL.Path == "/" && r.URL.Query().Get("Action") == "ConfirmSubscription":
		a.mu.Lock()
		a.confirmed = append(a.confirmed, r.URL.Query().Get("TopicArn")+" "+r.URL.Query().Get("Token"))
		a.mu.Unlock()
	default:
		http.Error(w, "denied", http.StatusForbidden)
	}
}

// Asked returns the addresses requested since the last call.
func (a *Amazon) Asked() (all []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	all, a.asked = a.asked, nil
	return all
}

// Confirmed returns the topic and token of each subscription that was confirmed.
func (a *Amazon) Confirmed() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.confirmed
}

// Notification returns the members of a Notification, still without a signature.
func Notification(text string, at time.Time) map[string]string {
	return map[string]string{
		"Type": "Notification", "MessageId": "22b80b92-fdea-4c2c-8f9d-bdfb0c7bf324", "TopicArn": Topic, "Message": text,
		"Timestamp": at.UTC().Format("2006-01-02T15:04:05.000Z"), "SignatureVersion": "2",
		"SigningCertURL": "https://" + Host + "/SimpleNotificationService-0123456789abcdef.pem",
	}
}

// Confirmation returns the members of a message that asks for a subscription, or, with the kind
// "UnsubscribeConfirmation", of a message that says that a subscription ended.
func Confirmation(kind, token string, at time.Time) map[string]string {
	m := Notification("You have chosen to subscribe to the topic "+Topic+
		".\nTo confirm the subscription, visit the SubscribeURL included in this message.", at)
	m["Type"], m["Token"] = kind, token
	m["SubscribeURL"] = "https://" + Host + "/?Action=ConfirmSubscription&TopicArn=" + Topic + "&Token=" + token
	return m
}

// Sign signs a message by the version in its SignatureVersion, adds the signature to m, and returns
// the body.
func (a *Amazon) Sign(m map[string]string) []byte {
	a.Helper()
	var text strings.Builder
	for _, name := range []string{"Message", "MessageId", "Subject", "SubscribeURL", "Timestamp", "Token", "TopicArn", "Type"} {
		if value, given := m[name]; given {
			text.WriteString(name + "\n" + value + "\n")
		}
	}
	hash, sum := crypto.SHA256, sha256.Sum256([]byte(text.String()))
	digest := sum[:]
	if m["SignatureVersion"] == "1" {
		old := sha1.Sum([]byte(text.String()))
		hash, digest = crypto.SHA1, old[:]
	}
	m["Signature"] = base64.StdEncoding.EncodeToString(must(a.Key.Sign(rand.Reader, digest, hash))(a.TB))
	return must(json.Marshal(m))(a.TB)
}
