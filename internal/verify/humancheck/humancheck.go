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
	Network  string // the peer's network as rules count it, for the bound of 30 an hour; empty: unknown
	ClientIP string // given to the vendor only if the app says send_ip
}

// Result is a vendor's answer. Either Passed is set, or Reason has the reason. Away: the vendor
// could not be asked, or answered that it has a fault; then work is offered instead.
type Result struct {
	Passed bool
	Reason Reason
	Host   string // of OtherHost: the host on which the token was made, as the vendor says
	Away   bool
}

// Vendor checks tokens of one app's vendor. Implementation: package vendors.
type Vendor interface {
	By() string      // turnstile, hcaptcha, recaptcha, http
	SiteKey() string // public; "" where there is none
	Available() bool // false while the vendor's breaker is open; then work is offered
	Check(ctx context.Context, q VendorQuery) (Result, error)
}
