// Package evp verifies tokens of the Email Verification Protocol (draft-hardt-email-verification):
// with one, the issuer, which is a mail provider, confirms that a person controls an address. Only
// this package knows the protocol, since the draft may change.
//
// A token is an SD-JWT with a key binding (RFC 9901) and without disclosures, "<EVT>~<KB-JWT>". The
// issuer signs the EVT, which names the address and the browser's key. With that key the browser
// signs the KB-JWT, which names the page's origin and its nonce. A TXT record of the address's
// domain names the issuer, whose well-known file leads to its keys.
package evp

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"

	"sendcode/internal/base/recipient"
)

// Bounds of a token.
const (
	maxTokenAge    = 5 * time.Minute        // from the issue to the form's submission
	maxClockSkew   = time.Minute            // how far the clocks of browser and issuer may be ahead
	maxTokenLength = 8 << 10                // bytes; a token with two RSA keys of 4,096 bits has some 2,500
	maxIssuerWait  = 300 * time.Millisecond // how long Verify waits for the issuer; a slower look-up serves later tokens
)

// signatureAlgorithms are the algorithms that Chromium signs with and accepts. RFC 9864 names EdDSA
// by its curve, Ed25519; go-jose does not know that name yet.
var signatureAlgorithms = []jose.SignatureAlgorithm{jose.EdDSA, jose.ES256, jose.RS256}

// ErrInvalid says that a token proves nothing. Its text has the reason, and nothing of the token.
var ErrInvalid = errors.New("evp: the token is not valid")

func tokenError(why string) error { return fmt.Errorf("%w: %s", ErrInvalid, why) }

// Expected is what a token must say.
type Expected struct {
	// Origin is the origin of the page, "https://codes.example". It must not come from the request:
	// another site, which has tokens for its own origin, could name itself there.
	Origin  string
	Nonce   string // of the page in this browser
	Address recipient.Recipient
}

// claims are the claims of both JWTs, the issuer's and the browser's. Times are in seconds since
// 1970.
type claims struct {
	IssuedAt int64  `json:"iat"`
	Expires  *int64 `json:"exp"` // optional

	Issuer        string `json:"iss"`
	Email         string `json:"email"`
	EmailVerified bool   `json:"email_verified"`
	Confirmation  struct {
		Key jose.JSONWebKey `json:"jwk"`
	} `json:"cnf"`

	Audience string `json:"aud"`
	Nonce    string `json:"nonce"`
	Hash     string `json:"sd_hash"`
}

// Verify returns the host of the issuer if the token proves the address. It waits for the issuer
// 300 ms at most. Errors wrap ErrInvalid.
func (v *Verifier) Verify(ctx context.Context, token string, want Expected) (issuer string, err error) {
	signed, bound, ok := strings.Cut(token, "~")
	if !ok || len(token) > maxTokenLength || want.Nonce == "" || want.Origin == "" {
		return "", tokenError("form")
	}
	said, outer, err := parseUnverifiedJWT(signed, "evt+jwt")
	if err != nil {
		return "", err
	}
	binding, inner, err := parseUnverifiedJWT(bound, "kb+jwt")
	if err != nil {
		return "", err
	}
	hash := sha256.Sum256([]byte(signed + "~"))
	claimed, err := recipient.Parse(recipient.Email, said.Email)
	switch {
	case binding.Audience != want.Origin:
		return "", tokenError("aud")
	case subtle.ConstantTimeCompare([]byte(binding.Nonce), []byte(want.Nonce)) != 1:
		return "", tokenError("nonce")
	case binding.Hash != base64.RawURLEncoding.EncodeToString(hash[:]):
		return "", tokenError("sd_hash")
	case !v.isCurrent(binding) || !v.isCurrent(said):
		return "", tokenError("iat")
	case err != nil || !said.EmailVerified || !claimed.Equal(want.Address): // a private alias of the issuer is another address
		return "", tokenError("email")
	case !hasValidSignature(inner, said.Confirmation.Key): // before the look-up, which a forged token must not cause
		return "", tokenError("key binding")
	}
	ctx, cancel := context.WithTimeout(ctx, maxIssuerWait)
	defer cancel()
	_, domain, _ := strings.Cut(want.Address.Address(), "@")
	by, err := v.awaitIssuer(ctx, domain)
	if err != nil {
		return "", err
	}
	if said.Issuer != by.host && said.Issuer != "https://"+by.host { // the draft has the host, Chromium the URL
		return "", tokenError("iss")
	}
	for i, key := range by.keys.Key(outer.Signatures[0].Protected.KeyID) {
		if i < maxKeysTried && hasValidSignature(outer, key) {
			return by.host, nil
		}
	}
	return "", tokenError("signature")
}

// parseUnverifiedJWT reads a JWT of a type without verifying it.
func parseUnverifiedJWT(text, typ string) (said claims, parsed *jose.JSONWebSignature, err error) {
	parsed, err = jose.ParseSignedCompact(text, signatureAlgorithms)
	if err != nil {
		return said, nil, tokenError("form")
	}
	if parsed.Signatures[0].Protected.ExtraHeaders[jose.HeaderType] != typ {
		return said, nil, tokenError("typ")
	}
	if json.Unmarshal(parsed.UnsafePayloadWithoutVerification(), &said) != nil {
		return said, nil, tokenError("claims")
	}
	return said, parsed, nil
}

// hasValidSignature reports whether the key made the signature. It refuses keys that make verifying
// slow.
func hasValidSignature(signed *jose.JSONWebSignature, by jose.JSONWebKey) bool {
	usable := false
	switch key := by.Key.(type) {
	case ed25519.PublicKey:
		usable = len(key) == ed25519.PublicKeySize
	case *ecdsa.PublicKey:
		usable = key.Curve == elliptic.P256()
	case *rsa.PublicKey:
		usable = key.N.BitLen() >= 2048 && key.N.BitLen() <= 4096
	}
	if usable {
		_, err := signed.Verify(by.Key)
		return err == nil
	}
	return false
}

// isCurrent reports whether a JWT has not expired and was issued at most maxTokenAge ago, or at most
// maxClockSkew ahead of this clock.
func (v *Verifier) isCurrent(c claims) bool {
	now := v.Now()
	age := now.Sub(time.Unix(c.IssuedAt, 0))
	return -maxClockSkew <= age && age <= maxTokenAge && (c.Expires == nil || now.Before(time.Unix(*c.Expires, 0)))
}
