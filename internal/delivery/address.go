package delivery

import (
	"slices"
	"strings"
)

// BadAddress reports whether a message was refused since the address takes none, and not for what
// we are: BadNumber and NoMailbox, and in answer to RCPT the reply 550, "mailbox unavailable" (RFC
// 5321 section 4.2.3), unless its enhanced status code or its words name policy or the sender. Such
// sends count for the rule failures, all others for backoff. At any other stage 550 is about us or
// the message: at MAIL, DATA and the final dot servers refuse clients and contents.
func (e *Error) BadAddress() bool {
	switch {
	case e.BadNumber, e.NoMailbox():
		return true
	case e.Class != Rejected, e.Stage != StageRcpt, e.Status != 550:
		return false
	case e.Code == "", slices.Contains(vagueCodes, e.Code):
		return !namesPolicy(e.Text)
	}
	return strings.HasPrefix(e.Code, "5.2.") || e.Code == codeNotInDirectory
}

// vagueCodes are enhanced status codes that say no more than 550: undefined (RFC 3463 section 2),
// and the one that Outlook.com has for every mailbox that is unavailable.
var vagueCodes = []string{"5.0.0", "5.5.0"}

// codeNotInDirectory is what Exchange Online says of an address that the directory of its domain does
// not have.
const codeNotInDirectory = "5.4.1"

// policyWords are words of replies, as RedactReply leaves them, with which servers refuse a client,
// a sender or a content.
var policyWords = func() map[string]bool {
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

// namesPolicy reports whether a reply's text, as RedactReply leaves it, has one of policyWords,
// also as a part of a host or a URL.
func namesPolicy(text string) bool {
	for word := range strings.FieldsFuncSeq(strings.ToLower(text), func(r rune) bool { return r < 'a' || r > 'z' }) {
		if policyWords[word] {
			return true
		}
	}
	return false
}

// NoMailbox reports whether the server knows for good that mail can't reach this address: an
// enhanced status code 5.1.x that is about the destination (RFC 3463 section 3.2, RFC 7505), heard
// once the recipient had been named. 5.1.7 to 5.1.9 are about the sender or a relay, 5.7.x is
// policy. Such a reply suppresses the address; so does an API's answer that means the same. A bare
// 550 does not: RFC 5321 section 4.2.3 has it for policy as well.
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
