package delivery_test

import (
	"testing"

	"sendcode/internal/delivery"
)

// Replies in the forms that mail servers use, with the stage at which these come. A 550 to RCPT is
// about the address, unless its code or its words name policy, or the sender.
func TestBadAddress(t *testing.T) {
	for _, c := range []struct {
		what, stage  string
		status       int
		code, text   string
		bad, mailbox bool // about the address; no such mailbox for good
	}{
		{"Gmail, no account", "rcpt", 550, "5.1.1", "The email account does not exist.", true, true},
		{"Gmail, disabled", "rcpt", 550, "5.2.1", "The email account is disabled.", true, false},
		{"Gmail, full", "rcpt", 552, "5.2.2", "The recipient's inbox is out of storage.", false, false},
		{"Gmail, unauthenticated", "dot", 550, "5.7.26", "This mail is unauthenticated.", false, false},
		{"Gmail, unsolicited", "dot", 550, "5.7.1", "likely unsolicited mail", false, false},
		{"Outlook.com, no mailbox", "rcpt", 550, "5.5.0", "Requested action not taken: mailbox unavailable",
			true, false},
		{"Outlook.com, on a block list", "mail", 550, "5.7.1", "messages from your IP are on our block list (S3140)",
			false, false},
		{"Exchange Online, not in the directory", "rcpt", 550, "5.4.1", "Recipient address rejected: Access denied.",
			true, false},
		{"Exchange Online, not found", "dot", 550, "5.1.10", "RESOLVER.ADR.RecipientNotFound; not found", true, true},
		{"Exchange, restricted", "dot", 550, "5.7.133", "sender not authenticated for group", false, false},
		{"Exchange, restricted, at RCPT", "rcpt", 550, "5.7.1", "client was not authenticated", false, false},
		{"Postfix, unknown", "rcpt", 550, "5.1.1", "Recipient address rejected: User unknown in local recipient table",
			true, true},
		{"Postfix, client", "rcpt", 554, "5.7.1", "Client host rejected: cannot find your hostname", false, false},
		{"Postfix, sender's domain", "rcpt", 550, "5.1.8", "Sender address rejected: Domain not found", false, false},
		{"Postfix, sender unknown", "rcpt", 550, "5.1.7", "Sender address rejected: undeliverable address",
			false, false},
		{"Postfix, relay", "rcpt", 554, "5.7.1", "Relay access denied", false, false},
		{"Postfix, a service of policy", "rcpt", 550, "5.7.23", "SPF check failed", false, false},
		{"Exim, unrouteable", "rcpt", 550, "", "Unrouteable address", true, false},
		{"Exim, no such user", "rcpt", 550, "", "No such user here", true, false},
		{"Exim, unknown", "rcpt", 550, "", "Unknown user", true, false},
		{"Exim, relay", "rcpt", 550, "", "relay not permitted", false, false},
		{"Exim, prohibited", "rcpt", 550, "", "Administrative prohibition", false, false},
		{"Exim, callback", "rcpt", 550, "", "Verification failed … Sender verify failed", false, false},
		{"Exim, a list", "rcpt", 550, "", "rejected because … is in a blacklist at zen.spamhaus.org", false, false},
		{"Exim, a list of its own", "rcpt", 550, "", "found in dnsbl.example.org", false, false},
		{"Exim, content", "dot", 550, "", "This message contains malware", false, false},
		{"Exim, HELO", "rcpt", 550, "", "Access denied: invalid HELO name", false, false},
		{"in capitals", "rcpt", 550, "", "MAILBOX UNAVAILABLE", true, false},
		{"in capitals, policy", "rcpt", 550, "", "LOCAL POLICY", false, false},
		{"with a mark", "rcpt", 550, "", "(Spam)", false, false},
		{"a URL of a list", "rcpt", 550, "", "see https://www.spamhaus.org/sbl", false, false},
		{"a host", "rcpt", 550, "", "no such user at mx.example.org", true, false},
		{"without words", "rcpt", 550, "", "", true, false},
		{"an undefined code", "rcpt", 550, "5.0.0", "", true, false},
		{"an undefined code, policy", "rcpt", 550, "5.0.0", "blocked", false, false},
		{"the protocol", "rcpt", 550, "5.5.1", "", false, false},
		{"another route", "rcpt", 550, "5.4.4", "", false, false},
		{"the system", "rcpt", 550, "5.3.0", "", false, false},
		{"bare, at MAIL", "mail", 550, "", "mailbox unavailable", false, false},
		{"bare, at DATA", "data", 550, "", "mailbox unavailable", false, false},
		{"bare, after the dot", "dot", 550, "", "mailbox unavailable", false, false},
		{"bare, at the greeting", "hello", 550, "", "", false, false},
		{"a bare 554", "rcpt", 554, "", "no such user", false, false},
		{"a bare 553, as of a server that does not relay", "rcpt", 553, "", "not in my list", false, false},
	} {
		e := &delivery.Error{Class: delivery.Rejected, Stage: c.stage, Status: c.status, Code: c.code, Text: c.text}
		if e.BadAddress() != c.bad || e.NoMailbox() != c.mailbox {
			t.Errorf("%s: %v is about the address %v, no mailbox %v", c.what, e, e.BadAddress(), e.NoMailbox())
		}
		e.Class = delivery.Temporary
		if e.BadAddress() || e.NoMailbox() {
			t.Errorf("%s, but for now: %v", c.what, e)
		}
	}
	if e := (&delivery.Error{Class: delivery.Rejected, Stage: "answer", Status: 400,
		BadNumber: true}); !e.BadAddress() {
		t.Error("a carrier's word for a bad number is about the address")
	}
}

// Of the words by which policy is known none is lost before they are looked for.
func TestWordsOfPolicyAreKept(t *testing.T) {
	for word := range delivery.PolicyWords {
		if got := delivery.RedactReply(word, delivery.PrivateData{}); got != word {
			t.Errorf("of %q a reply keeps %q", word, got)
		}
	}
}
