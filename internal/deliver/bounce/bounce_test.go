package bounce

import (
	"encoding/base64"
	"reflect"
	"strings"
	"testing"
)

const plain = `From: MAILER-DAEMON@mx.example
MIME-Version: 1.0
Content-Type: multipart/report; report-type=delivery-status; boundary="b1"

--b1
Content-Type: text/plain

I could not deliver your mail.
--b1
Content-Type: message/delivery-status

Reporting-MTA: dns; mx.example

Final-Recipient: rfc822; ana@example.com
Action: failed
Status: 5.1.1
Diagnostic-Code: smtp; 550 No such user

--b1
Content-Type: message/rfc822

Return-Path: <codes@shop.example>
Message-ID: <abc@shop.example>
Subject: Your code

Your code is 123456.
--b1--
`

// The report is the same if fields have comments, which RFC 3464 section 2.1.1 allows in any field,
// if lines are no fields, or if a field is missing that another part of the mail replaces.
func TestReadSkipsOddLines(t *testing.T) {
	want := Read([]byte(plain))
	if len(want.Recipients) != 1 || want.Recipients[0].Status != "5.1.1" || len(want.MessageIDs) != 1 {
		t.Fatalf("%+v", want)
	}
	for name, change := range map[string][]string{
		"comment of an action":                    {"Action: failed", "Action: failed (Bad destination mailbox address)"},
		"comment before an action":                {"Action: failed", "Action: (permanent (really)) FAILED"},
		"action in a folded line":                 {"Action: failed", "Action:\n failed"},
		"blank before a colon":                    {"Action: failed", "Action : failed"},
		"no action":                               {"Action: failed\n", ""},
		"comment of a status":                     {"Status: 5.1.1", "Status: 5.1.1 (bad mailbox)"},
		"comment before a status":                 {"Status: 5.1.1", "Status: (bad mailbox)5.1.1"},
		"comment of a recipient":                  {"rfc822; ana@example.com", "rfc822; ana@example.com (Ana)"},
		"display name of a recipient":             {"rfc822; ana@example.com", "rfc822; Ana <ana@example.com>"},
		"recipient without a type":                {"rfc822; ana@example.com", "<ana@example.com>"},
		"line without a colon, first":             {"From: MAILER", "This is a line\nFrom: MAILER"},
		"line without a colon, middle":            {"MIME-Version", "ESMTP ready\nMIME-Version"},
		"line of a mailbox":                       {"From: MAILER", ">From codes@shop.example Fri Nov 28 10:00:00 2026\nFrom: MAILER"},
		"empty line first":                        {"From: MAILER", "\nFrom: MAILER"},
		"byte order mark":                         {"From: MAILER", "\ufeffFrom: MAILER"},
		"line in a part's header":                 {"Content-Type: message/delivery-status", "a line\nContent-Type: message/delivery-status"},
		"parameter that is none":                  {"Content-Type: message/delivery-status", "Content-Type: message/delivery-status; charset"},
		"line in a status, first":                 {"Reporting-MTA", "a line\nReporting-MTA"},
		"line in a status":                        {"Action: failed", "a line\nAction: failed"},
		"lines between the blocks":                {"mx.example\n\nFinal", "mx.example\n\n\n\nFinal"},
		"one block":                               {"mx.example\n\nFinal", "mx.example\nFinal"},
		"a comment in a status":                   {"Action: failed", "# the action\n(of the server)\n; failed\nAction: failed"},
		"an odd line with a colon":                {"Action: failed", "<<< 550 5.1.1: no such user\nAction: failed"},
		"an odd line and its fold":                {"Action: failed", "a line\n and its fold\nAction: failed"},
		"a blank line in a block":                 {"Action: failed", "\nAction: failed"},
		"a line of blanks in a block":             {"Action: failed", " \t\nAction: failed"},
		"blanks before a field":                   {"Action: failed\n", "Action: failed\n\n  \n"},
		"a comment that does not end":             {"Action: failed", "Action: failed (no such user"},
		"another word as action":                  {"Action: failed", "Action: undeliverable"},
		"a code before the status":                {"Status: 5.1.1", "Status: 550 5.1.1"},
		"a dot after the status":                  {"Status: 5.1.1", "Status: 5.1.1."},
		"a field twice":                           {"Status: 5.1.1", "Status: 5.1.1\nStatus: 4.0.0\n and more"},
		"a status in base64":                      {between(plain, "message/delivery-status\n", "--b1"), encoded(between(plain, "message/delivery-status\n", "--b1"))},
		"a returned mail in base64":               {between(plain, "message/rfc822\n", "--b1--"), encoded(between(plain, "message/rfc822\n", "--b1--"))},
		"no recipient, but a To":                  {"Final-Recipient: rfc822; ana@example.com\n", "", "Return-Path:", "To: Ana <ana@example.com>\nReturn-Path:"},
		"no recipient, but a field of the report": {"Final-Recipient: rfc822; ana@example.com\n", "", "From: MAILER", "X-Failed-Recipients: ana@example.com\nFrom: MAILER"},
		"line of a returned mailbox":              {"Return-Path:", ">From codes@shop.example Fri Nov 28 10:00:00 2026\nReturn-Path:"},
		"line in a returned header":               {"Message-ID:", "a line\nMessage-ID:"},
		"empty line before a returned":            {"Return-Path:", "\nReturn-Path:"},
		"no parts but the status":                 {"--b1\nContent-Type: text/plain\n\nI could not deliver your mail.\n", ""},
	} {
		mail := strings.Replace(plain, change[0], change[1], 1)
		if len(change) > 2 {
			mail = strings.Replace(mail, change[2], change[3], 1)
		}
		for _, mail := range []string{mail, strings.ReplaceAll(mail, "\n", "\r\n")} {
			if got := Read([]byte(mail)); mail == plain || !reflect.DeepEqual(got, want) {
				t.Errorf("%s: %+v", name, got)
			}
		}
	}
	for name, text := range map[string]string{
		"as qmail writes it":    "Hi. This is the qmail-send program at mx.example.\nI'm afraid.\n\n<ana@example.com>:\nSorry, no mailbox here by that name. (#5.1.1)\n\n",
		"empty lines first":     "\n \nHi. This is the qmail-send program at mx.example.\nI'm afraid.\n\n<ana@example.com>:\nSorry, no mailbox here by that name. (#5.1.1)\n\n",
		"blanks at lines' ends": "Hi. This is the qmail-send program at mx.example. \nI'm afraid. \n \n<ana@example.com>: \nSorry, no mailbox here by that name. (#5.1.1) \n\t\n",
		"lines moved in":        "  Hi. This is the qmail-send program at mx.example.\n  I'm afraid.\n\n  <ana@example.com>:\n  Sorry, no mailbox here by that name. (#5.1.1)\n\n",
	} {
		mail := "From: MAILER-DAEMON@mx.example\nSubject: failure notice\n\n" + text + "--- Below this line is a copy of the message.\n\n" +
			"Message-ID: <abc@shop.example>\n\nYour code is 123456.\n"
		got := Read([]byte(mail))
		if len(got.Recipients) != 1 || got.Recipients[0].Final != "ana@example.com" || !strings.HasPrefix(got.Recipients[0].Words, "Sorry, no mailbox") ||
			!reflect.DeepEqual(got.MessageIDs, []string{"abc"}) {
			t.Errorf("%s: %+v", name, got)
		}
	}
	empty := strings.NewReplacer("Final-Recipient: rfc822; ana@example.com\nAction: failed\nStatus: 5.1.1\n"+
		"Diagnostic-Code: smtp; 550 No such user\n", "", "From: MAILER", "X-Failed-Recipients: ana@example.com\nFrom: MAILER",
		"deliver your mail.", "deliver to ana@example.com: 550 No such user\n").Replace(plain)
	if got := Read([]byte(empty)); len(got.Recipients) != 1 || got.Recipients[0].Final != "ana@example.com" {
		t.Errorf("an empty status beside X-Failed-Recipients: %+v", got)
	}
	for name, change := range map[string][]string{
		"delivered": {"Action: failed\nStatus: 5.1.1", "Action: delivered\nStatus: 2.0.0"},
		"no words":  {"Action: failed\nStatus: 5.1.1\n", ""},
		"relayed":   {"Action: failed\nStatus: 5.1.1", "Action: relayed (failed later?)"},
	} {
		if got := Read([]byte(strings.Replace(plain, change[0], change[1], 1))); len(got.Recipients) != 0 {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// between returns the part of a text between the words first and last.
func between(text, first, last string) string {
	_, rest, _ := strings.Cut(text, first)
	inner, _, _ := strings.Cut(rest, last)
	return inner
}

// encoded returns the body of a part in base64, after a header field that says so. body begins with
// the empty line after the part's header.
func encoded(body string) string {
	return "Content-Transfer-Encoding: base64\n\n" + base64.StdEncoding.EncodeToString([]byte(strings.TrimPrefix(body, "\n"))) + "\n"
}
