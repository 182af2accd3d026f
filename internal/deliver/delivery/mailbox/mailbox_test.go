package mailbox_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"sendcode/internal/deliver/delivery"
	"sendcode/internal/deliver/delivery/mailbox"
	"sendcode/internal/deliver/delivery/mailserver"
	"sendcode/internal/deliver/delivery/smtp"
	"sendcode/internal/deliver/delivery/smtptest"
	"sendcode/internal/kit/servertest"
)

func send(t *testing.T, s mailserver.Servers, to string) (delivery.Result, error) {
	m := smtptest.Sample(1)
	m.To = to
	return s.Send(t.Context(), m)
}

func open(t *testing.T) (*mailbox.Mailbox, mailserver.Servers) {
	t.Helper()
	m, err := mailbox.Listen()
	servertest.OK(t, err)
	t.Cleanup(func() { _ = m.Close() })
	server, err := smtp.ParseURL(m.URL())
	servertest.OK(t, err)
	return m, smtptest.NewSender(t, server)
}

func TestMailboxReceives(t *testing.T) {
	box, s := open(t)
	if text, _ := json.Marshal(box.Messages()); string(text) != "[]" {
		t.Errorf("an empty mailbox is %s", text)
	}
	m := smtptest.Sample(1)
	m.Subject, m.To = "您的验证码 🔑", "用户@例子.example"
	m.Text = "您的验证码\n\n" + smtptest.Code + "\n.\n..\n" + strings.Repeat("long ", 40) + "\n"
	m.HTML = "<p>=3D 验证码 <b>" + smtptest.Code + "</b></p>\n"
	if _, err := s.Send(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	got := box.Messages()
	want := mailbox.Mail{
		ID: m.MessageID, At: got[0].At, To: "用户@xn--fsqu00a.example", Subject: m.Subject, Text: m.Text,
		HTML: m.HTML, Channel: "email", Code: smtptest.Code,
	}
	if len(got) != 1 || got[0] != want || got[0].At.Location() != time.UTC {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	box.AddText("send-2", "+4915123456789", "your code 482913", "482913")
	got = box.Messages()
	want = mailbox.Mail{ID: "send-2", At: got[0].At, To: "+4915123456789", Text: "your code 482913", Channel: "sms", Code: "482913"}
	if len(got) != 2 || got[0] != want {
		t.Errorf("got %+v", got)
	}
	text, err := json.Marshal([]mailbox.Mail{{
		ID: "a", At: time.Date(2026, 3, 4, 4, 6, 7, 0, time.UTC), To: "b",
		Subject: "c", Text: "d", HTML: "e", Channel: "f", Code: "g",
	}})
	servertest.OK(t, err)
	servertest.Same(t, "JSON", string(text),
		`[{"id":"a","at":"2026-03-04T04:06:07Z","to":"b","subject":"c","text":"d","html":"e","channel":"f","code":"g"}]`)
}

func TestMailboxKeepsTheNewest(t *testing.T) {
	box, _ := open(t)
	for n := range 204 {
		box.AddText(strconv.Itoa(n), "+4915123456789", "", "")
	}
	got := box.Messages()
	if len(got) != 200 || got[0].ID != "203" || got[199].ID != "4" {
		t.Errorf("%d mails, from %s to %s", len(got), got[0].ID, got[len(got)-1].ID)
	}
	got[0].Subject = "changed"
	if box.Messages()[0].Subject == "changed" {
		t.Error("the caller can change the mailbox")
	}
}

// A mail that is too large, or that was cut off, is not received. Received mails stay when the
// mailbox closes.
func TestMailboxRefuses(t *testing.T) {
	box, s := open(t)
	big := smtptest.Sample(1)
	big.Text = strings.Repeat("0123456789\n", 100_000)
	_, err := s.Send(t.Context(), big)
	smtptest.Expect(t, err, smtptest.Outcome{Class: delivery.Rejected, Stage: delivery.StageDot, Status: 552, Code: "5.3.4"})
	talk(t, box, "Subject: hi\r\n\r\nhal")
	if _, err := send(t, s, "later@example.org"); err != nil {
		t.Error(err)
	}
	for range 2 {
		servertest.OK(t, box.Close())
	}
	_, err = send(t, s, "closed@example.org")
	smtptest.Expect(t, err, smtptest.Outcome{Class: delivery.Temporary, Stage: delivery.StageDial})
	if got := box.Messages(); len(got) != 1 || got[0].To != "later@example.org" {
		t.Errorf("%+v", got)
	}
}

// talk speaks raw SMTP to a mailbox and returns the answer to the content. If the content has no
// end, talk closes the connection and returns nothing.
func talk(t *testing.T, box *mailbox.Mailbox, content string) string {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(box.URL(), "smtp://"))
	servertest.OK(t, err)
	defer conn.Close()
	fmt.Fprint(conn, "EHLO x\r\nMAIL FROM:<a@b>\r\nRCPT TO:<c@d>\r\nRCPT TO:<e@f>\r\nDATA\r\n"+content)
	if !strings.HasSuffix(content, "\r\n.\r\n") {
		return ""
	}
	fmt.Fprint(conn, "QUIT\r\n")
	var answers bytes.Buffer
	if _, err := answers.ReadFrom(conn); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(answers.String()), "\r\n")
	return lines[len(lines)-2]
}

// The mailbox shows the mails of other programs as far as they can be read.
func TestMailboxReadsOthersMail(t *testing.T) {
	for name, c := range map[string]struct {
		content string
		want    mailbox.Mail
	}{
		"no MIME": {"Subject: hi\r\nMessage-ID: <x@y>\r\n\r\nhello\r\n", mailbox.Mail{ID: "x@y", Subject: "hi", Text: "hello\n"}},
		"no ID":   {"Subject: hi\r\n\r\nhello\r\n", mailbox.Mail{ID: "1", Subject: "hi", Text: "hello\n"}},
		"an attachment": {
			"Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\nContent-Type: text/plain\r\n\r\nhello\r\n--b\r\n" +
				"Content-Type: text/plain\r\nContent-Disposition: attachment\r\n\r\nno\r\n--b--\r\n",
			mailbox.Mail{ID: "1", Text: "hello"},
		},
		"a part that never ends, as it came": {
			"Subject: hi\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\nContent-Type: text/plain\r\n\r\nno end\r\n",
			mailbox.Mail{
				ID: "1", Subject: "hi",
				Text: "Subject: hi\nContent-Type: multipart/mixed; boundary=b\n\n--b\nContent-Type: text/plain\n\nno end\n",
			},
		},
		"an unknown charset in a part": {
			"Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\nContent-Type: text/plain; charset=x-none\r\n\r\nhello\r\n" +
				"--b\r\nContent-Type: text/html\r\n\r\n<p>\r\n--b--\r\n",
			mailbox.Mail{ID: "1", Text: "hello", HTML: "<p>"},
		},
	} {
		box, _ := open(t)
		c.want.To, c.want.Channel = "c@d,e@f", "email"
		answer, got := talk(t, box, c.content+".\r\n"), box.Messages()
		if len(got) == 1 {
			c.want.At = got[0].At
		}
		if !strings.HasPrefix(answer, "250") || !slices.Equal(got, []mailbox.Mail{c.want}) {
			t.Errorf("%s: answer %q\ngot  %+v\nwant %+v", name, answer, got, c.want)
		}
	}
}

func FuzzMailbox(f *testing.F) {
	box, err := mailbox.Listen()
	servertest.OK(f, err)
	f.Cleanup(func() { _ = box.Close() })
	f.Fuzz(func(t *testing.T, content []byte) {
		text := strings.ReplaceAll(strings.ReplaceAll(string(content), "\r", ""), "\n", "\r\n")
		if strings.Contains("\r\n"+text+"\r\n", "\r\n.\r\n") {
			return // the mail ends early
		}
		for line := range strings.SplitSeq(text, "\r\n") {
			if len(line) > 998 {
				return // a line is longer than SMTP allows
			}
		}
		answer := talk(t, box, text+"\r\n.\r\n")
		if !strings.HasPrefix(answer, "250") {
			t.Fatalf("answer %q", answer)
		}
		if _, err := json.Marshal(box.Messages()); err != nil {
			t.Fatal(err)
		}
	})
}

func TestMailboxSimulatesOutcomes(t *testing.T) {
	const slow = 100 * time.Millisecond
	box, s := open(t)
	box.Slow(slow)
	_, err := send(t, s, "BOUNCE+7@simulator.test")
	smtptest.Expect(t, err, smtptest.Outcome{Class: delivery.Rejected, Stage: delivery.StageRcpt, Status: 550, Code: "5.1.1"})
	_, err = send(t, s, "unknown+new@simulator.test")
	smtptest.Expect(t, err, smtptest.Outcome{Class: delivery.Unknown, Stage: delivery.StageDot})
	for _, to := range []string{"bounce@simulator.test.example", "bouncer@simulator.test", "slow@simulator.test"} {
		receipt, err := send(t, s, to)
		if err != nil || receipt.ReplyCodes != "250 2.0.0" || receipt.Took < slow && strings.HasPrefix(to, "slow") {
			t.Errorf("%s: %+v, %v", to, receipt, err)
		}
	}
	if n := len(box.Messages()); n != 4 {
		t.Errorf("%d mails are kept, want all but the one that bounced", n)
	}
}

// A mail's code is the line that consists only of a code, in either alphabet. A mail without such a
// line has no code.
func TestMailboxReadsTheCode(t *testing.T) {
	box, s := open(t)
	for text, want := range map[string]string{
		"Hello 12345678\n\n482913\n\n2026\n": "482913", "Gift\n\nBCDFGHJK\n": "BCDFGHJK",
		"Your code is 482913.\n": "", "HELLO\nYes\n482 913\n": "",
	} {
		m := smtptest.Sample(1)
		m.Text = text
		if _, err := s.Send(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		servertest.Same(t, text, box.Messages()[0].Code, want)
	}
}
