package verification

import (
	"fmt"
	"regexp"
	"time"

	"sendcode/internal/base/fault"
	"sendcode/internal/store"
)

// These are bounds of a caller's code, in characters, and of its TTL. Messages state a TTL in whole
// minutes.
const (
	minCallerCodeLength = 4
	maxCallerCodeLength = 12
	minCallerCodeTTL    = time.Minute
)

var callerCodePattern = regexp.MustCompile(fmt.Sprintf(`^[0-9A-Za-z]{%d,%d}$`, minCallerCodeLength, maxCallerCodeLength))

var ErrTTLOutOfRange = fault.Invalid("ttl", "out_of_range", "A ttl must be from 60 to 86400 seconds.")

// No error of validateCallerCode contains the code.
func validateCallerCode(ask Request) error {
	switch {
	case ask.Code == "" && ask.TTL == 0:
		return nil
	case ask.Code == "":
		return fault.Invalid("ttl", "not_allowed",
			"A ttl may come only with a code of your own. Our codes live as long as their purpose says.")
	case ask.Kind != BackEnd:
		return fault.Invalid("code", "not_allowed", "Only a request with a secret key may contain a code.")
	case !callerCodePattern.MatchString(ask.Code):
		return fault.Invalid("code", "invalid", "A code has 4 to 12 characters, which are letters and digits of ASCII.")
	case ask.Resend != "":
		return fault.Invalid("code", "not_allowed",
			"A code of your own opens a new verification: leave verification_id out.")
	case ask.Session != "":
		return fault.Invalid("session", "not_allowed",
			"A code of your own is never sent again: leave session out.")
	case ask.TTL != 0 && (ask.TTL < minCallerCodeTTL || ask.TTL > store.MaxCodeLife):
		return ErrTTLOutOfRange
	}
	return nil
}
