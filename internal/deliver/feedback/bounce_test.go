package feedback_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/base/fault"
	"sendcode/internal/codes/keys"
	"sendcode/internal/deliver/bounce"
	"sendcode/internal/deliver/delivery"
	"sendcode/internal/deliver/feedback"
	"sendcode/internal/store"
	"sendcode/internal/store/sqlite/sqlitetest"
	"sendcode/internal/verify/support"
	vtest "sendcode/internal/verify/verification/verificationtest"
)

// returned is our mail as servers return it. {id} stands for its Message-ID, {to} for its
// recipient, and {code} for its code.
const returned = `Return-Path: <codes@shop.example>
Message-ID: <{id}>
References: <thread-{id}>
X-Entity-Ref-ID: {id}
To: <{to}>
Subject: Your code

Your code is {code}, or {code.halves}.
`

// report returns a report of several parts. text is the part with the server's own text.
func report(head, text, status, original string) string {
	return "From: MAILER-DAEMON@mx.example\nAuto-Submitted: auto-replied\nMIME-Version: 1.0\n" + head +
		"Content-Type: multipart/report; report-type=delivery-status; boundary=\"b/1\"\n\n--b/1\n" + text +
		"\n--b/1\nContent-Type: message/delivery-status\n\n" + status + "\n--b/1\n" + original + "\n--b/1--\n"
}

// writers has functions that write a report as different servers do. words is the reply of the
// server that refused the mail.
var writers = map[string]func(action, status, words string) string{
	"Postfix": func(action, status, words string) string {
		return report("", "Content-Description: Notification\nContent-Type: text/plain; charset=us-ascii\n\nI'm sorry: <{to}>: "+words+"\n",
			"Reporting-MTA: dns; mail.shop.example\nX-Postfix-Queue-ID: 4F00\nX-Postfix-Sender: rfc822; codes@shop.example\n\n"+
				"Final-Recipient: rfc822; {to}\nOriginal-Recipient: rfc822;{to}\nAction: "+action+"\nStatus: "+status+
				"\nDiagnostic-Code: smtp; "+words+"\n", "Content-Type: message/rfc822\n\n"+returned)
	},
	"sendmail": func(action, status, words string) string {
		return report("", "\n   ----- The following addresses had permanent fatal errors -----\n<{to}>\n    (reason: "+words+")\n",
			"Reporting-MTA: dns; mail.shop.example\nReceived-From-MTA: DNS; localhost\n\nFinal-Recipient: RFC822; <{to}>\nAction: "+action+
				"\nStatus: "+status+"\nRemote-MTA: DNS; mx.example.com\nDiagnostic-Code: SMTP; "+words+"\n",
			"Content-Type: text/rfc822-headers\n\n"+returned)
	},
	"Exchange": func(action, status, words string) string {
		return report("X-MS-Exchange-Message-Is-Ndr:\nIn-Reply-To: <{id}>\nReferences: <{id}>\n",
			"Content-Type: multipart/alternative; boundary=b2\n\n--b2\nContent-Type: text/html; charset=\"iso-2022-xx\"\n\n<p>550 5.7.1 {code}</p>\n--b2--\n",
			"Reporting-MTA: dns;AM0.eurprd.outlook.example\n\nFinal-Recipient: rfc822;{to}\nAction: "+action+"\nStatus: "+status+
				"\nDiagnostic-Code: smtp;"+words+"\nX-Display-Name: {to}\n", "Content-Type: text/plain\n\nnothing is returned")
	},
	"Gmail": func(action, status, words string) string {
		return report("X-Failed-Recipients: {to}\nIn-Reply-To: <{id}>\n",
			"Content-Type: multipart/related; boundary=b2\n\n--b2\nContent-Type: image/png\nContent-Transfer-Encoding: base64\n\niVBORw0KGgo=\n--b2--\n",
			"Reporting-MTA: dns; googlemail.com\nX-Original-Message-ID: <{id}>\n\nFinal-Recipient: rfc822; {to}\nAction: "+action+
				"\nStatus: "+status+"\nDiagnostic-Code: smtp; "+words+"\n", "Content-Type: message/rfc822\n\nSubject: Your code\n")
	},
	// This relay sets a Message-ID of its own, and its Status has only the first digit of the code.
	"Exim": func(action, status, words string) string {
		return report("X-Failed-Recipients: {to}\n",
			"Content-type: text/plain\n\nThis message was created automatically.\n\n  {to}\n    "+words+"\n",
			"Reporting-MTA: dns; mx.example\n\nAction: "+action+"\nFinal-Recipient: rfc822;{to}\nStatus: "+status[:1]+
				".0.0\nRemote-MTA: dns; mx.example.com\nDiagnostic-Code: smtp; "+words+"\n",
			"Content-type: message/rfc822\n\n"+strings.Replace(returned, "Message-ID: <{id}>", "Message-ID: <1abc@relay.example>", 1))
	},
}

// qmail returns a bounce mail as qmail writes it. bounceWithoutReport returns a bounce mail as Exim
// or Gmail writes it, without a report.
func qmail(why string) string {
	return "From: MAILER-DAEMON@mx.example\nSubject: failure notice\n\nHi. This is the qmail-send program at mx.example.\n" +
		"I'm afraid I wasn't able to deliver your message to the following addresses.\nThis is a permanent error; I've given up.\n\n<{to}>:\n" +
		why + "\n\n--- Below this line is a copy of the message.\n\n" + returned
}

func bounceWithoutReport(opening, why, line string) string {
	return "From: Mail Delivery System <mailer-daemon@mx.example>\r\nX-Failed-Recipients: {to}\r\nAuto-Submitted: auto-replied\r\n\r\n" +
		strings.ReplaceAll(opening+"\n\n  {to}\n    "+why+"\n\n"+line+"\n\n"+returned, "\n", "\r\n")
}

const (
	eximOpening = "A message that you sent could not be delivered to one or more of its recipients. This is a permanent error. The following address(es) failed:"
	eximLine    = "------ This is a copy of the message, including all the headers. ------"
	gmailLine   = "----- Original message -----"
	gmailWhy    = "Technical details of permanent failure:\nGoogle tried to deliver your message, but it was rejected by the server for the recipient domain example.com by mx.example.com.\n\nThe error that the other server returned was:\n"
)

// within nests a mail in n other mails, as a part of each.
func within(n int, mail string) string {
	for n := range n {
		mail = fmt.Sprintf("In-Reply-To: <{id}>\nContent-Type: multipart/mixed; boundary=m%[1]d\n\n--m%[1]d\n%s\n--m%[1]d--\n", n, mail)
	}
	return mail
}

// bounceCase is a mail and the expected result.
type bounceCase struct {
	mail     string
	want     feedback.IngestResult
	suppress bool
	detail   string
}

func bounceMails() map[string]bounceCase {
	all := map[string]bounceCase{
		"qmail, no mailbox": {qmail("Sorry, no mailbox here by that name. (#5.1.1)"), "bounced", true, "5.1.1"},
		"qmail, refused with a code": {
			qmail("192.0.2.1 does not like recipient.\nRemote host said: 550 5.1.1 User unknown\nGiving up on 192.0.2.1."), "bounced", true,
			"550 5.1.1",
		},
		"qmail, refused in words": {
			qmail(
				"192.0.2.1 does not like recipient.\nRemote host said: 550 no such user here\nGiving up on 192.0.2.1."), "bounced", true,
			"550",
		},
		"qmail, full": {qmail("Remote host said: 552 mailbox is full"), "bounced", false, "552"},
		"qmail, gave up": {qmail(
			"Sorry, I wasn't able to establish an SMTP connection. (#4.4.1)\nI'm not going to try again; this message has been in the queue too long."), "bounced", false, "4.4.1"},
		"Exim without a report": {
			bounceWithoutReport(eximOpening,
				"SMTP error from remote mail server after RCPT TO:<{to}>:\n    550 5.1.1 <{to}>: user unknown", eximLine), "bounced", true,
			"550 5.1.1",
		},
		"Exim, unrouteable": {bounceWithoutReport(eximOpening, "Unrouteable address", eximLine), "bounced", true, ""},
		"Exim, a policy": {
			bounceWithoutReport(eximOpening, "host mx.example.com: 550 5.7.1 Message rejected by policy", eximLine), "bounced",
			false, "550 5.7.1",
		},
		"Exim, retry timeout": {bounceWithoutReport(eximOpening, "retry timeout exceeded", eximLine), "bounced", false, ""},
		"Gmail of old": {bounceWithoutReport("Delivery to the following recipient failed permanently:",
			gmailWhy+"550 5.1.1 <{to}>: Recipient address rejected: User unknown", gmailLine), "bounced", true, "550 5.1.1"},
		"Gmail of old, full": {bounceWithoutReport("Delivery to the following recipient failed permanently:", gmailWhy+"552 5.2.2 over quota",
			gmailLine), "bounced", false, "552 5.2.2"},
		"Gmail of old, delayed": {bounceWithoutReport("THIS IS A WARNING MESSAGE ONLY.\n\nDelivery to the following recipient has been delayed:",
			"Message will be retried for 2 more day(s)", gmailLine), "delayed", false, ""},
		"forwarded": {strings.Replace(writers["Postfix"]("failed", "5.1.1", "550 5.1.1 User unknown"), "Final-Recipient: rfc822; {to}",
			"Final-Recipient: rfc822; elsewhere@example.net", 1), "bounced", false, "550 5.1.1"},
		"two recipients": {
			strings.Replace(writers["Postfix"]("failed", "5.1.1", "550 5.1.1 User unknown"), "\nFinal-Recipient",
				"\nFinal-Recipient: rfc822; other@example.com\nAction: failed\nStatus: 5.2.2\n\nFinal-Recipient", 1), "bounced", true,
			"550 5.1.1",
		},
		"a pipe's first line": {"From MAILER-DAEMON Fri Nov 27 10:00:00 2026\n" +
			qmail("Sorry, no mailbox here by that name. (#5.1.1)"), "bounced", true, "5.1.1"},
		"a status beyond ASCII": {strings.Replace(writers["Gmail"]("failed", "5.1.1", "550 5.1.1 x"), "message/delivery-status\n\n",
			"message/global-delivery-status\n\n", 1), "bounced", true, "550 5.1.1"},
		"a status alone": {
			strings.Replace(writers["Exchange"]("failed", "5.1.10", "550 5.1.10 RESOLVER.ADR.RecipientNotFound; not found"),
				"multipart/report", "multipart/mixed", 1), "bounced", true, "550 5.1.10",
		},
		"refused for now, in words": {writers["Postfix"]("failed", "5.1.1", "451 4.7.1 User unknown"), "bounced", false, "451 5.1.1"},
		"no status":                 {writers["Postfix"]("failed", "", "550 User unknown"), "bounced", true, "550"},
		"no other recipient": {
			strings.ReplaceAll(writers["Postfix"]("failed", "5.1.1", "550 5.1.1 User unknown"), "{to}", "bo@example.com"),
			feedback.OtherRecipient, false, "",
		},
		"no recipient": {
			strings.ReplaceAll(writers["Postfix"]("failed", "5.1.1", "550 5.1.1 User unknown"), "{to}", ""),
			feedback.OtherRecipient, false, "",
		},
		"made of a 202": {
			strings.ReplaceAll(writers["Postfix"]("failed", "5.1.1", "550 5.1.1 User unknown"), "{id}", "{send}@shop.example"),
			feedback.UnknownMessage, false, "",
		},
		"a forged HMAC": {strings.ReplaceAll(writers["Postfix"]("failed", "5.1.1", "550 5.1.1 User unknown"), "{id}",
			"{send}.0123456789abcdef0123@shop.example"), feedback.UnknownMessage, false, ""},
		"another send's HMAC": {
			strings.ReplaceAll(writers["Exchange"]("failed", "5.1.1", "550 5.1.1 User unknown"), "{id}", "{send}.{other}@shop.example"),
			feedback.UnknownMessage, false, "",
		},
		"its text alone has the ID": {
			report("", "\n<{id}>\n", "Final-Recipient: rfc822; {to}\nAction: failed\nStatus: 5.1.1\n",
				"Content-Type: text/plain\n\n<{id}>"), feedback.UnknownMessage, false, "",
		},
		"a vacation": {"Subject: Out of office\nAuto-Submitted: auto-replied\nIn-Reply-To: <{id}>\n\nI am away. This mailbox is no longer valid: 550 5.1.1\n\n-- \n" + returned, feedback.Unrecorded, false, ""},
		"a reply": {
			"From: {to}\nIn-Reply-To: <{id}>\nContent-Type: text/plain\n\nHi. This is not mine: <{to}>: no such user\n\n--\n",
			feedback.Unrecorded, false, "",
		},
		"a read receipt": {strings.NewReplacer("delivery-status",
			"disposition-notification").Replace(writers["Postfix"]("failed", "5.1.1", "550 5.1.1")), feedback.Unrecorded, false, ""},
		"a complaint": {strings.NewReplacer("message/delivery-status", "message/feedback-report", "delivery-status",
			"feedback-report").Replace(writers["Postfix"]("failed", "5.1.1", "x")), feedback.Unrecorded, false, ""},
		"a returned report": {"Content-Type: multipart/mixed; boundary=m\n\n--m\nContent-Type: message/rfc822\n\n" +
			writers["Gmail"]("failed", "5.1.1", "550 5.1.1 x") + "\n--m--\n", feedback.Unrecorded, false, ""},
		"in other parts": {within(2, writers["Gmail"]("failed", "5.1.1", "550 5.1.1 x")), "bounced", true, "550 5.1.1"},
		"too deep":       {within(3, writers["Gmail"]("failed", "5.1.1", "550 5.1.1 x")), feedback.Unrecorded, false, ""},
		"too many parts": {
			"In-Reply-To: <{id}>\nContent-Type: multipart/mixed; boundary=m\n" + strings.Repeat("\n--m\n\nx", 19) +
				"\n--m\nContent-Type: message/delivery-status\n\nFinal-Recipient: rfc822; {to}\nAction: failed\nStatus: 5.1.1\n",
			feedback.Unrecorded, false, "",
		},
		"too long a header": {
			"X: " + strings.Repeat("x", 64<<10) + "\n" + writers["Gmail"]("failed", "5.1.1", "550 5.1.1 x"),
			feedback.Unrecorded, false, "",
		},
		"a part's header too long": {
			strings.Replace(writers["Gmail"]("failed", "5.1.1", "550 5.1.1 x"),
				"Content-Type: message/delivery-status", "X: "+strings.Repeat("x", 64<<10)+"\nContent-Type: message/delivery-status", 1),
			feedback.Unrecorded, false, "",
		},
		"spam":    {"Subject: Buy\n\n{to}", feedback.Unrecorded, false, ""},
		"nothing": {"", feedback.Unrecorded, false, ""},
	}
	for name, write := range writers {
		for what, c := range map[string]bounceCase{
			"unknown": {
				write("failed", "5.1.1", "550 5.1.1 <{to}>: Recipient address rejected: User unknown"), "bounced", true,
				"550 5.1.1",
			},
			"full":      {write("failed", "5.2.2", "552 5.2.2 The mailbox is full"), "bounced", false, "552 5.2.2"},
			"policy":    {write("failed", "5.7.1", "550 5.7.1 Message rejected by policy: {code}"), "bounced", false, "550 5.7.1"},
			"spam":      {write("failed", "5.1.1", "550 5.1.1 blocked: your IP is listed"), "bounced", false, "550 5.1.1"},
			"expired":   {write("failed", "4.4.7", "451 4.4.7 no answer from host"), "bounced", false, "451 4.4.7"},
			"delayed":   {write("delayed", "4.4.1", "451 4.4.1 connection timed out"), "delayed", false, "451 4.4.1"},
			"relayed":   {write("relayed", "2.0.0", "250 2.0.0 ok"), feedback.Unrecorded, false, ""},
			"expanded":  {write("expanded", "2.0.0", "x"), feedback.Unrecorded, false, ""},
			"delivered": {write("delivered", "2.0.0", "250 2.0.0 ok"), feedback.Unrecorded, false, ""},
		} {
			all[name+", "+what] = c
		}
	}
	return all
}

// fillIn replaces the placeholders in a mail by the values of m. other is the HMAC of another send.
func fillIn(mail string, m delivery.Mail, other string) string {
	send, _, _ := strings.Cut(m.MessageID, ".")
	code := vtest.CodeIn(m)
	return strings.NewReplacer("{id}", m.MessageID, "{to}", m.To, "{send}", send, "{other}", other, "{code}", code,
		"{code.halves}", code[:3]+" "+code[3:]).Replace(mail)
}

// Each mail gives the right result, and counts only once. The code in a mail is neither stored nor
// logged.
func TestIngestMail(t *testing.T) {
	vtest.InBubbleWith(t, vtest.SuppressBounces, func(r *vtest.Rig) {
		r.SendTo("first@example.com")
		_, other, _ := strings.Cut(strings.TrimSuffix(r.MailServer.Attempts()[0].MessageID, "@shop.example"), ".")
		n := 0
		for name, c := range bounceMails() {
			n++
			send := r.SendID(fmt.Sprintf("Person.%d@example.com", n))
			sent := r.MailServer.Attempts()[n]
			mail := []byte(fillIn(c.mail, sent, other))
			ingest := func(want feedback.IngestResult) {
				got, err := r.Svc.ProviderEvents.IngestMail(r.Context(), "postfix", mail)
				vtest.Equal(r, name, got, want)
				r.NoError(err)
			}
			ingest(c.want)
			details, err := r.Store.SendDetails(r.Context(), send)
			r.NoError(err)
			if c.want != "bounced" && c.want != "delayed" {
				vtest.Equal(r, name+": events", len(details.Events), 0)
				vtest.Equal(r, name+": suppressions", len(details.Suppressions), 0)
				continue
			}
			ingest(feedback.Repeated)
			r.Want(name+": events", len(details.Events), 1)
			vtest.Equal(r, name+": Kind", details.Events[0].Kind, store.ProviderEventKind(c.want))
			vtest.Equal(r, name+": Detail", details.Events[0].Detail, c.detail)
			vtest.Equal(r, name+": suppressed", len(details.Suppressions) == 1, c.suppress)
			vtest.Equal(r, name+": Bounced", details.Send.Bounced, c.suppress)
			code := vtest.CodeIn(sent)
			kept := details.Events[0].Detail
			for _, s := range details.Suppressions {
				kept += " " + s.Detail + " " + s.Words // separated, so that two texts together don't form a part of the code
			}
			for _, part := range []string{code, code[:3], code[3:]} {
				if strings.Contains(kept, part) && !strings.Contains(c.detail, part) {
					r.Errorf("%s: the code is in %q", name, kept)
				}
			}
		}
		r.NoSecretLogged()
	})
}

// A missing mailbox suppresses the recipient even after a bounce of the full mailbox, or of another
// mailbox. If the suppression was lifted and the same refusal comes again, nothing happens.
func TestIngestMailAfterAnotherBounce(t *testing.T) {
	vtest.InBubbleWith(t, vtest.SuppressBounces, func(r *vtest.Rig) {
		send := r.SendID(vtest.Ana)
		ingest := func(mail string, bounced bool, suppressions int) {
			r.NoError(vtest.Err(r.Svc.ProviderEvents.IngestMail(r.Context(), "postfix",
				[]byte(fillIn(mail, r.MailServer.Attempts()[0], "")))))
			details, err := r.Store.SendDetails(r.Context(), send)
			r.NoError(err)
			vtest.Equal(r, "bounced for good", details.Send.Bounced, bounced)
			vtest.Equal(r, "events", len(details.Events), 1)
			vtest.Equal(r, "suppressions", len(details.Suppressions), suppressions)
		}
		unknown := writers["Postfix"]("failed", "5.1.1", "550 5.1.1 User unknown")
		ingest(writers["Postfix"]("failed", "5.2.2", "552 5.2.2 The mailbox is full"), false, 0)
		ingest(bounceMails()["forwarded"].mail, false, 0)
		ingest(unknown, true, 1)
		r.NoError(vtest.Err(r.Svc.Administration.LiftSuppressions(r.Context(), support.LiftSuppressionsRequest{
			Channel: "email", To: vtest.Ana, Reason: "mended",
		}, vtest.AuditEntry("suppression.lift"))))
		ingest(unknown, true, 1)
		r.Want("lifted", r.Suppressions()[0].LiftedAt.IsZero(), false)
	})
}

// If a code was entered, a bounce of its mail stops no further codes, because the mail must have
// arrived. It does not matter whether an event or a bounce mail reports the bounce, or whether the
// report comes before or after the code is entered.
func TestIngestABounceAfterAnEnteredCode(t *testing.T) {
	for name, bounces := range map[string]func(r *vtest.Rig, send uuid.UUID){
		"a provider's event": func(r *vtest.Rig, send uuid.UUID) {
			r.Ingest("bounced", feedback.Event{Send: send, Meaning: feedback.BouncedForGood})
		},
		"a bounce mail": func(r *vtest.Rig, _ uuid.UUID) {
			r.NoError(vtest.Err(r.Svc.ProviderEvents.IngestMail(r.Context(), "postfix",
				[]byte(fillIn(writers["Exim"]("failed", "5.1.1", "550 5.1.1 User unknown"), r.MailServer.Attempts()[0], "")))))
		},
	} {
		for _, first := range []bool{true, false} {
			vtest.InBubbleWith(t, vtest.SuppressBounces, func(r *vtest.Rig) {
				a := r.SendTo(vtest.Ana)
				if first {
					bounces(r, uuid.MustParse(a.View.Send.ID))
					r.Want(name+": suppressed", r.Suppressions()[0].LiftedAt.IsZero(), true)
				}
				r.WantApproved(a.View.ID, r.LastCode())
				if !first {
					bounces(r, uuid.MustParse(a.View.Send.ID))
				}
				r.Want(name+": lifted at once", slices.ContainsFunc(r.Suppressions(),
					func(s store.Suppression) bool { return s.LiftedAt.IsZero() }), false)
				r.Sleep(2 * time.Minute)
				r.WantStatus(r.SendTo(vtest.Ana), "sent")
			})
		}
	}
}

// While the database is unavailable, no report counts as recorded. A bounce mail after the approval
// is ignored, and after an erasure, a bounce mail no longer counts as one about the recipient.
func TestIngestMailThatDoesNotCount(t *testing.T) {
	vtest.InBubbleWith(t, vtest.SuppressBounces, func(r *vtest.Rig) {
		a := r.SendTo(vtest.Ana)
		mail := []byte(fillIn(qmail("Sorry, no mailbox here by that name. (#5.1.1)"), r.MailServer.Attempts()[0], ""))
		ingest := func() feedback.IngestResult {
			got, err := r.Svc.ProviderEvents.IngestMail(r.Context(), "postfix", mail)
			r.NoError(err)
			return got
		}
		for _, method := range []string{"SendDetails", "IngestProviderEvent"} {
			r.FailStore(sqlitetest.Down, method)
			r.WantError(vtest.Err(r.Svc.ProviderEvents.IngestMail(r.Context(), "postfix", mail)), fault.Unavailable)
		}
		r.EndStoreFaults()
		r.WantApproved(a.View.ID, r.LastCode())
		r.Want("after the approval", ingest(), "ignored")
		r.NoError(r.Svc.Administration.EraseRecipient(r.Context(), r.AnaTarget(), vtest.AuditEntry("recipient.erase")))
		r.Want("after the erasure", ingest(), "other_recipient")
		r.Want("suppressions", len(r.Suppressions()), 0)
	})
}

// If a mail names thousands of recipients, bounce.Read returns at most 20, since each one costs a
// read of the database.
func TestBounceReadBoundsRecipients(t *testing.T) {
	many := strings.Repeat("ana@example.com,", 3000)
	blocks := strings.Repeat("Final-Recipient: rfc822; ana@example.com\r\nAction: failed\r\nStatus: 5.1.1\r\n\r\n", 600)
	paragraphs := strings.Repeat("<ana@example.com>:\nno mailbox\n\n", 1000)
	for name, mail := range map[string]string{
		"X-Failed-Recipients": "X-Failed-Recipients: " + many + "\r\nContent-Type: text/plain\r\n\r\nana@example.com\r\n------\r\n",
		"a delivery status":   "Content-Type: message/delivery-status\r\n\r\nReporting-MTA: dns; mx\r\n\r\n" + blocks,
		"qmail":               "Content-Type: text/plain\r\n\r\nHi. This is the program.\n\n" + paragraphs + "\n--- Below\n",
	} {
		if n := len(bounce.Read([]byte(mail)).Recipients); n == 0 || n > 20 {
			t.Errorf("%s: %d recipients", name, n)
		}
	}
}

// No mail causes a panic, or changes a send that it doesn't name with its HMAC.
func FuzzBounceMail(f *testing.F) {
	for _, name := range slices.Sorted(maps.Keys(bounceMails())) {
		f.Add([]byte(bounceMails()[name].mail))
	}
	ring, err := keys.Parse("k1:" + vtest.OldKey)
	if err != nil {
		f.Fatal(err)
	}
	events := feedback.ProviderEvents{Vault: keys.Vault{Ring: ring}}
	f.Fuzz(func(t *testing.T, mail []byte) {
		if got, err := events.IngestMail(t.Context(), "p", mail); got != feedback.Unrecorded && got != feedback.UnknownMessage ||
			err != nil {
			t.Errorf("%v, %v", got, err)
		}
	})
}
