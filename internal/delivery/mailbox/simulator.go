package mailbox

import (
	"slices"
	"strings"
	"time"

	"github.com/emersion/go-smtp"

	"sendcode/internal/delivery"
)

// A front end has states that a developer's own mails never reach. The mailbox plays them for these recipients, with or
// without a tag, as in bounce+7@simulator.test ([delivery.SimulatorDomain]), since each recipient has a quota of its own. No mail leaves
// the machine: the domain is reserved (RFC 6761 section 6.2).
const (
	playBounce  = "bounce"  // there is no such mailbox: failed, and the place is given back
	playSlow    = "slow"    // the mail arrives after eight seconds
	playUnknown = "unknown" // nothing is heard after the whole mail was handed over
)

// played names what a recipient is to play, if anything.
func played(to string) string {
	local, domain, _ := strings.Cut(strings.ToLower(to), "@")
	if domain != delivery.SimulatorDomain {
		return ""
	}
	name, _, _ := strings.Cut(local, "+")
	return name
}

// noSuchMailbox is what mail servers say (RFC 3463 section 3.2).
var noSuchMailbox = &smtp.SMTPError{Code: 550, EnhancedCode: smtp.EnhancedCode{5, 1, 1}, Message: "No such mailbox"}

// dawdle holds a mail back whose recipients are slow.
func (d *delivered) dawdle() {
	if !d.plays(playSlow) {
		return
	}
	select {
	case <-time.After(d.mailbox.slow):
	case <-d.mailbox.closed:
	}
}

// vanish closes the connection instead of answering, after the mail was kept.
func (d *delivered) vanish() {
	if d.plays(playUnknown) {
		_ = d.conn.Conn().Close()
	}
}

func (d *delivered) plays(name string) bool {
	return slices.ContainsFunc(d.to, func(to string) bool { return played(to) == name })
}
