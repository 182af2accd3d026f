package humancheck

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/altcha-org/altcha-lib-go"

	"sendcode/internal/codes/keys"
)

const ByWork = "work" // the check by proof of work, which needs no vendor

// WorkPrefix begins a token that solves a challenge. The rest is ALTCHA's payload in base64.
const WorkPrefix = "work:"

const WorkChallengeLife = 10 * time.Minute // how long a challenge may be solved

// DefaultCost is the service's Check.Cost. It takes about a second on a cheap phone.
const DefaultCost = 100_000

// Check is the human check of an app.
type Check struct {
	Vendor Vendor // nil: only work
	Always bool   // each stranger's first send of a verification is asked, not only under pressure
	Cost   int64  // greatest number that can be the solution of a challenge; a solution costs half as many hashes on average
}

// By names the vendor, or ByWork if there is none or if it is unavailable.
func (c Check) By() string {
	if c.VendorAnswers() {
		return c.Vendor.By()
	}
	return ByWork
}

// VendorAnswers reports whether there is an available vendor.
func (c Check) VendorAnswers() bool { return c.Vendor != nil && c.Vendor.Available() }

// MaxTokenLength is in bytes. Turnstile states 2,048.
func (c Check) MaxTokenLength() int {
	if c.Vendor != nil && c.Vendor.By() == "turnstile" {
		return 2048
	}
	return 8192
}

// Challenge is one of ALTCHA's protocol, version 1.
type Challenge = altcha.Challenge

type Offer struct {
	By      string     `json:"by"`
	SiteKey string     `json:"site_key,omitempty"`
	Work    *Challenge `json:"work,omitempty"` // nil: a proof of work would not help
}

const workLabel = "human check"

// NewWorkChallenge makes a challenge, signed by the ring's current key. CheckWorkSolution accepts a
// solution only with the same binding, and for WorkChallengeLife after now. Challenges are not
// stored.
func NewWorkChallenge(ring *keys.Ring, binding string, cost int64, now time.Time) (*Challenge, error) {
	id := ring.CurrentID()
	key, err := ring.Subkey(id, workLabel)
	if err != nil {
		return nil, err
	}
	expires := now.Add(WorkChallengeLife)
	c, err := altcha.CreateChallenge(altcha.ChallengeOptions{
		HMACKey: string(key), MaxNumber: cost, Expires: &expires,
		Params: url.Values{"key": {id}, "for": {bindingMAC(key, binding)}},
	})
	return &c, err
}

// CheckWorkSolution checks the payload of a solution, in base64, by a few hashes. reason is empty
// if the solution is right. signature identifies the challenge: the caller must accept each
// signature only once.
func CheckWorkSolution(ring *keys.Ring, encoded, binding string, now time.Time) (signature string, reason Reason) {
	var p altcha.Payload
	text, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil || json.Unmarshal(text, &p) != nil || p.Algorithm != string(altcha.SHA256) || !strings.HasSuffix(p.Salt, "&") {
		return "", Rejected
	}
	params := altcha.ExtractParams(p)
	key, err := ring.Subkey(params.Get("key"), workLabel)
	if err != nil || !hmac.Equal([]byte(params.Get("for")), []byte(bindingMAC(key, binding))) {
		return "", Rejected
	}
	// The expiry is compared below, because the library reads the machine's clock.
	if right, err := altcha.VerifySolutionSafe(p, string(key), false); err != nil || !right {
		return "", Rejected
	}
	expires, err := strconv.ParseInt(params.Get("expires"), 10, 64)
	if err != nil || now.Unix() > expires {
		return "", Expired
	}
	return p.Signature, ""
}

// bindingMAC ties a solution to one binding.
func bindingMAC(key []byte, binding string) string {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte("for\x00" + binding))
	return hex.EncodeToString(mac.Sum(nil)[:16])
}
