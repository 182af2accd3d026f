package delivery

import "slices"

// BadAddress reports whether a message was refused because the address takes no messages. Such a
// send counts for the rule failures; any other failed send counts for backoff.
//
// It is true for BadNumber and NoMailbox. It is also true for a 550, "mailbox unavailable" (RFC 5321
// section 4.2.3), in answer to RCPT, unless its enhanced status code or its words name another
// reason. A 550 at MAIL, DATA or the final dot is about us or the message.
func (e *Error) BadAddress() bool {
	switch {
	case e.BadNumber, e.NoMailbox():
		return true
	case e.Class != Rejected, e.Stage != StageRcpt, e.Status != 550, e.Says == AnotherReason:
		return false
	}
	return slices.Contains(vagueCodes, e.Code) || slices.Contains(closedCodes, e.Code)
}

// NoMailbox reports whether the server says, at RCPT or later, that mail can never reach this
// address; see SaysNoMailbox. Such a reply, or such an answer of a provider's API, suppresses the
// address.
func (e *Error) NoMailbox() bool {
	return e.Class == Rejected && SaysNoMailbox(e.Code, e.Says) &&
		slices.Contains([]string{StageRcpt, StageData, StageBody, StageDot, StageAnswer}, e.Stage)
}

// SaysNoMailbox reports whether a refusal for good, by its enhanced status code and what its words
// say, means that there is no such mailbox. Words that name another reason overrule the code. If the
// code is vague, the words must say that the mailbox is missing.
func SaysNoMailbox(enhanced string, says Meaning) bool {
	return says == MissingMailbox && slices.Contains(vagueCodes, enhanced) ||
		says != AnotherReason && slices.Contains(noMailboxCodes, enhanced)
}

// Enhanced status codes (RFC 3463) of refusals for good.
var (
	// noMailboxCodes are about the mailbox, its domain, its syntax, a mailbox that moved, and a domain
	// that takes no mail (RFC 7505). Other codes 5.1.x are about the sender or a relay, or have no fixed
	// meaning, such as 5.1.0, and 5.1.90, which is our daily limit at Exchange Online.
	noMailboxCodes = []string{"5.1.1", "5.1.2", "5.1.3", "5.1.6", "5.1.10"}
	// vagueCodes say no more than the reply's code: "" (the reply has none), 5.0.0, and 5.5.0, which
	// Outlook.com gives for any unavailable mailbox.
	vagueCodes = []string{"", "5.0.0", "5.5.0"}
	// closedCodes name a disabled mailbox, and for Exchange Online an address that its domain's
	// directory lacks.
	closedCodes = []string{"5.2.1", "5.4.1"}
)

// Meaning is what the words of a refusal say of the address.
type Meaning string

const (
	NoMeaning      Meaning = ""
	MissingMailbox Meaning = "missing" // there is no such mailbox
	AnotherReason  Meaning = "other"   // policy, quota, rate, sender, a block list, spam, a full mailbox
)
