package delivery

import (
	"strings"
	"time"

	"github.com/emersion/go-smtp"
)

// A front end has states that a developer's own mails never reach. The mailbox plays them for these recipients, with or
// without a tag, as in bounce+7@simulator.test, since each recipient has a quota of its own. No mail leaves the
// machine: the domain is reserved (RFC 6761 section 6.2).
const (
	simulatorDomain = "simulator.test"
	playBounce      = "bounce"  // there is no such mailbox: failed, and the place is given back
	playSlow        = "slow"    // the mail arrives after MailboxConfig.Slow
	playUnknown     = "unknown" // nothing is heard after the whole mail was handed over
)

// played names what a recipient is to play, if anything.
func played(to string) string {
	local, domain, _ := strings.Cut(strings.ToLower(to), "@")
	if domain != simulatorDomain {
		return ""
	}
	name, _, _ := strings.Cut(local, "+")
	return name
}

// noSuchMailbox is what mail servers say (RFC 3463 section 3.2).
var noSuchMailbox = &smtp.SMTPError{Code: 550, EnhancedCode: smtp.EnhancedCode{5, 1, 1}, Message: "No such mailbox"}

// play does, after the mail was read, what its recipients play.
func (d *delivered) play() {
	for _, to := range d.to {
		switch played(to) {
		case playSlow:
			select {
			case <-time.After(d.mailbox.config.Slow):
			case <-d.mailbox.closed:
			}
		case playUnknown:
			_ = d.conn.Conn().Close() // the mail is kept, and the 250 finds nobody
		}
	}
}
