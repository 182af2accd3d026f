// Package humancheck asks a stranger for a proof of work or a vendor's token when strangers are
// many.
package humancheck

import (
	"context"
)

// Reason says why a token was not accepted.
type Reason string

const (
	Used      Reason = "used"
	Expired   Reason = "expired"
	OtherHost Reason = "other_host"
	Rejected  Reason = "rejected"
)

// VendorQuery is the question to a vendor about one token.
type VendorQuery struct {
	Token    string
	App      string
	Network  string // the peer's network as the rules count it, for the bound of 30 an hour; empty if it is not known
	ClientIP string // given to the vendor only if the app says send_ip
}

// Result is a vendor's answer. Passed, or Reason; Away if the vendor could not be asked or answered
// with its own fault, so that work is offered instead.
type Result struct {
	Passed bool
	Reason Reason
	Host   string // of OtherHost: where the vendor says that the token was made
	Away   bool
}

// Vendor checks tokens of one app's vendor. Implementation: package vendors.
type Vendor interface {
	By() string      // turnstile, hcaptcha, recaptcha, http
	SiteKey() string // public; "" where there is none
	Available() bool // false while its breaker is open: work is offered
	Check(ctx context.Context, q VendorQuery) (Result, error)
}
