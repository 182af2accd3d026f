package delivery

import (
	"slices"
	"strconv"
	"strings"
)

// replyRow matches the replies of a mail server by four lists, whose elements are separated by
// blanks. An empty list matches every reply.
type replyRow struct {
	stages   string
	statuses string // "4xx" matches every status that begins with 4; "0" means that there was no readable reply
	codes    string // enhanced status codes (RFC 3463); "4.7." matches all codes that begin with it; "-" means no code
	meanings string // Meanings; "-": NoMeaning
	class    ErrorClass
	about    About
	marks    marks
}

// marks are the fields of an Error that are true for a row.
type marks int

const (
	crowded        marks = 1 << iota // Error.Crowded
	connectionEnds                   // Error.ConnectionEnds
	elsewhere                        // Error.Elsewhere
)

const (
	beforeMail = StageDial + " " + StageTLS + " " + StageHello + " " + StageAuth
	fromRcpt   = StageRcpt + " " + StageData + " " + StageBody + " " + StageDot
)

// These are enhanced status codes of final refusals.
const (
	// noMailboxCodes mean that the mailbox or its domain doesn't exist, the address is malformed,
	// the mailbox has moved, or the domain takes no mail (RFC 7505). Other codes 5.1.x are about
	// the sender or a relay, or have no fixed meaning, such as 5.1.0, and 5.1.90, which Exchange
	// Online sends when the sender's daily limit is reached.
	noMailboxCodes = "5.1.1 5.1.2 5.1.3 5.1.6 5.1.10"
	// vagueCodes say no more than the reply's status. "-" means no code. Outlook.com sends 5.5.0
	// for any unavailable mailbox.
	vagueCodes = "- 5.0.0 5.5.0"
	// closedCodes say that a mailbox is disabled. From Exchange Online, they may also say that the
	// domain's directory lacks the address.
	closedCodes = "5.2.1 5.4.1"
)

// replies are searched for the first row that matches.
var replies = []replyRow{
	// After the final dot, a reply is missing or doesn't fit. So the server may have accepted the
	// mail (RFC 1047). It counts as AboutMessage, because the mail's content may be the cause.
	{StageDot, "0 2xx 3xx", "", "", Unknown, AboutMessage, connectionEnds},
	// In a greeting, a status 2xx or 3xx that can't be used, or no readable reply, comes from a web
	// server or from TLS. Later, such a reply doesn't fit the command, which is a fault of the
	// server. Neither is about the mail, so another server gets the mail.
	{"", "0 2xx 3xx", "", "", Temporary, AboutServer, connectionEnds},

	// The server closes the connection (RFC 5321 section 3.8).
	{"", "421", "", "", Temporary, AboutConnection, crowded | connectionEnds},
	// TLS not available (RFC 3207); the login cannot be checked now (RFC 4954).
	{StageTLS + " " + StageAuth, "454", "", "", Temporary, AboutAccount, 0},
	// By RFC 3463 section 3.4, this code says that the server accepts nothing over the network at
	// present. But Postfix and Exchange send it to refuse only this one connection.
	{"", "4xx", "4.3.2", "", Temporary, AboutConnection, crowded},
	// At the login, 432 means that the password must be changed (RFC 4954 section 6). Later it is
	// Microsoft's limit of three mails at once.
	{StageAuth, "432", "", "", Temporary, AboutAccount, 0},
	{"", "432", "", "", Temporary, AboutConnection, crowded},

	// A 4xx reply to the connection or to EHLO counts as a sign of too much load, because no other
	// reason is known yet.
	{StageHello, "4xx", "", "", Temporary, AboutServer, crowded},
	// Amazon throttles with 454 without an enhanced code. Postfix denies relaying to a domain with
	// 454 4.7.1, which a later row matches.
	{StageMail + " " + fromRcpt, "454", "-", "", Temporary, AboutPace, crowded},
	// Before RCPT, 452 and 454 mean too little storage or too many mails, and 4.7.x is a policy
	// such as a rate limit (RFC 3463 section 3.8).
	{beforeMail + " " + StageMail, "452 454", "", "", Temporary, AboutAccount, crowded},
	{beforeMail + " " + StageMail, "4xx", "4.7.", "", Temporary, AboutAccount, crowded},
	// The server has a fault, for example of its disk, or cannot look up the sender.
	{beforeMail + " " + StageMail, "4xx", "", "", Temporary, AboutServer, 0},
	// The server wants no mail from this service (for a greeting, see RFC 7504). Another server may
	// accept the mail.
	{beforeMail, "5xx", "", "", Temporary, AboutAccount, 0},

	// The server refuses the login or its encryption (RFC 4954 section 6). A login is valid only on
	// its own connection, so the next connection logs in again.
	{"", "530 534 535 538", "", "", Temporary, AboutAccount, connectionEnds},
	// "Bad sequence of commands" (RFC 5321 section 4.3.2): earlier commands on this connection are
	// the cause, even if the code or the words say something about a mailbox.
	{StageMail + " " + StageRcpt + " " + StageData, "503", "", "", Rejected, AboutConnection, 0},
	// Mailtrap answers 550 5.7.0 at DATA if mails come too fast, although the code means "for
	// good".
	{fromRcpt, "5xx", "", string(TooFast), Temporary, AboutPace, crowded},
	// MAIL names no recipient, so the server refuses because of the sender: the sender may not use
	// this server, or its address counts as malformed. Another server may accept the mail.
	{StageMail, "5xx", "", "", Rejected, AboutSender, elsewhere},
	// The server refuses the sender after MAIL (RFC 3463 section 3.2; 5.7.60 and 5.2.252 of
	// Exchange). Postfix refuses the sender at RCPT, Exchange after the final dot.
	{fromRcpt, "5xx", "5.1.7 5.1.8 5.7.60 5.2.252", "", Rejected, AboutSender, elsewhere},
	{fromRcpt, "5xx", "", string(RefusedSender), Rejected, AboutSender, elsewhere},

	// From RCPT on, most replies are about the recipient or the mail. 430 4.2.0 is an exception:
	// Exchange can't open the sender's mailbox on this host now, because a permission is missing or
	// new.
	{fromRcpt, "430", "4.2.0", "", Temporary, AboutAccount, connectionEnds},
	// A full, closed or unknown mailbox (RFC 3463 sections 3.2 and 3.3) says nothing about our
	// load. An example is Gmail's 452 4.2.2.
	{fromRcpt, "4xx", "4.1. 4.2.", "", Temporary, AboutRecipient, 0},
	{fromRcpt, "452 454", "", "", Temporary, AboutRecipient, crowded},
	{fromRcpt, "4xx", "4.7.", "", Temporary, AboutRecipient, crowded}, // Postfix: "too many recipients"; also greylisting
	{fromRcpt, "4xx", "", "", Temporary, AboutRecipient, 0},
	// A code for a missing mailbox is believed only if the words name no other reason. With a vague
	// code, the words must say that the mailbox is missing.
	{fromRcpt, "5xx", noMailboxCodes, "- missing", Rejected, AboutMailbox, 0},
	{fromRcpt, "5xx", vagueCodes, "missing", Rejected, AboutMailbox, 0},
	// At RCPT, 550 means "Mailbox unavailable" (RFC 5321 section 4.2.3), if no code or words name
	// another reason. Later, it is about us or the mail.
	{StageRcpt, "550", vagueCodes + " " + closedCodes, "- missing", Rejected, AboutAddress, 0},
	{"", "5xx", "", "", Rejected, AboutMessage, 0},
	{"", "", "", "", Temporary, AboutServer, 0},
}

// ErrorByReply returns the error for a reply at a stage of the SMTP dialogue. status is 0 if there
// was no readable reply.
func ErrorByReply(stage string, status int, code string, meaning Meaning) *Error {
	row := rowOfReply(stage, status, code, meaning)
	return &Error{
		Class: row.class, Stage: stage, Status: status, Code: code, About: row.about,
		Crowded: row.marks&crowded != 0, ConnectionEnds: row.marks&connectionEnds != 0, Elsewhere: row.marks&elsewhere != 0,
	}
}

func rowOfReply(stage string, status int, code string, meaning Meaning) replyRow {
	return replies[slices.IndexFunc(replies, func(r replyRow) bool {
		return fits(r.stages, stage) && fits(r.statuses, strconv.Itoa(status)) && fits(r.codes, code) && fits(r.meanings, string(meaning))
	})]
}

// SaysNoMailbox reports whether a final refusal means that the mailbox doesn't exist. Its stage and
// status don't count, because the refusal may come from another server.
func SaysNoMailbox(code string, meaning Meaning) bool {
	return rowOfReply(StageDot, 550, code, meaning).about == AboutMailbox
}

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
