// Package proof signs that a recipient was verified, so that a back end can believe a browser without asking: a JWT
// (RFC 7519) with EdDSA (RFC 8037), and the public keys to check it with (RFC 7517).
//
// It stands after an approved check; package verification says what is proven, package api hands it out and app serves
// the keys. Each key of the ring gives one Ed25519 key under the same id, so rotating the ring rotates these: new proofs
// are signed with the first key, older ones are checked by the others as long as they are on the ring.
package proof

import (
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// Life is how long a proof is good for: long enough to be carried from a browser to a back end.
const Life = 5 * time.Minute

// Issuer is the claim iss of every proof.
const Issuer = "sendcode"

// label separates the seeds of these keys from all other keys of the ring.
const label = "proof ed25519"

// Ring derives seeds. Implementation: *keyring.Ring.
type Ring interface {
	Current() string
	IDs() []string
	Subkey(id, label string) ([]byte, error)
}

// Facts are what a proof says.
type Facts struct {
	ID  string // jti: the verification's; there is one proof of each, so a back end that keeps these sees a replay
	App string // aud
	// Recipient is sub: the keyed hash of the address; recipient in answers to secret keys, and the admin API's unless that folds
	// spellings into one.
	Recipient string
	Channel   string
	Purpose   string
	Test      bool // of a test recipient, whose code is known
}

type claims struct {
	jwt.Claims
	Audience []string `json:"aud"` // always a list; jwt.Claims writes a list of one as a string
	Channel  string   `json:"channel"`
	Purpose  string   `json:"purpose"`
	Test     bool     `json:"test,omitempty"`
}

// Signer makes proofs. Safe for concurrent use.
type Signer struct{ ring Ring }

// New makes a signer with the keys of a ring.
func New(ring Ring) *Signer { return &Signer{ring} }

func (s *Signer) key(id string) (ed25519.PrivateKey, error) {
	seed, err := s.ring.Subkey(id, label)
	if err != nil {
		return nil, err
	}
	return ed25519.NewKeyFromSeed(seed), nil
}

// Sign makes the proof of what happened at now. An error means that the ring has no key.
func (s *Signer) Sign(f Facts, now time.Time) (string, error) {
	id := s.ring.Current()
	key, err := s.key(id)
	if err != nil {
		return "", err
	}
	signingKey := jose.SigningKey{Algorithm: jose.EdDSA, Key: jose.JSONWebKey{Key: key, KeyID: id}}
	signer, err := jose.NewSigner(signingKey, (&jose.SignerOptions{}).WithType("JWT"))
	if err != nil {
		return "", err
	}
	return jwt.Signed(signer).Claims(claims{
		Claims: jwt.Claims{
			Issuer: Issuer, Subject: f.Recipient, ID: f.ID,
			IssuedAt: jwt.NewNumericDate(now), Expiry: jwt.NewNumericDate(now.Add(Life)),
		},
		Audience: []string{f.App}, Channel: f.Channel, Purpose: f.Purpose, Test: f.Test,
	}).Serialize()
}

// ErrInvalid says that a token is no proof of this service: it is malformed, or signed by another key.
var ErrInvalid = errors.New("proof: not a proof of this service")

// Open reads a proof that a key of the ring has signed, whatever the time is. Errors: ErrInvalid.
func (s *Signer) Open(token string) (f Facts, expires time.Time, err error) {
	parsed, err := jwt.ParseSigned(token, []jose.SignatureAlgorithm{jose.EdDSA})
	if err != nil || len(parsed.Headers) != 1 || !slices.Contains(s.ring.IDs(), parsed.Headers[0].KeyID) {
		return Facts{}, time.Time{}, ErrInvalid
	}
	key, err := s.key(parsed.Headers[0].KeyID)
	if err != nil {
		return Facts{}, time.Time{}, ErrInvalid
	}
	var c claims
	if parsed.Claims(key.Public(), &c) != nil || c.Issuer != Issuer || len(c.Audience) != 1 || c.Expiry == nil {
		return Facts{}, time.Time{}, ErrInvalid
	}
	return Facts{ID: c.ID, App: c.Audience[0], Recipient: c.Subject, Channel: c.Channel, Purpose: c.Purpose, Test: c.Test}, c.Expiry.Time(), nil
}

// Keys is the JWK Set (RFC 7517, section 5) with the public key of every key of the ring.
func (s *Signer) Keys() ([]byte, error) {
	set := jose.JSONWebKeySet{Keys: []jose.JSONWebKey{}}
	for _, id := range s.ring.IDs() {
		key, err := s.key(id)
		if err != nil {
			return nil, err
		}
		set.Keys = append(set.Keys, jose.JSONWebKey{Key: key.Public(), KeyID: id, Algorithm: string(jose.EdDSA), Use: "sig"})
	}
	return json.Marshal(set)
}
