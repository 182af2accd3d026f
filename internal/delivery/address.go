package delivery

import (
	"regexp"
	"slices"
	"strings"
)

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
// say, means that there is no such mailbox. Words that name another reason have the last word. Where
// the code says nothing, the words must say it.
func SaysNoMailbox(enhanced string, says Meaning) bool {
	return says == MissingMailbox && slices.Contains(vagueCodes, enhanced) ||
		says != AnotherReason && slices.Contains(noMailboxCodes, enhanced)
}

// Enhanced status codes (RFC 3463) of refusals for good.
var (
	// noMailboxCodes name the mailbox, its domain, its syntax, a mailbox that moved, and a domain
	// that takes no mail (RFC 7505). Other codes 5.1.x are about the sender or a relay, or mean
	// anything, as 5.1.0 and Exchange Online's 5.1.90 for our daily limit.
	noMailboxCodes = []string{"5.1.1", "5.1.2", "5.1.3", "5.1.6", "5.1.10"}
	// vagueCodes say no more than the reply's code: none, 5.0.0, and 5.5.0, which Outlook.com gives for
	// any unavailable mailbox.
	vagueCodes = []string{"", "5.0.0", "5.5.0"}
	// closedCodes name a disabled mailbox, and for Exchange Online an address that its domain's
	// directory lacks.
	closedCodes = []string{"5.2.1", "5.4.1"}
)

// Meaning is what the words of a refusal say of the address.
type Meaning string

const (
	Nothing        Meaning = ""
	MissingMailbox Meaning = "missing" // there is no such mailbox
	AnotherReason  Meaning = "other"   // policy, quota, rate, sender, a block list, spam, a full mailbox
)

// MeaningOf reads the words of a reply, before they are redacted. Addresses, hosts and URLs are left
// out, since a mailbox may be called spam@. A reply that may have another reason has AnotherReason,
// even if it also says that the mailbox is missing.
func MeaningOf(reply string) Meaning {
	reply = strings.ToLower(reply[:min(len(reply), maxReplyBytes)])
	bare := notWords.ReplaceAllStringFunc(reply, func(token string) string {
		if isPublicHostName(token) || !hostLike.MatchString(token) {
			return " "
		}
		return token
	})
	switch {
	case otherReasons.MatchString(bare):
		return AnotherReason
	case missingMailbox.MatchString(bare):
		return MissingMailbox
	case blockLists.MatchString(reply):
		return AnotherReason
	}
	return Nothing
}

var (
	// notWords are URLs, addresses, values such as relay=host, hosts, and phrases that name a list of
	// recipients or, of Exchange Online, a missing one.
	notWords = regexp.MustCompile(`https?://\S+|www\.\S+|[^\s<>()\[\]"':;,]+@[^\s<>()\[\]"':;,]+|\w+=\S+|(?:[\w-]+\.)+[a-z][\w-]+|` +
		`relay recipient table|not listed in|address rejected: access denied`)
	hostLike = regexp.MustCompile(`^[\w.-]+$`)

	otherReasons = regexp.MustCompile(`\b(?:abus\w*|administrat\w*|aup|auth\w*|banned|barracuda|black-?list\w*|block\w*|bulk|busy|client|cloudmark|` +
		`complain\w*|content|daily|deferred|denied|dkim|dmarc|dnsbl|ehlo|encrypt\w*|exceed\w*|forbidden|full|gr[ae]ylist\w*|helo|hourly?|ip|junk|later|` +
		`limit\w*|listed|listing|llen[ao]|malware|mimecast|network|old|overloaded|over-?quota|permission|permitted|phish\w*|pleine?|polic(?:y|ies)|` +
		`prohibit\w*|proofpoint|ptr|quota|rates?|rbl|relay\w*|reputation|restrict\w*|reverse|senders?|spam\w*|spf|spoof\w*|starttls|storage|suspicious|` +
		`temporar\w*|throttl\w*|timed? ?out|tls|too (?:fast|large|long|many|much)|un(?:authenticated|authorized|solicited)|uribl|virus|voll)\b|` +
		`已满|频率|限制|垃圾|拒绝`)
	blockLists = regexp.MustCompile(`spamhaus|spamcop|dnsbl|\brbl\b|uribl|surbl`)

	missingMailbox = regexp.MustCompile(`\bno such (?:\w+ ){0,2}(?:user|mailbox|recipient|address|account|person|domain|alias|customer)|` +
		`\b(?:user|mailbox|recipient|address|addressee|account|alias|customer|e-?mail)(?:\s+[^\s.]+){0,3}\s+(?:unknown|not found|invalid|non-?existent|not known|` +
		`not (?:be )?recogni[sz]ed|not exist|deleted|removed)\b|` +
		`\b(?:unknown|invalid|non-?existent|undeliverable) (?:local[ -]part|user|mailbox|recipient|address|account|e-?mail|domain|alias)|` +
		`\b(?:does|do|did)(?: not|n'?t) (?:currently )?(?:exist|have an?)\b|\bno (?:mailbox|account|user|recipient)s? (?:\w+ ){0,2}(?:here|by|with|named|called)\b|` +
		`\bnot a (?:valid|known|local) (?:user|mailbox|recipient|address|account)|\bno longer (?:valid|exists?|in use|here|with|employed)\b|unrouteable address|` +
		`recip(?:ient)?notfound|inconnue?\b|unbekannt|desconocid|sconosciut|inesistente|inexistente|n'existe pas|no existe|não existe|не существует|不存在|無此|无此`)
)
