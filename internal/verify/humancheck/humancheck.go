// Package humancheck has the human checks that strangers may be asked for: a proof of work, or a
// token of a vendor.
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

// VendorQuery asks a vendor about one token.
type VendorQuery struct {
	Token    string
	App      string
	Network  string // network of the client; vendors are asked at most 30 times an hour for one network; empty: unknown
	ClientIP string // given to the vendor only if the app says send_ip
}

// Result is a vendor's answer about a token. If the token is not accepted, Reason says why. Away is
// true if the vendor couldn't be asked or reported a fault of its own. The service then offers a
// proof of work instead.
type Result struct {
	Passed bool
	Reason Reason
	Host   string // only with OtherHost: the host on which the token was made, as the vendor reports it
	Away   bool
}

// Vendor checks tokens for one app. Implementation: package vendors.
type Vendor interface {
	By() string      // turnstile, hcaptcha, recaptcha, http
	SiteKey() string // public; "" where there is none
	Available() bool // false while the vendor's breaker is open; then work is offered
	Check(ctx context.Context, q VendorQuery) (Result, error)
}
