package delivery

import "slices"

// About is the subject of a failure. It decides which other messages would fail, too. About is set
// once, by the code that reads the answer of the server or carrier. For mail servers, this is
// ErrorByReply. For providers and carriers, About comes from the tables of package providerhttp and
// of the carriers.
type About string

// From all messages to one.
const (
	AboutServer     About = ""           // the server or carrier: broken, or without a readable answer
	AboutConnection About = "connection" // this connection, or that there is one connection too many
	AboutPace       About = "pace"       // how much is sent together or in a while: the server is well
	AboutAccount    About = "account"    // our login, balance, address or request: all our messages are refused
	AboutSender     About = "sender"     // the sender: all its messages
	AboutMessage    About = "message"    // this message, or a reason that names no other subject
	AboutRecipient  About = "recipient"  // this recipient, for now or for this server; if Temporary: perhaps this recipient
	AboutAddress    About = "address"    // the address takes no messages: the send counts for the rule failures
	AboutMailbox    About = "mailbox"    // there is no such mailbox: the address is also suppressed
	AboutUs         About = "us"         // we made no request, or gave up before the answer
)

// of reports whether the failure is about one of these subjects.
func (e *Error) of(all ...About) bool { return e != nil && slices.Contains(all, e.About) }

// BefallsAll reports whether all messages through the same server or carrier would fail now.
func (e *Error) BefallsAll() bool {
	return e.of(AboutServer, AboutConnection, AboutPace, AboutAccount)
}

// BadAddress reports whether the message was refused because the address accepts no messages. A
// send with a bad address counts for the rule on failures. Any other failed send counts for the
// backoff rule.
func (e *Error) BadAddress() bool { return e.of(AboutAddress, AboutMailbox) }

// NoteStranger sets Chosen for the failure of a stranger's message.
func (e *Error) NoteStranger() {
	if e.of(AboutRecipient, AboutAddress, AboutMailbox) {
		e.Chosen = true
	}
}

// NoMailbox reports whether the server says that mail can never reach this address. Then the
// address is suppressed.
func (e *Error) NoMailbox() bool { return e.of(AboutMailbox) }

// MayGoElsewhere reports whether the message may go to another server or carrier after one of them
// refused it for good. The parameter way is the name of the server or carrier that refused. The
// parameter used has the names of all that earlier messages to the recipient used. The parameter
// took has the names of those that accepted such an earlier message. MayGoElsewhere is true in
// three cases:
//
//   - Elsewhere is set.
//   - The parameter used is not empty and does not contain way, and the refusal is about neither
//     the recipient nor us. In this case, way was tried before those in used because no earlier
//     message had used it (see UnusedFirst). Now those in used may be tried.
//   - The parameter took contains a name but not way, the failure has no Reason, and the refusal is
//     not about us. Another server or carrier accepted an earlier message, so this refusal proves
//     nothing. A failure with a Reason, such as a recipient's opt-out or a carrier's hold, does not
//     belong to this case.
func (e *Error) MayGoElsewhere(way string, used, took []string) bool {
	return e != nil && e.Class == Rejected && (e.Elsewhere ||
		len(used) > 0 && !slices.Contains(used, way) && !e.of(AboutRecipient, AboutAddress, AboutMailbox, AboutUs) ||
		len(took) > 0 && !slices.Contains(took, way) && e.Reason == "" && !e.of(AboutUs))
}

// BreakerResult returns what the attempt means for the circuit breaker of the server or carrier. If
// the server or carrier is at fault, the result is e. If it works, the result is nil. If the
// failure says nothing about its health, the result is ErrHealthUnknown.
func (e *Error) BreakerResult() error {
	switch {
	case e == nil:
		return nil
	case e.of(AboutUs, AboutPace):
		return ErrHealthUnknown
	case e.Class == Rejected:
		return nil
	case e.BefallsAll():
		return e
	case e.Class == Unknown, e.ConnectionEnds:
		return ErrHealthUnknown // the message's content or recipient may have caused the fault
	}
	return nil
}
