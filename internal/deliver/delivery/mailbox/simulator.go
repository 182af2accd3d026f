package mailbox

import (
	"slices"
	"strings"
	"time"

	"github.com/emersion/go-smtp"

	"sendcode/internal/deliver/delivery"
)

// These are the local parts of recipients at [delivery.SimulatorDomain] for which the mailbox
// simulates an outcome. With these outcomes, a developer can see every state of a front end. An
// address with a tag, such as bounce+7@simulator.test, is a separate recipient with its own quota.
const (
	bounceLocalPart  = "bounce"  // there is no such mailbox: the send fails and is refunded
	slowLocalPart    = "slow"    // the mail arrives after eight seconds
	unknownLocalPart = "unknown" // the connection closes without an answer to the whole mail
)

// simulatedOutcome returns the local part of a recipient at delivery.SimulatorDomain in lower case
// and without its tag, such as bounceLocalPart; "" for recipients of other domains.
func simulatedOutcome(to string) string {
	local, domain, _ := strings.Cut(strings.ToLower(to), "@")
	if domain != delivery.SimulatorDomain {
		return ""
	}
	name, _, _ := strings.Cut(local, "+")
	return name
}

// noSuchMailbox is the reply of mail servers for an unknown mailbox (RFC 3463 section 3.2).
var noSuchMailbox = &smtp.SMTPError{Code: 550, EnhancedCode: smtp.EnhancedCode{5, 1, 1}, Message: "No such mailbox"}

// delayIfSlow delays a mail to slowLocalPart. The delay ends when the mailbox closes.
func (s *session) delayIfSlow() {
	if !s.simulates(slowLocalPart) {
		return
	}
	select {
	case <-time.After(s.mailbox.slow):
	case <-s.mailbox.closed:
	}
}

func (s *session) simulates(name string) bool {
	return slices.ContainsFunc(s.to, func(to string) bool { return simulatedOutcome(to) == name })
}
