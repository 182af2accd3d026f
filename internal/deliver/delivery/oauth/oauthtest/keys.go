package oauthtest

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"sync"
)

// AccountEmail is the service account's address, and AccountKeyID is the name of its key.
const (
	AccountEmail = "sendcode@project.iam.gserviceaccount.com"
	AccountKeyID = "0a1b2c"
)

var private = sync.OnceValue(func() *rsa.PrivateKey {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return key
})

// PrivateKey returns the PEM of the key of Account.
func PrivateKey() string {
	text, err := x509.MarshalPKCS8PrivateKey(private())
	if err != nil {
		panic(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: text}))
}

// Account returns the file of a service account that names this token server.
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
