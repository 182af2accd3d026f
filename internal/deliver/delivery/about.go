package delivery

import "slices"

// About is what a failure is about, and so which other messages it befalls. It is set once, where a
// reply, a status or a code is read: by ErrorByReply for mail servers, by the tables of package
// providerhttp and of the carriers for the others.
type About string

// From all messages to one.
const (
	AboutServer     About = ""           // the server or carrier, as far as is known: it is broken, or gave no answer that can be read
	AboutConnection About = "connection" // this connection, or one more than the server takes
	AboutPace       About = "pace"       // how much is sent at once or in a while: the server is well
	AboutAccount    About = "account"    // our login, balance, address or request: it refuses all that is ours
	AboutSender     About = "sender"     // the sender: all its messages
	AboutMessage    About = "message"    // this message, or a reason that names nothing else
	AboutRecipient  About = "recipient"  // this recipient for now or for this server; Temporary: it may be about it
	AboutAddress    About = "address"    // the address takes no messages: the send counts for the rule failures
	AboutMailbox    About = "mailbox"    // there is no such mailbox: besides, the address is suppressed
	AboutUs         About = "us"         // we asked nobody, or gave up before the answer
)

// of reports whether the failure is about one of these.
func (e *Error) of(all ...About) bool { return e != nil && slices.Contains(all, e.About) }

// BefallsAll reports whether the failure befalls all messages by this server or carrier, for now.
func (e *Error) BefallsAll() bool {
	return e.of(AboutServer, AboutConnection, AboutPace, AboutAccount)
}

// BadAddress reports whether a message was refused because the address takes no messages. Such a
// send counts for the rule failures; any other failed send counts for backoff.
func (e *Error) BadAddress() bool { return e.of(AboutAddress, AboutMailbox) }

// NoMailbox reports whether the server says that mail can never reach this address, which
// suppresses it.
func (e *Error) NoMailbox() bool { return e.of(AboutMailbox) }

// MayGoElsewhere reports whether another server or carrier may have the message though this one,
// the way of this name, refused it for good: because of Elsewhere; or it came first since it is not
// in used, which had earlier ones for the recipient, and the refusal is not about the recipient; or
// another one took one of these, so that this one's word proves nothing. What the person wants, or
// a carrier's hold, has a Reason.
func (e *Error) MayGoElsewhere(way string, used, took []string) bool {
	return e != nil && e.Class == Rejected && (e.Elsewhere ||
		len(used) > 0 && !slices.Contains(used, way) && !e.of(AboutRecipient, AboutAddress, AboutMailbox, AboutUs) ||
		len(took) > 0 && !slices.Contains(took, way) && e.Reason == "" && !e.of(AboutUs))
}

// BreakerResult returns what a failure says of the server or carrier that was asked, for its
// circuit breaker: e, if it is at fault; ErrHealthUnknown, if the failure tells nothing about it;
// nil, if it did its work.
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
		return ErrHealthUnknown // what the message has, or its recipient, may have broken it
	}
	return nil
}
