package delivery

import "slices"

// About is the subject of a failure: it says which other messages would fail, too. The code that
// reads a reply sets it: ErrorByReply for mail servers, and for HTTP APIs the tables of packages
// providerhttp, mailapi and sms. Package smtp corrects it where the reply alone does not show the
// subject, for example in blameRecipient.
type About string

// These are sorted by how many messages fail, from all to one. AboutUs says nothing about other
// messages.
const (
	AboutServer     About = ""           // the server or carrier: broken, or without a readable answer
	AboutConnection About = "connection" // this connection, or that there is one connection too many
	AboutPace       About = "pace"       // too much is sent at once or within some time: the server itself works
	AboutAccount    About = "account"    // the service's login, balance, IP address or request: all its messages are refused
	AboutSender     About = "sender"     // the sender: all its messages
	AboutMessage    About = "message"    // this message, or a reason that names no other subject
	AboutRecipient  About = "recipient"  // this recipient, for now or for this server; if Temporary: perhaps this recipient
	AboutAddress    About = "address"    // the address accepts no messages: the send counts for the rule failures
	AboutMailbox    About = "mailbox"    // there is no such mailbox: the address is also suppressed
	AboutUs         About = "us"         // the service made no request, or gave up before the answer
)

func (e *Error) isAbout(all ...About) bool { return e != nil && slices.Contains(all, e.About) }

// AffectsOthers reports whether other messages through the same server or carrier would now fail,
// too.
func (e *Error) AffectsOthers() bool {
	return e.isAbout(AboutServer, AboutConnection, AboutPace, AboutAccount)
}

// BadAddress reports whether the address accepts no messages. Such a send counts for the rule
// failures. Other failed sends count for the rule backoff, unless the caller or an administrator
// ended them.
func (e *Error) BadAddress() bool { return e.isAbout(AboutAddress, AboutMailbox) }

// NoteStranger sets Chosen if the failure is about the recipient. Call it only for a stranger's
// message.
func (e *Error) NoteStranger() {
	if e.isAbout(AboutRecipient, AboutAddress, AboutMailbox) {
		e.Chosen = true
	}
}

// NoMailbox reports whether the mailbox does not exist. Then the address is suppressed.
func (e *Error) NoMailbox() bool { return e.isAbout(AboutMailbox) }

// MayGoElsewhere reports whether the message may go to another server or carrier after the one
// named name refused it for good. used has the names of all servers or carriers that earlier
// messages with the same code used, and acceptedBy has those that accepted one. The message may go
// elsewhere in three cases:
//
//   - Elsewhere is set.
//   - used is not empty and lacks name, and the refusal is about neither the recipient nor us.
//     UnusedFirst may have moved name to the front only because used lacks it, so the names that
//     used has may still be tried.
//   - acceptedBy is not empty and lacks name, the failure has no Reason, and the refusal is not
//     about us. Another server or carrier accepted an earlier message, so this refusal proves
//     nothing.
//     Failures with a Reason are excepted, such as a recipient's opt-out or a carrier's hold.
func (e *Error) MayGoElsewhere(name string, used, acceptedBy []string) bool {
	return e != nil && e.Class == Rejected && (e.Elsewhere ||
		len(used) > 0 && !slices.Contains(used, name) && !e.isAbout(AboutRecipient, AboutAddress, AboutMailbox, AboutUs) ||
		len(acceptedBy) > 0 && !slices.Contains(acceptedBy, name) && e.Reason == "" && !e.isAbout(AboutUs))
}

// BreakerResult returns what the attempt means for the breaker of the server or carrier: e if the
// server or carrier is at fault, nil if it works, and ErrHealthUnknown if the failure says nothing
// about its health.
func (e *Error) BreakerResult() error {
	switch {
	case e == nil:
		return nil
	case e.isAbout(AboutUs, AboutPace):
		return ErrHealthUnknown
	case e.Class == Rejected:
		return nil
	case e.AffectsOthers():
		return e
	case e.Class == Unknown, e.ConnectionEnds:
		return ErrHealthUnknown // the message's content or recipient may have caused the fault
	}
	return nil
}
