package delivery

import "slices"

// About is the subject of a failure. It decides which other messages fail, too. It is set once,
// where a reply, a status or a code is read: for mail servers by ErrorByReply, for providers and
// carriers by the tables of package providerhttp and of the carriers.
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

// BefallsAll reports whether all messages through this server or carrier would fail now, too.
func (e *Error) BefallsAll() bool {
	return e.of(AboutServer, AboutConnection, AboutPace, AboutAccount)
}

// BadAddress reports whether a message was refused because the address takes no messages. Such a
// send counts for the rule failures; any other failed send counts for backoff.
func (e *Error) BadAddress() bool { return e.of(AboutAddress, AboutMailbox) }

// NoMailbox reports whether the server says that mail can never reach this address. Then the
// address is suppressed.
func (e *Error) NoMailbox() bool { return e.of(AboutMailbox) }

// MayGoElsewhere reports whether another server or carrier may get the message after this one,
// named way, refused it for good. There are three cases:
//
//   - Elsewhere is set.
//   - used, the ways of the recipient's earlier messages, is not empty and lacks way, so way came
//     first because it was unused. The refusal is not about the recipient.
//   - Another way is in took: it accepted an earlier message, so this refusal proves nothing. The
//     failure has no Reason, as a person's wish or a carrier's hold has.
func (e *Error) MayGoElsewhere(way string, used, took []string) bool {
	return e != nil && e.Class == Rejected && (e.Elsewhere ||
		len(used) > 0 && !slices.Contains(used, way) && !e.of(AboutRecipient, AboutAddress, AboutMailbox, AboutUs) ||
		len(took) > 0 && !slices.Contains(took, way) && e.Reason == "" && !e.of(AboutUs))
}

// BreakerResult returns the result of the attempt for the circuit breaker of its server or carrier:
// e, if the server or carrier is at fault; ErrHealthUnknown, if the failure says nothing about its
// health; nil, if it works.
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
