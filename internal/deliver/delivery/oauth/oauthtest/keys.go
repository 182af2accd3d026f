package oauthtest

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"sync"
	"time"
)

// AccountEmail is the service account's address, and AccountKeyID its key's name.
const (
	AccountEmail = "sendcode@project.iam.gserviceaccount.com"
	AccountKeyID = "0a1b2c"
)

// pair is a key, with its certificate.
type pair struct {
	private     *rsa.PrivateKey
	certificate []byte // DER
	key         []byte // PKCS #8
}

func newPair() pair {
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Unix(0, 0), NotAfter: time.Unix(1<<31, 0)}
	certificate, certificateErr := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	key, keyErr := x509.MarshalPKCS8PrivateKey(private)
	if certificateErr != nil || keyErr != nil {
		panic("oauthtest: no certificate")
	}
	return pair{private, certificate, key}
}

var keyPair = sync.OnceValue(newPair)

// Certificate is the PEM of the client's certificate alone, PrivateKey that of its key.
func Certificate() string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: keyPair().certificate}))
}

// PrivateKey is the PEM of the key of Certificate and Account.
func PrivateKey() string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyPair().key}))
}

// Account is the file of a service account with this token server.
func Account(tokenURL string) string {
	text, err := json.Marshal(map[string]string{
		"type": "service_account", "client_email": AccountEmail, "private_key_id": AccountKeyID,
		"private_key": PrivateKey(), "token_uri": tokenURL,
	})
	if err != nil {
		panic(err)
	}
	return string(text)
}
