package oauth

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// Key signs assertions (RFC 7523): those of a client that has a certificate, or a Google service account.
type Key struct {
	// Account is the service account's address, and TokenURL its token server; empty with a certificate.
	Account, TokenURL string
	private           *rsa.PrivateKey
	id, thumbprint    string
	until             time.Time // the certificate ends
}

// assertionLife is how long an assertion counts: Microsoft wants 10 minutes at most, Google an hour.
const assertionLife = 5 * time.Minute

var (
	errNotPair    = errors.New("must be PEM with a certificate and its RSA key, unencrypted")
	errNotAccount = errors.New("must be the JSON file of a service account, with its key")
)

// ParseCertificate reads PEM that has a client's certificate and its RSA key. The error has no part of it.
func ParseCertificate(text []byte) (*Key, error) {
	pair, err := tls.X509KeyPair(text, text)
	private, ok := pair.PrivateKey.(*rsa.PrivateKey)
	if err != nil || !ok {
		return nil, errNotPair
	}
	sum := sha256.Sum256(pair.Leaf.Raw)
	return &Key{private: private, thumbprint: base64.RawURLEncoding.EncodeToString(sum[:]), until: pair.Leaf.NotAfter}, nil
}

// ParseAccount reads the file that Google gives for a service account's key. The error has no part of it.
func ParseAccount(text []byte) (*Key, error) {
	var file struct {
		Type     string `json:"type"`
		Email    string `json:"client_email"`
		ID       string `json:"private_key_id"`
		Private  string `json:"private_key"`
		TokenURL string `json:"token_uri"`
	}
	err := json.Unmarshal(text, &file)
	block, _ := pem.Decode([]byte(file.Private))
	if err != nil || file.Type != "service_account" || file.Email == "" || file.TokenURL == "" || block == nil {
		return nil, errNotAccount
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	private, ok := key.(*rsa.PrivateKey)
	if err != nil || !ok {
		return nil, errNotAccount
	}
	return &Key{Account: file.Email, TokenURL: file.TokenURL, private: private, id: file.ID}, nil
}

// sign returns an assertion with these claims, and with those about its life.
func (k *Key) sign(algorithm jose.SignatureAlgorithm, claims map[string]any) (string, error) {
	now := time.Now()
	claims["iat"], claims["nbf"], claims["exp"], claims["jti"] = now.Unix(), now.Unix(), now.Add(assertionLife).Unix(), rand.Text()
	options := (&jose.SignerOptions{}).WithType("JWT")
	if k.thumbprint != "" {
		options.WithHeader("x5t#S256", k.thumbprint)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: algorithm, Key: jose.JSONWebKey{Key: k.private, KeyID: k.id}}, options)
	if err != nil {
		return "", err
	}
	return jwt.Signed(signer).Claims(claims).Serialize()
}
