package delivery

import (
	"io"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net/mail"
	"net/url"
	"reflect"
	"strings"
	"testing"
	"time"

	"sendcode/internal/kit/servertest"
)

// fillForm replaces "§" by the fill, "¤" by the escaped fill, "†" by the token, and "‡" by the
// second half of the token.
type fillForm struct{ subject, text, html string }

func (f *fillForm) Texts(fill, token string) (subject, text, html string, err error) {
	put := func(text string) string {
		return strings.NewReplacer("§", fill, "¤", url.QueryEscape(fill), "†", token, "‡", token[len(token)/2:]).Replace(text)
	}
	return put(f.subject), put(f.text), put(f.html), nil
}

var usual = fillForm{"Your code", "§\n", "<p>§</p>"}

func formed(f *fillForm, fill string) Mail {
	return Mail{
		MessageID: "0199a1b2-c3d4-7e5f-8a6b-0123456789ab.0123456789abcdef0123@codes.example", To: "ana@example.org",
		SharedFields: SharedFields{From: "Codes <no~reply@codes.example>", Language: "en"}, Form: f, Fill: fill,
		Date:      time.Unix(1_700_000_000, 0).In(time.FixedZone("", 3600)),
		IDHeaders: map[string]string{"X-Send": "0199a1b2-c3d4-7e5f-8a6b-0123456789ab"},
	}
}

// read is a mail as the recipient's mail program reads it: its header, and each part after a line
// with the part's type.
type read struct {
	header mail.Header
	bodies []string
}

func readMail(t *testing.T, content []byte) (r read) {
	t.Helper()
	for line := range strings.Lines(string(content)) {
		if text, crlf := strings.CutSuffix(line, "\r\n"); !crlf || len(text) > maxLine ||
			strings.ContainsAny(text, "\r\n"+placeholderCharacters) {
			t.Errorf("a line on the wire: %q", line)
		}
	}
	m, err := mail.ReadMessage(strings.NewReader(string(content)))
	servertest.OK(t, err)
	r.header = m.Header
	for _, values := range r.header {
		if values[0], err = new(mime.WordDecoder).DecodeHeader(values[0]); err != nil || len(values) != 1 {
			t.Error(values, err)
		}
	}
	body := func(kind string, part io.Reader) {
		text, err := io.ReadAll(part)
		if err != nil {
			t.Error(err)
		}
		r.bodies = append(r.bodies, kind+"\n"+strings.TrimSuffix(strings.ReplaceAll(string(text), "\r\n", "\n"), "\n"))
	}
	kind, parameters, err := mime.ParseMediaType(m.Header.Get("Content-Type"))
	servertest.OK(t, err)
	if kind == "text/plain" {
		body(m.Header.Get("Content-Type"), quotedprintable.NewReader(m.Body))
		return r
	}
	m.Header["Content-Type"][0] = kind
	parts := multipart.NewReader(m.Body, parameters["boundary"]) // decodes quoted-printable
	for part, err := parts.NextPart(); err != io.EOF; part, err = parts.NextPart() {
		servertest.OK(t, err)
		body(part.Header.Get("Content-Type"), part)
	}
	return r
}

// sameMail checks that a mail reads as given, although its encoder has encoded others before, and
// that another try has the same bytes. If the encoder refuses the mail, a new encoder must refuse
// it, too, with the same error.
func sameMail(t *testing.T, e *MailEncoder, m Mail) {
	t.Helper()
	got, fail := e.Encode(m)
	plain, err := m.WithTexts()
	plain.Form = nil
	_, want := new(MailEncoder).Encode(plain)
	switch {
	case fail != nil && want != nil && fail.Error() == want.Error():
		return
	case fail != nil || want != nil || err != nil:
		t.Errorf("encoded with %v, alone with %v, %v", fail, want, err)
		return
	}
	again, _ := e.Encode(m)
	servertest.Same(t, "the bytes of another try", string(again.Content), string(got.Content))
	local, domain, _ := strings.Cut(m.To, "@")
	servertest.Same(t, "the recipient", got.To, local+"@"+strings.ReplaceAll(domain, "例子", "xn--fsqu00a"))
	servertest.Same(t, "SMTPUTF8", got.UTF8, !isASCII(local))
	is := read{header: mail.Header{
		"Date": {m.Date.UTC().Format(time.RFC1123Z)}, "Message-Id": {"<" + m.MessageID + ">"},
		"References": {"<thread-" + m.MessageID + ">"}, "X-Entity-Ref-Id": {m.MessageID}, "X-Auto-Response-Suppress": {"DR, RN, NRN, OOF, AutoReply"},
		"From": {`"Codes" <no~reply@codes.example>`},
		"To":   {"<" + got.To + ">"}, "Subject": {plain.Subject}, "Auto-Submitted": {"auto-generated"},
		"Mime-Version":     {"1.0"},
		"Content-Language": {m.Language}, "Content-Type": {"multipart/alternative"},
	}, bodies: []string{
		"text/plain; charset=UTF-8\n" + strings.TrimSuffix(plain.Text, "\n"),
		"text/html; charset=UTF-8\n" + strings.TrimSuffix(plain.HTML, "\n"),
	}}
	for name, value := range m.IDHeaders {
		is.header[name] = []string{value}
	}
	if m.Language == "" {
		delete(is.header, "Content-Language")
	}
	if plain.HTML == "" {
		is.header["Content-Type"], is.header["Content-Transfer-Encoding"] = []string{"text/plain; charset=UTF-8"},
			[]string{"quoted-printable"}
		is.bodies = is.bodies[:1]
	}
	if mail := readMail(t, got.Content); !reflect.DeepEqual(mail, is) {
		t.Errorf("the mail to %s is read as\n%q\nnot\n%q", m.To, mail, is)
	}
}

// An encoded mail has the texts that it was given, no matter which mails of its form were encoded
// before.
func TestEncodedMailsAreReadAsGiven(t *testing.T) {
	long := strings.Repeat("Words that are wrapped, for no line is that long. ", 4)
	fills := []string{"123456S-7K3M-Q2XP", "654321S-AAAA-0000", "ABCDEFGHIJ", "A-B-CDEFGH", "------", "1111111111S-1111-1111", "12=456"}
	recipients := []string{
		"ada@example.org", "A+b=c_!#$%&'*/?^`{|}~@X.example", "用户@例子.example",
		strings.Repeat("a", 60) + "@example.org", strings.Repeat("l", 48) + "@example.org",
	}
	marks := []map[string]string{nil, {"X-Send": "0199a1b2-c3d4-7e5f-8a6b-0123456789ab"}, {"X-Send": "1"}}
	for _, form := range []*fillForm{
		{"Your code", "Code:\n\n§\n\n" + long, "<p>§</p>\n<p>" + long + "</p>"},
		{"§ is your code", "§", ""},
		{"§", "§§§ " + strings.Repeat("§ ", 40), "<a href='?c=¤'>§</a>"},
		{"Code", "\x1f§\x7f", ""},
		{"Code", "\x01§", ""},
		{"Code", "§ https://codes.example/not-me/†\n", "§<a href='https://codes.example/not-me/†'>" + long + "† †</a>"},
		{"Code~", "§ ~† †", ""}, {"Code †", "§ †", ""}, {"Code", "§ ‡ †", "‡ †"},
		{"您的验证码 §", "验证码 §\n.§\n§.\n", "<b>§</b>=§"},
		{
			strings.Repeat("long ", 30) + "§", strings.Repeat("x", 200) + "§" + strings.Repeat("é", 50),
			long + "§" + long,
		},
	} {
		var e MailEncoder
		for _, fill := range fills {
			for _, to := range recipients {
				m := formed(form, fill)
				m.To, m.Token = to, strings.Repeat("a-Z_09"+string(to[1])[:1], 6)+"1"
				for _, m.IDHeaders = range marks {
					m.Language = "en"
					sameMail(t, &e, m)
					m.Date, m.Language = m.Date.Add(31*time.Hour), ""
					sameMail(t, &e, m)
				}
			}
		}
	}
}

// The number of kept parts is bounded, and they contain neither recipient nor code.
func TestMailEncoderPartsAreBoundedAndHoldNoCode(t *testing.T) {
	var e MailEncoder
	for range 2*maxKeptParts + 10 {
		form := usual
		sameMail(t, &e, formed(&form, "739154"))
	}
	if n := len(e.cached); n == 0 || n > maxKeptParts {
		t.Errorf("%d are kept", n)
	}
	for _, kept := range e.cached {
		if text := string(kept.head.content) + string(kept.text.content) +
			string(kept.html.content); strings.Contains(text, "739154") || strings.Contains(text, "ana@") {
			t.Fatalf("the parts hold %q", text)
		}
	}
}

// Encoding a mail of a known form takes at most three allocations.
func TestAllocationsOfAMail(t *testing.T) {
	servertest.SkipUnderRace(t)
	var e MailEncoder
	m := formed(&usual, "739154")
	m.IDHeaders = nil
	most := testing.AllocsPerRun(100, func() {
		r, fail := e.Encode(m)
		if fail != nil {
			t.Fatal(fail)
		}
		e.Release(r)
	})
	if most > 3 {
		t.Errorf("%v allocations", most)
	}
}

// A mail that cannot be sent is rejected, even if the parts of its form are kept.
func TestMailEncoderRefusesUnsendable(t *testing.T) {
	long := strings.Repeat("x", 64)
	var e MailEncoder
	sameMail(t, &e, formed(&usual, "654321"))
	refused := func(what string, change func(*Mail)) {
		m, _ := formed(&usual, "654321").WithTexts()
		change(&m)
		m.Form = nil
		if r, fail := e.Encode(m); r != nil || fail == nil || fail.Class != Rejected || fail.Stage != StagePrepare {
			t.Errorf("%s: %v", what, fail)
		}
		if m.Form = &usual; m.Text != "" && m.Subject == "Your code" { // the form gives text and subject, so only other fields can be wrong
			sameMail(t, &e, m)
		}
	}
	for field, values := range map[string][]string{
		"To": {
			"", "@example.org", "ada@", "ada@example..org", "ada..lovelace@example.org", "Ada <ada@example.org>",
			"ada@example.org,eve@example.org",
			"ada@example.org>\r\nRCPT TO:<eve@example.org", "ada@example.org> NOTIFY=SUCCESS",
			`"ada lovelace"@example.org`, "ada@[127.0.0.1]",
			"ada\u00a0x@example.org", "ada\u2028x@example.org", "ad\xffa@example.org", long + "x@example.org",
			long + "@" + strings.Repeat("abcdefg.", 23) + "abcdef",
		},
		"From": {
			"", "a@x.example, b@x.example", "Codes <a@x.example>\r\nBcc: eve@example.org",
			"=?utf-8?q?Codes=0D=0ABcc:_eve?= <a@x.example>",
			"=?utf-8?q?Co=00des?= <a@x.example>",
		},
		"Subject": {
			"Your code\r\nBcc: eve@example.org", "Your\ncode", "Your\u2028code", "Your\u0085code", "Your \xff code",
			"=?utf-8?q?x=0Ay?=",
			strings.Repeat("x", 1000),
		},
		"Language": {"en\r\nX: y"}, "Text": {""},
		"MessageID": {
			"", "<a@x.example>", "0199a1b2-c3d4-7e5f-8a6b-0000000\r\nX:1@codes.example",
			"0199a1b2-c3d4-7e5f-8a6b-0123456789ab@codes.example\r\nX: y", "ü@x.example",
		},
	} {
		for _, value := range values {
			refused(field+" "+value, func(m *Mail) { reflect.ValueOf(m).Elem().FieldByName(field).SetString(value) })
		}
	}
	refused("no date", func(m *Mail) { m.Date = time.Time{} })
	for name, value := range map[string]string{
		"Bcc": "0199a1b2-c3d4-7e5f-8a6b-0123456789ab", "X-": "", "X-Send": "1\r\nBcc: b@example.com", "X-A\r\nBcc": "1",
		"X-B": "ä", "X-C": "a b",
		"X-E": strings.Repeat("x", 81),
	} {
		refused("a mark "+name, func(m *Mail) { m.IDHeaders = map[string]string{name: value} })
	}
}

// RenderedMail.Private has the recipient, and as Content the form's fill or, without a form, the
// text.
func TestEncodedMailTellsWhatIsPrivate(t *testing.T) {
	plain := formed(nil, "")
	plain.Form, plain.Subject, plain.Text = nil, "Your code", "Your code is 493817"
	var e MailEncoder
	for want, m := range map[string]Mail{"493817S7K3": formed(&usual, "493817S7K3"), plain.Text: plain} {
		r, fail := e.Encode(m)
		if fail != nil || r.Private.To != m.To || r.Private.Content != want {
			t.Errorf("%+v, %v", r, fail)
		}
	}
}
