// Package humancheck demands a proof of work or a vendor's token from a stranger if many requests
// come from strangers.
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
	Network  string // network of the client; vendors are asked at most 30 times an hour for one network; empty: unknown
	ClientIP string // given to the vendor only if the app says send_ip
}

// Result is a vendor's answer about a token. If the vendor accepted the token, Passed is set. If
// the vendor's answer leads to a rejection, Reason has the reason. If the vendor could not be asked
// or reported a fault of its own, Away is set, and the service offers a proof of work instead.
type Result struct {
	Passed bool
	Reason Reason
	Host   string // only with OtherHost: the host on which the token was made, as the vendor reports it
	Away   bool
}

// Vendor checks tokens of one app's vendor. Implementation: package vendors.
type Vendor interface {
	By() string      // turnstile, hcaptcha, recaptcha, http
	SiteKey() string // public; "" where there is none
	Available() bool // false while the vendor's breaker is open; then work is offered
	Check(ctx context.Context, q VendorQuery) (Result, error)
}
