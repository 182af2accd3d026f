package delivery

import (
	"slices"
	"strconv"
	"strings"
)

// replyRow has the meaning of a mail server's reply. Lists are separated by blanks. An empty list
// matches every reply.
type replyRow struct {
	stages   string
	statuses string // a status; "4xx": every status that begins with 4; "0": the reply could not be read
	codes    string // enhanced status codes (RFC 3463); "4.7.": all codes that begin with it; "-": no code
	says     string // Meanings; "-": NoMeaning
	class    ErrorClass
	about    About
	marks    marks
}

// marks are the further fields of an Error.
type marks int

const (
	crowded   marks = 1 << iota // Error.Crowded
	ends                        // Error.ConnectionEnds
	elsewhere                   // Error.Elsewhere
)

const (
	beforeMail = StageDial + " " + StageTLS + " " + StageHello + " " + StageAuth
	fromRcpt   = StageRcpt + " " + StageData + " " + StageBody + " " + StageDot
)

// Enhanced status codes of refusals for good.
const (
	// noMailboxCodes are about the mailbox, its domain, its syntax, a moved mailbox, and a domain
	// that takes no mail (RFC 7505). Other codes 5.1.x are about the sender or a relay, or have no
	// fixed meaning, such as 5.1.0, and 5.1.90, which is Exchange Online's daily limit for the
	// sender.
	noMailboxCodes = "5.1.1 5.1.2 5.1.3 5.1.6 5.1.10"
	// vagueCodes say no more than the reply's status: no code, 5.0.0, and 5.5.0, which Outlook.com
	// sends for any unavailable mailbox.
	vagueCodes = "- 5.0.0 5.5.0"
	// closedCodes say that a mailbox is disabled or, from Exchange Online, that the domain's
	// directory lacks an address.
	closedCodes = "5.2.1 5.4.1"
)

// replies has the rows of all replies. The first row that matches is used.
var replies = []replyRow{
	// No reply. After the final dot the server may have accepted the mail (RFC 1047), and the
	// mail's content may have caused the server's failure.
	{StageDot, "0 2xx 3xx", "", "", Unknown, AboutMessage, ends},
	// A greeting of another kind comes from a web server or TLS. A reply that does not fit its
	// command is a fault, too. Neither is about the mail, so another server gets it.
	{"", "0 2xx 3xx", "", "", Temporary, AboutServer, ends},

	// The server closes the connection (RFC 5321 section 3.8).
	{"", "421", "", "", Temporary, AboutConnection, crowded | ends},
	// TLS not available (RFC 3207); the login cannot be checked now (RFC 4954).
	{StageTLS + " " + StageAuth, "454", "", "", Temporary, AboutAccount, 0},
	// The server accepts nothing over the network at present (RFC 3463 section 3.4). Postfix and
	// Exchange mean only one connection by this code.
	{"", "4xx", "4.3.2", "", Temporary, AboutConnection, crowded},
	// At the login, 432 means that the password must be changed (RFC 4954 section 6). Later it is
	// Microsoft's limit of three mails at once.
	{StageAuth, "432", "", "", Temporary, AboutAccount, 0},
	{"", "432", "", "", Temporary, AboutConnection, crowded},

	// Before MAIL the server knows nothing of the mail. A greeting of 4xx is also about the load:
	// no other reason is known yet.
	{StageHello, "4xx", "", "", Temporary, AboutServer, crowded},
	// Throttling at Amazon, which has no enhanced code; 454 4.7.1 of Postfix denies relaying to a
	// domain, see below.
	{StageMail + " " + fromRcpt, "454", "-", "", Temporary, AboutPace, crowded},
	// Rate (RFC 3463 section 3.8), storage.
	{beforeMail + " " + StageMail, "452 454", "", "", Temporary, AboutAccount, crowded},
	{beforeMail + " " + StageMail, "4xx", "4.7.", "", Temporary, AboutAccount, crowded},
	// The server has a fault, for example of its disk, or cannot look up the sender.
	{beforeMail + " " + StageMail, "4xx", "", "", Temporary, AboutServer, 0},
	// The server wants no mail of this service; another server may (RFC 7504 for the greeting).
	{beforeMail, "5xx", "", "", Temporary, AboutAccount, 0},

	// The login or its encryption is refused (RFC 4954 section 6). A login that was valid has ended
	// with the connection; a new connection logs in again.
	{"", "530 534 535 538", "", "", Temporary, AboutAccount, ends},
	// "Bad sequence of commands" (RFC 5321 section 4.3.2): earlier commands on this connection are
	// the cause, even if code or words name a mailbox.
	{StageMail + " " + StageRcpt + " " + StageData, "503", "", "", Rejected, AboutConnection, 0},
	// Mailtrap answers 550 5.7.0 at DATA if mails come too fast, although the code means "for
	// good".
	{fromRcpt, "5xx", "", string(TooFast), Temporary, AboutPace, crowded},
	// No recipient was named yet. The sender may not use this server, or the server calls the
	// sender's address malformed. Another server may take the mail.
	{StageMail, "5xx", "", "", Rejected, AboutSender, elsewhere},
	// The same refusal of the sender after MAIL (RFC 3463 section 3.2; 5.7.60 and 5.2.252 of
	// Exchange): Postfix sends it at RCPT, Exchange after the final dot.
	{fromRcpt, "5xx", "5.1.7 5.1.8 5.7.60 5.2.252", "", Rejected, AboutSender, elsewhere},
	{fromRcpt, "5xx", "", string(RefusedSender), Rejected, AboutSender, elsewhere},

	// From RCPT on, most replies are about the recipient or the mail. Here, Exchange cannot open
	// the sender's mailbox on this host now, because a right is missing or new.
	{fromRcpt, "430", "4.2.0", "", Temporary, AboutAccount, ends},
	// A full, closed or unknown mailbox (RFC 3463 sections 3.2 and 3.3), as Gmail's 452 4.2.2, says
	// nothing of our load.
	{fromRcpt, "4xx", "4.1. 4.2.", "", Temporary, AboutRecipient, 0},
	{fromRcpt, "452 454", "", "", Temporary, AboutRecipient, crowded},
	{fromRcpt, "4xx", "4.7.", "", Temporary, AboutRecipient, crowded}, // Postfix: "too many recipients"; also greylisting
	{fromRcpt, "4xx", "", "", Temporary, AboutRecipient, 0},
	// Words that name another reason overrule a code of a missing mailbox; a vague code needs words
	// of one.
	{fromRcpt, "5xx", noMailboxCodes, "- missing", Rejected, AboutMailbox, 0},
	{fromRcpt, "5xx", vagueCodes, "missing", Rejected, AboutMailbox, 0},
	// "Mailbox unavailable" (RFC 5321 section 4.2.3), if nothing names another reason. Later on a
	// 550 is about us or the mail.
	{StageRcpt, "550", vagueCodes + " " + closedCodes, "- missing", Rejected, AboutAddress, 0},
	{"", "5xx", "", "", Rejected, AboutMessage, 0},
	{"", "", "", "", Temporary, AboutServer, 0},
}

// ErrorByReply returns the failure of a step of which this is the reply: its status, its enhanced
// status code and the MeaningOf its words. Status 0: there was no readable reply.
func ErrorByReply(stage string, status int, code string, says Meaning) *Error {
	row := rowOfReply(stage, status, code, says)
	return &Error{
		Class: row.class, Stage: stage, Status: status, Code: code, About: row.about,
		Crowded: row.marks&crowded != 0, ConnectionEnds: row.marks&ends != 0, Elsewhere: row.marks&elsewhere != 0,
	}
}

func rowOfReply(stage string, status int, code string, says Meaning) replyRow {
	return replies[slices.IndexFunc(replies, func(r replyRow) bool {
		return fits(r.stages, stage) && fits(r.statuses, strconv.Itoa(status)) && fits(r.codes, code) && fits(r.says, string(says))
	})]
}

// SaysNoMailbox reports whether a final refusal with this enhanced status code and these words
// means that the mailbox does not exist. The refusal may come from another server, so its stage and
// status are not known.
func SaysNoMailbox(code string, says Meaning) bool {
	return rowOfReply(StageDot, 550, code, says).about == AboutMailbox
}

// fits reports whether a list of a replyRow has a text.
func fits(list, text string) bool {
	if list == "" {
		return true
	}
	for one := range strings.FieldsSeq(list) {
		begin, isClass := strings.CutSuffix(one, "xx")
		switch {
		case one == text, one == "-" && text == "":
			return true
		case (isClass || strings.HasSuffix(one, ".")) && strings.HasPrefix(text, begin):
			return true
		}
	}
	return false
}
