package delivery

import (
	"slices"
	"strings"
)

// BadAddress reports whether a message was refused because the address takes no messages. Such a
// send counts for the rule failures; any other failed send counts for backoff.
//
// It is true for BadNumber and NoMailbox. It is also true for a 550, "mailbox unavailable" (RFC 5321
// section 4.2.3), in answer to RCPT, unless its enhanced status code or its words name policy or the
// sender. A 550 at MAIL, DATA or the final dot is about us or the message.
func (e *Error) BadAddress() bool {
	switch {
	case e.BadNumber, e.NoMailbox():
		return true
	case e.Class != Rejected, e.Stage != StageRcpt, e.Status != 550:
		return false
	case e.Code == "", slices.Contains(vagueStatusCodes, e.Code):
		return !mentionsPolicy(e.Text)
	}
	return strings.HasPrefix(e.Code, "5.2.") || e.Code == statusNotInDirectory
}

// vagueStatusCodes are the enhanced status codes that say no more than a 550: 5.0.0, "other
// undefined status" (RFC 3463 section 2), and 5.5.0, which Outlook.com gives for any unavailable
// mailbox.
var vagueStatusCodes = []string{"5.0.0", "5.5.0"}

// statusNotInDirectory is Exchange Online's code for an address that its domain's directory lacks.
const statusNotInDirectory = "5.4.1"

// policyRefusalWords are the words of a redacted reply that show that the server refused a client,
// a sender or a content, and not an address.
var policyRefusalWords = func() map[string]bool {
	all := map[string]bool{}
	for word := range strings.FieldsSeq(`abuse abusive administrative administrator authenticate authenticated authentication authorized
authorization banned barracuda blacklist blacklisted block blocked blocking blocklist blocklisted bulk client cloudmark content denied dkim
dmarc dnsbl ehlo encryption forbidden greylist greylisted greylisting helo ip junk listed mimecast network permission permitted phishing policies
policy prohibited proofpoint ptr rate rbl relay relaying relayed reputation restricted reverse sender senders spam spamcop spamhaus spammer
spammers spf starttls suspicious throttled tls unauthenticated unauthorized unsolicited uribl virus`) {
		all[word] = true
	}
	return all
}()

// mentionsPolicy reports whether a redacted reply has one of policyRefusalWords, also inside of a
// host or URL.
func mentionsPolicy(text string) bool {
	for word := range strings.FieldsFuncSeq(strings.ToLower(text), func(r rune) bool { return r < 'a' || r > 'z' }) {
		if policyRefusalWords[word] {
			return true
		}
	}
	return false
}

// NoMailbox reports whether the server says that mail can never reach this address. Such a reply, or
// such an answer of a provider's API, suppresses the address.
//
// The reply must come at RCPT or later, with an enhanced status code 5.1.x (RFC 3463 section 3.2, RFC
// 7505), except 5.1.7 to 5.1.9, which are about the sender or a relay. A bare 550 is not enough: it
// also stands for policy (RFC 5321 section 4.2.3).
func (e *Error) NoMailbox() bool {
	if e.Class != Rejected || !slices.Contains([]string{StageRcpt, StageData, StageBody, StageDot, StageAnswer},
		e.Stage) {
		return false
	}
	return IsNoMailboxCode(e.Code)
}

// IsNoMailboxCode reports whether an enhanced status code says that there is no such mailbox; see
// [Error.NoMailbox].
func IsNoMailboxCode(enhanced string) bool {
	detail, about := strings.CutPrefix(enhanced, "5.1.")
	return about && !slices.Contains([]string{"7", "8", "9"}, detail)
}
