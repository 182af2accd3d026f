// Package evp verifies the tokens of the Email Verification Protocol
// (draft-hardt-email-verification): a browser brings a token by which a mail's provider, the
// issuer, vouches that the person controls an address. The draft may change, so nothing else knows
// the protocol.
//
// A token is an SD-JWT with a key binding (RFC 9901) and no disclosures, "<EVT>~<KB-JWT>". The
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

	"sendcode/internal/recipient"
)

// Bounds of a token's age: the time from the field to the form's post, and the difference of two
// clocks.
const (
	maxAge = 5 * time.Minute
	ahead  = time.Minute
)

// maxToken is the longest token, in bytes. One with RSA keys of 4096 bits has some 2,500.
const maxToken = 8 << 10

// wait is how long a Verify waits for what the issuer says. What comes later is kept for the next
// one.
const wait = 300 * time.Millisecond

// algorithms are those that Chromium signs and accepts. RFC 9864 calls EdDSA of this curve Ed25519,
// which go-jose does not know yet.
var algorithms = []jose.SignatureAlgorithm{jose.EdDSA, jose.ES256, jose.RS256}

// ErrInvalid says that a token does not prove the address here. Its text names the reason for a log
// line, and nothing of the token.
var ErrInvalid = errors.New("evp: the token is not valid")

func invalid(why string) error { return fmt.Errorf("%w: %s", ErrInvalid, why) }

// Expected is what a token must say.
type Expected struct {
	// of the page, "https://codes.example". It must not come from the request: another site's token
	// would name another one
	Origin  string
	Nonce   string // of this browser's page
	Address recipient.Recipient
}

// evt are the claims of the issuer, kb those of the browser.
type evt struct {
	Issuer        string `json:"iss"`
	IssuedAt      int64  `json:"iat"`
	Email         string `json:"email"`
	EmailVerified bool   `json:"email_verified"`
	Confirmation  struct {
		Key jose.JSONWebKey `json:"jwk"`
	} `json:"cnf"`
}

type kb struct {
	Audience string `json:"aud"`
	Nonce    string `json:"nonce"`
	IssuedAt int64  `json:"iat"`
	Hash     string `json:"sd_hash"`
}

// Verify returns the host of the issuer if the token proves the address. It takes at most 300 ms.
// Errors wrap ErrInvalid.
func (v *Verifier) Verify(ctx context.Context, token string, want Expected) (issuer string, err error) {
	signed, bound, ok := strings.Cut(token, "~")
	if !ok || len(token) > maxToken || want.Nonce == "" || want.Origin == "" {
		return "", invalid("form")
	}
	said, outer, err := parse[evt](signed, "evt+jwt")
	if err != nil {
		return "", err
	}
	binding, inner, err := parse[kb](bound, "kb+jwt")
	if err != nil {
		return "", err
	}
	hash := sha256.Sum256([]byte(signed + "~"))
	claimed, err := recipient.Parse(recipient.Email, said.Email)
	switch {
	case binding.Audience != want.Origin:
		return "", invalid("aud")
	case subtle.ConstantTimeCompare([]byte(binding.Nonce), []byte(want.Nonce)) != 1:
		return "", invalid("nonce")
	case binding.Hash != base64.RawURLEncoding.EncodeToString(hash[:]):
		return "", invalid("sd_hash")
	case !v.recent(binding.IssuedAt) || !v.recent(said.IssuedAt):
		return "", invalid("iat")
	case err != nil || !said.EmailVerified || !claimed.Equal(want.Address): // a private address is another one
		return "", invalid("email")
	}
	if verify(inner, said.Confirmation.Key) != nil { // before anything is fetched
		return "", invalid("key binding")
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	_, domain, _ := strings.Cut(want.Address.Address(), "@")
	by, err := v.issuerOf(ctx, domain)
	if err != nil {
		return "", err
	}
	if said.Issuer != by.host && said.Issuer != "https://"+by.host {
		return "", invalid("iss")
	}
	for _, key := range by.keys.Key(outer.Signatures[0].Protected.KeyID) {
		if verify(outer, key) == nil {
			return by.host, nil
		}
	}
	return "", invalid("signature")
}

// parse reads a JWT of a type without verifying it.
func parse[T any](text, typ string) (claims T, parsed *jose.JSONWebSignature, err error) {
	parsed, err = jose.ParseSignedCompact(text, algorithms)
	if err != nil {
		return claims, nil, invalid("form")
	}
	if parsed.Signatures[0].Protected.ExtraHeaders[jose.HeaderType] != typ {
		return claims, nil, invalid("typ")
	}
	if json.Unmarshal(parsed.UnsafePayloadWithoutVerification(), &claims) != nil {
		return claims, nil, invalid("claims")
	}
	return claims, parsed, nil
}

// verify verifies a signature with a public key of a size that takes no time.
func verify(signed *jose.JSONWebSignature, key jose.JSONWebKey) error {
	usable := false
	switch k := key.Key.(type) {
	case ed25519.PublicKey:
		usable = len(k) == ed25519.PublicKeySize
	case *ecdsa.PublicKey:
		usable = k.Curve == elliptic.P256()
	case *rsa.PublicKey:
		usable = k.N.BitLen() >= 2048 && k.N.BitLen() <= 4096
	}
	if !usable {
		return invalid("key")
	}
	_, err := signed.Verify(key.Key)
	return err
}

func (v *Verifier) recent(at int64) bool {
	age := v.Now().Sub(time.Unix(at, 0))
	return -ahead <= age && age <= maxAge
}
