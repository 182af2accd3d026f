// Package proof signs proofs of approvals. A proof is a JWT (RFC 7519) with EdDSA (RFC 8037). A
// back end that gets one from a browser can check it offline, with the public keys (RFC 7517).
// After a visit of the hosted page, a reference takes the place of the proof: the page adds it to
// the URL to which the person returns. In exchange for a proof or a reference, a back end gets the
// full address of an approved verification, once.
//
// Package verification signs a proof after an approved check. Package api returns the proof and
// calls Redeem. Package app serves the public keys.
//
// From each key of the key ring, one Ed25519 key with the same ID is derived. The current key signs
// new proofs. Older proofs stay valid as long as their key is in the ring.
package proof

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"sendcode/internal/codes/keys"
)

// Life of a proof is long enough for a person to fill in the rest of a form. It may be that long,
// because only the app's secret key redeems a proof, and only once. A back end that checks proofs
// offline must remember IDs for as long.
const Life = 30 * time.Minute

const issuerClaim = "sendcode" // the claim iss

// seedLabel keeps the seeds of the signing keys apart from all other keys that are derived from the
// ring.
const seedLabel = "proof ed25519"

// Claims are the claims of a proof that depend on the verification.
type Claims struct {
	ID  string // jti: the verification's ID. A verification has one proof, so a back end can detect a replayed proof by this ID
	App string // the claim aud
	// RecipientHash is the claim sub: the keyed hash of the address as spelled. Responses to
	// callers with a secret key contain the same hash.
	RecipientHash string
	Channel       string
	Purpose       string
	Details       string // what the person confirmed, as written in the message; the proof also has the SHA-256 of it, in hex
	Test          bool   // the approval is of a test recipient, whose code is known
}

type jwtClaims struct {
	jwt.Claims
	Audience []string `json:"aud"` // always a list; jwt.Claims writes a list of one as a string
	Channel  string   `json:"channel"`
	Purpose  string   `json:"purpose"`
	Details  string   `json:"details,omitempty"`
	Digest   string   `json:"details_sha256,omitempty"`
	Test     bool     `json:"test,omitempty"`
}

// Signer makes and verifies proofs. Safe for concurrent use.
type Signer struct {
	ring *keys.Ring
	keys sync.Map // ed25519.PrivateKey by ID
}

// New returns a Signer that derives its keys from the ring.
func New(ring *keys.Ring) *Signer { return &Signer{ring: ring} }

// key derives the private key from the ring's key with this ID, once.
func (s *Signer) key(id string) (ed25519.PrivateKey, error) {
	if known, ok := s.keys.Load(id); ok {
		return known.(ed25519.PrivateKey), nil
	}
	seed, err := s.ring.Subkey(id, seedLabel)
	if err != nil {
		return nil, err
	}
	key, _ := s.keys.LoadOrStore(id, ed25519.NewKeyFromSeed(seed))
	return key.(ed25519.PrivateKey), nil
}

// Sign makes a proof that is valid from now for Life. It fails if the ring has no key.
func (s *Signer) Sign(claims Claims, now time.Time) (string, error) {
	id := s.ring.CurrentID()
	key, err := s.key(id)
	if err != nil {
		return "", err
	}
	digest := ""
	if claims.Details != "" {
		digest = fmt.Sprintf("%x", sha256.Sum256([]byte(claims.Details)))
	}
	payload, err := json.Marshal(jwtClaims{
		Claims: jwt.Claims{
			Issuer: issuerClaim, Subject: claims.RecipientHash, ID: claims.ID,
			IssuedAt: jwt.NewNumericDate(now), Expiry: jwt.NewNumericDate(now.Add(Life)),
		},
		Audience: []string{claims.App}, Channel: claims.Channel, Purpose: claims.Purpose, Test: claims.Test,
		Details: claims.Details, Digest: digest,
	})
	if err != nil {
		return "", err
	}
	// The compact JWS is written here, because package jose adds half of the signature's time and
	// makes 70 allocations.
	header, err := json.Marshal(jwsHeader{jose.EdDSA, id, "JWT"})
	if err != nil {
		return "", err
	}
	encode := base64.RawURLEncoding
	token := make([]byte, 0, encode.EncodedLen(len(header)+len(payload)+ed25519.SignatureSize)+4)
	token = append(encode.AppendEncode(token, header), '.')
	token = encode.AppendEncode(token, payload)
	signature := ed25519.Sign(key, token)
	return string(encode.AppendEncode(append(token, '.'), signature)), nil
}

// jwsHeader is protected by the signature.
type jwsHeader struct {
	Algorithm jose.SignatureAlgorithm `json:"alg"`
	KeyID     string                  `json:"kid"`
	Type      string                  `json:"typ"`
}

// errInvalid: the token is malformed, or signed by another key.
var errInvalid = errors.New("proof: this is not a proof of this service")

// VerifySignature returns the claims of a proof and when it expires, which the caller must compare.
// It fails if the token is not a proof of this service.
func (s *Signer) VerifySignature(token string) (claims Claims, expires time.Time, err error) {
	// go-jose ignores line ends and the last bits of a part. Without this check, one proof would
	// have many valid texts.
	for part := range strings.SplitSeq(token, ".") {
		decoded, err := base64.RawURLEncoding.DecodeString(part)
		if err != nil || base64.RawURLEncoding.EncodeToString(decoded) != part {
			return Claims{}, time.Time{}, errInvalid
		}
	}
	parsed, err := jwt.ParseSigned(token, []jose.SignatureAlgorithm{jose.EdDSA})
	if err != nil || len(parsed.Headers) != 1 || !slices.Contains(s.ring.IDs(), parsed.Headers[0].KeyID) {
		return Claims{}, time.Time{}, errInvalid
	}
	key, err := s.key(parsed.Headers[0].KeyID)
	if err != nil {
		return Claims{}, time.Time{}, errInvalid
	}
	var c jwtClaims
	if parsed.Claims(key.Public(), &c) != nil || c.Issuer != issuerClaim || len(c.Audience) != 1 || c.Expiry == nil {
		return Claims{}, time.Time{}, errInvalid
	}
	return Claims{
			ID: c.ID, App: c.Audience[0], RecipientHash: c.Subject, Channel: c.Channel, Purpose: c.Purpose,
			Details: c.Details, Test: c.Test,
		},
		c.Expiry.Time(), nil
}

// KeySet returns the JWK Set (RFC 7517, section 5) of all public keys of the ring, as JSON.
func (s *Signer) KeySet() ([]byte, error) {
	set := jose.JSONWebKeySet{Keys: []jose.JSONWebKey{}}
	for _, id := range s.ring.IDs() {
		key, err := s.key(id)
		if err != nil {
			return nil, err
		}
		set.Keys = append(set.Keys, jose.JSONWebKey{
			Key: key.Public(), KeyID: id, Algorithm: string(jose.EdDSA),
			Use: "sig",
		})
	}
	return json.Marshal(set)
}
