package delivery

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"sendcode/internal/kit/servertest"
)

var replyPrivate = PrivateData{
	To: "Ana.Maria+News@example.org", Content: "Your code is S3140, 493817. K7M3QX",
	Login: []string{"relay-user", "correct horse/battery"},
}

// Replies in the words of large providers and servers, as far as public reports show the words. The
// recipient is invented.
var realReplies = map[string]string{
	// Gmail
	"5.7.26 This mail has been blocked because the sender is unauthenticated.\n5.7.26 Gmail requires all senders to authenticate with either SPF or DKIM.\n5.7.26 \n5.7.26  For instructions on setting up authentication, go to\n5.7.26  https://support.google.com/mail/answer/81126#authentication a640c23a62f3a-a7bc9e2si12345.321 - gsmtp": "5.7.26 This mail has been blocked because the sender is unauthenticated. 5.7.26 Gmail requires all senders to authenticate with either SPF or DKIM. 5.7.26 5.7.26 For … on … up authentication, go to 5.7.26 https://support.google.com/mail/answer/81126?… … gsmtp",
	"5.1.1 The email account that you tried to reach does not exist. Please try\n5.1.1 double-checking the recipient's email address for typos or\n5.1.1 unnecessary spaces. For more information, go to\n5.1.1  https://support.google.com/mail/?p=NoSuchUser 98e67ed59e1d1-2c8 - gsmtp":                                                       "5.1.1 The email account that you tried to … does not exist. Please try 5.1.1 … the recipient's email address for … or 5.1.1 … For more information, go to 5.1.1 https://support.google.com/mail?… … gsmtp",
	// Outlook, Exchange Online
	"5.7.1 Unfortunately, messages from [203.0.113.5] weren't sent. Please contact your Internet service provider since part of their network is on our block list (S3150). You can also refer your provider to http://mail.live.com/mail/troubleshooting.aspx#errors. [AM7EUR06FT036.eop-eur06.prod.protection.outlook.com]": "5.7.1 Unfortunately, messages from [203.0.113.5] weren't sent. Please contact your Internet service provider since part of their network is on our block list (S3150). You can also refer your provider to http://mail.live.com/mail/troubleshooting.aspx?… [AM7EUR06FT036.eop-eur06.prod.protection.outlook.com]",
	"5.4.1 Recipient address rejected: Access denied. AS(201806281) [DB5EUR01FT064.eop-EUR01.prod.protection.outlook.com]": "5.4.1 Recipient address rejected: Access denied. AS(201806281) [DB5EUR01FT064.eop-EUR01.prod.protection.outlook.com]",
	"5.1.10 RESOLVER.ADR.RecipientNotFound; Recipient ana.maria+news@example.org not found by SMTP address lookup":         "5.1.10 … Recipient … not found by SMTP address lookup",
	// Postfix with Spamhaus; unknown users
	"5.7.1 Service unavailable; Client host [203.0.113.5] blocked using zen.spamhaus.org; https://www.spamhaus.org/query/ip/203.0.113.5":                                              "5.7.1 Service unavailable; Client host [203.0.113.5] blocked using zen.spamhaus.org; https://www.spamhaus.org/query/ip/203.0.113.5",
	"5.1.1 <Ana.Maria+News@example.org>: Recipient address rejected: User unknown in virtual mailbox table":                                                                           "5.1.1 … Recipient address rejected: User unknown in … mailbox …",
	"4.2.0 <ana.maria+news@example.org>: Recipient address rejected: Greylisted, see http://postgrey.schweikert.ch/help/example.org.html":                                             "4.2.0 … Recipient address rejected: Greylisted, see http://postgrey.schweikert.ch/help/example.org.html",
	"5.7.1 Service unavailable; client [203.0.113.5] blocked using b.barracudacentral.org; http://www.barracudanetworks.com/reputation/?pr=1&ip=203.0.113.5&to=ana.maria@example.org": "5.7.1 Service unavailable; client [203.0.113.5] blocked using b.barracudacentral.org; http://www.barracudanetworks.com/reputation?…",
	// Exim, Sendmail
	"203.0.113.5 is listed at zen.spamhaus.org (127.0.0.2: https://www.spamhaus.org/sbl/query/SBL233)": "203.0.113.5 is listed at zen.spamhaus.org (127.0.0.2: https://www.spamhaus.org/sbl/query/SBL233",
	"No such user ana.maria here":                      "No such user … here",
	"5.1.1 ana.maria... User unknown":                  "5.1.1 … User unknown",
	"Unrouteable address":                              "… address",
	"unknown user: bob, forwarded from ana.maria+news": "unknown user: … from …",
	// Yahoo
	"5.7.9 Message not accepted for policy reasons. See https://postmaster.yahooinc.com/error-codes":                                              "5.7.9 Message not accepted for policy reasons. See https://postmaster.yahooinc.com/error-codes",
	"[TSS04] Messages from 203.0.113.5 temporarily deferred due to unexpected volume or user complaints - 4.16.55.1; see https://x.example.com/a": "[TSS04] Messages from 203.0.113.5 temporarily deferred due to unexpected volume or user complaints … 4.16.55.1; see https://x.example.com/a",
	"[IPTS04] [GL01] [VS1-IP] [BL23] see https://postmaster.yahooinc.com/error-codes":                                                             "[IPTS04] [GL01] [VS1-IP] [BL23] see https://postmaster.yahooinc.com/error-codes",
	// 163.com, QQ, Orange, Mail.ru
	"DT:SPM 163 smtp10,DsCowAB3xyz,1234567890 http://mail.163.com/help/help_spam_16.htm?ip=203.0.113.5": "DT:SPM 163 … http://mail.163.com/help/help_spam_16.htm?…",
	"Connection frequency limited. https://service.mail.qq.com/detail/122/172.":                         "Connection frequency limited. https://service.mail.qq.com/detail/122/172",
	"Suspected bounce attacks":                                     "Suspected bounce attacks",
	"Too many connections, slow down. OFR004_104 [104] LPN007_510": "Too many connections, slow down. OFR004_104 [104] LPN007_510",
	"spam message rejected. Please visit http://help.mail.ru/notspam-support/id?c=ab12. Error code: 1B5CAA11223": "spam message rejected. Please visit http://help.mail.ru/notspam-support/id?… Error code: …",
	// Proofpoint, Mimecast, Cisco, Barracuda, Microsoft
	"Email rejected per PDR, see https://ipcheck.proofpoint.com/?ip=203.0.113.5":         "Email rejected per PDR, see https://ipcheck.proofpoint.com?…",
	"rejected - https://community.mimecast.com/docs/DOC-1369#554 [MEzW1pVEMaCEMFpE1_Vu]": "rejected … https://community.mimecast.com/docs/DOC-1369#554 …",
	"#5.1.0 Address rejected. the sending MTA's poor reputation":                         "#5.1.0 Address rejected. the sending MTA's poor reputation",
	"rule BSF_SC0_SA085 (S77719) AS780090":                                               "rule BSF_SC0_SA085 (S77719) AS780090",
	// texts that could contain a recipient, a code or a login
	"see https://example.com/u/QW5hLk1hcmlhK05ld3NAZXhhbXBsZS5vcmc/x":                                         "see https://example.com/u/…/x",
	"see https://example.com/abcdefghijklmnopqrstuvwxy/x1y2z3w4v/short1":                                      "see https://example.com/…/…/short1",
	"see https://example.com/5d41402abc4b2a76b9719d911017c592":                                                "see https://example.com/…",
	"see https://example.com/ana%2Emaria/%40 https://ana.maria:x@example.com/ https://ana.maria.example.com/": "see https://example.com/…/… …",
	"see https://example.com/anamaria/493817/4915112345678/S3140":                                             "see https://example.com/…/…/…/…",
	"ANA.MARIA =61na ana＠example.org ana%40example.org mailto:a@b user (ana) \"maria\" {News} anamaria":       "… user …",
	"phrase 493817 or K7M3QX or S3140 found, call +4915112345678":                                             "… or … or … found, …",
	"bad login relay-user correct horse/battery":                                                              "bad login …",
	"evil\x1b[31m\x00word\u202e\u200b line\xff\r\nspam":                                                       "… spam",
	"5.1.1": "", "": "", "… … …": "", "<ana.maria+news@example.org>": "",
}

// RedactReply leaves known words and URLs, and nothing of the recipient, the code or the login.
func TestRedactReply(t *testing.T) {
	for reply, want := range realReplies {
		got := RedactReply(reply, replyPrivate)
		servertest.Same(t, reply, got, want)
		if lower := strings.ToLower(got); strings.Contains(lower, "ana") || strings.Contains(lower, "maria") ||
			strings.Contains(got, "493817") || strings.Contains(got, "K7M3QX") || strings.Contains(lower, "battery") {
			t.Errorf("%q gives %q", reply, got)
		}
	}
	servertest.Same(t, "a local part that is a known word", RedactReply("no such user no, see http://mail.example.com/no",
		PrivateData{To: "no@example.org"}), "… such user … see http://mail.example.com/…")
	servertest.Same(t, "a local part without its dots", RedactReply("blocked, see http://mail.example.com/abc/xyz",
		PrivateData{To: "a.b.c+d@example.org"}), "blocked, see http://mail.example.com/…/xyz")
	long := RedactReply(strings.Repeat("blocked ", 1000), PrivateData{})
	if n := utf8.RuneCountInString(long); n != maxReplyRunes || !strings.HasSuffix(long, omissionMark) {
		t.Errorf("%d characters", n)
	}
}

// RedactReply shows no code, whole or in two groups, and no recipient in any form of a provider's
// identifier.
func TestRedactReplyKeepsNoCodeInAnIdentifier(t *testing.T) {
	forms := strings.Split(`{c}|AS({c})|AS{c}|S{c}|BL-{c}|#{c}|[{c}]|DT:{c}|{c}:DT|OFR_{c}|OFR{c}_104|BSF_SA_{c}|#5.1.{c}|{a} {b}|({a}) ({b})|`+
		`550 {a} {b}|{a}-{b}|{a}:{b}|{n}:{n}|DT:{n}|{n}|#{n}|https://mail.ru/id?c={c}|https://x.mimecast.com/docs#{c}|https://x.example.com/{c}|`+
		`https://x.mimecast.com/docs#{n}`, "|")
	for _, code := range []string{"493817", "1004", "7780900", "20180628", "BCDF", "KLMNPQ", "3150", "77719"} {
		for _, name := range []string{"ANA", "QX", "554", "S3150", "ZHANG"} {
			for _, form := range forms {
				half := len(code) / 2
				text := "blocked " + strings.NewReplacer("{c}", code, "{a}", code[:half], "{b}", code[half:], "{n}", name).Replace(form)
				got := RedactReply(text, PrivateData{To: name + "@example.org", Content: "Your code is " + code})
				plain := strings.ToUpper(strings.Map(func(r rune) rune {
					if unicode.IsLetter(r) || unicode.IsDigit(r) {
						return r
					}
					return -1
				}, got))
				if strings.Contains(plain, code) || strings.Contains(form, "{n}") && strings.Contains(plain, name) {
					t.Errorf("%q gives %q", text, got)
				}
			}
		}
	}
}

// RedactReply never shows a recipient's name, in any form and with any text around it.
func FuzzRedactReply(f *testing.F) {
	for reply := range realReplies {
		f.Add(reply)
	}
	f.Fuzz(func(t *testing.T, reply string) {
		for _, name := range []string{"zuluquark", "Zulu.Quark"} {
			for _, form := range []string{
				reply + name, name + reply, reply + "/" + name,
				reply + " <" + name + "@example.org>", "https://example.com/" + name + reply,
			} {
				got := strings.ToLower(RedactReply(form, PrivateData{To: "Zulu.Quark@example.org"}))
				if strings.Contains(got, "zuluquark") || strings.Contains(got, "zulu.quark") ||
					strings.ContainsFunc(got, func(r rune) bool { return r < ' ' || r == 0x7f }) {
					t.Errorf("%q gives %q", form, got)
				}
			}
		}
	})
}
