package config

import (
	"bufio"
	"bytes"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"sendcode/internal/recipient"
)

// TestRecipient has a fixed code, and nothing is sent to it: a reviewer of an app shop, a test in a browser.
type TestRecipient struct {
	To      recipient.Recipient
	Code    string
	Expires time.Time // from then on it is a recipient like any other
}

// maxTestRecipients bounds how many known codes there can be.
const maxTestRecipients = 20

// Block refuses recipients: exactly one of To, Domain and Prefix is set.
type Block struct {
	To     recipient.Recipient
	Domain string // of mail addresses, and of its subdomains
	Prefix string // of phone numbers, with its "+"
	Reason string // for the log and the administrator; never told to who asks
}

// testRecipients reads recipients whose code is known. Their end is not optional: nobody remembers them.
func (s *sections) testRecipients(n *yaml.Node, path string) {
	s.items(n, path, func(v *yaml.Node, path string) {
		var t TestRecipient
		var channel, to string
		given := map[string]bool{}
		s.fields(v, path, map[string]func(*yaml.Node, string){
			"channel": func(v *yaml.Node, path string) { given["channel"] = true; channel, _ = s.text(v, path) },
			"to":      func(v *yaml.Node, path string) { given["to"] = true; to, _ = s.text(v, path) },
			"code":    func(v *yaml.Node, path string) { given["code"] = true; s.testCode(&t, v, path) },
			"expires": func(v *yaml.Node, path string) { given["expires"] = true; t.Expires, _ = s.instant(v, path) },
		})
		for _, field := range []string{"channel", "to", "code", "expires"} {
			if v.Kind == yaml.MappingNode && !given[field] {
				s.mistake(v, path, "%s is missing", field)
			}
		}
		if given["channel"] && given["to"] {
			t.To = s.recipientOf(v, path, channel, to)
			twice := func(other TestRecipient) bool { return other.To == t.To && t.To != recipient.Recipient{} }
			if slices.ContainsFunc(s.config.TestRecipients, twice) {
				s.mistake(v, path, "is there twice")
			}
		}
		s.config.TestRecipients = append(s.config.TestRecipients, t)
		s.testAt = append(s.testAt, s.where(v, path))
		if len(s.config.TestRecipients) == maxTestRecipients+1 {
			s.mistake(v, path, "there may be %d test recipients at most", maxTestRecipients)
		}
	})
}

func (s *sections) testCode(t *TestRecipient, n *yaml.Node, path string) {
	text, ok := s.text(n, path)
	only := func(alphabet string) bool { return strings.Trim(text, characters[alphabet]) == "" }
	if ok && (len(text) < minCodeLength || len(text) > maxCodeLength || !only(digits) && !only(unambiguous)) {
		s.mistake(n, path, "must be %d to %d digits, in quotes, or as many of the letters %s", minCodeLength, maxCodeLength, characters[unambiguous])
	}
	t.Code = text
}

// recipientOf never repeats the address.
func (s *sections) recipientOf(n *yaml.Node, path, channel, to string) recipient.Recipient {
	ch, err := recipient.ParseChannel(channel)
	if err != nil {
		s.mistake(n, path, "channel must be email or sms")
		return recipient.Recipient{}
	}
	r, err := recipient.Parse(ch, to)
	if err != nil {
		s.mistake(n, path, "to is not a recipient of the channel %s", ch)
	}
	return r
}

// block reads who gets no codes.
func (s *sections) block(n *yaml.Node, path string) {
	s.items(n, path, func(v *yaml.Node, path string) {
		var b Block
		var channel, to string
		var kinds []string
		kind := func(name string, into *string) func(*yaml.Node, string) {
			return func(v *yaml.Node, path string) {
				kinds = append(kinds, name)
				*into, _ = s.text(v, path)
			}
		}
		s.fields(v, path, map[string]func(*yaml.Node, string){
			"channel": func(v *yaml.Node, path string) { channel, _ = s.text(v, path) },
			"to":      kind("to", &to),
			"domain":  kind("domain", &b.Domain),
			"prefix":  kind("prefix", &b.Prefix),
			"reason":  func(v *yaml.Node, path string) { b.Reason, _ = s.text(v, path) },
		})
		switch {
		case v.Kind != yaml.MappingNode:
		case len(kinds) != 1:
			s.mistake(v, path, "must have exactly one of to (with its channel), domain and prefix")
		case kinds[0] == "to":
			b.To = s.recipientOf(v, path, channel, to)
		case channel != "":
			s.mistake(v, path, "channel goes with to only")
		case kinds[0] == "domain":
			b.Domain = s.domainOf(v, path, b.Domain)
		case len(b.Prefix) < 2 || b.Prefix[0] != '+' || strings.Trim(b.Prefix[1:], "0123456789") != "":
			s.mistake(v, path, "prefix must be + and digits, as phone numbers begin")
		}
		s.config.Blocks = append(s.config.Blocks, b)
	})
}

// domainOf is the domain as addresses have it: lower-case A-labels.
func (s *sections) domainOf(n *yaml.Node, path, text string) string {
	domain := mailDomain(text)
	if domain == "" {
		s.mistake(n, path, "%s is not a domain", plain(text))
	}
	return domain
}

// mailDomain is empty where the text is no domain that mail can go to.
func mailDomain(text string) string {
	r, err := recipient.Parse(recipient.Email, "x@"+text)
	if err != nil {
		return ""
	}
	return r.Domain()
}

// disposable reads the file of domains at which anybody gets an address for a while. We bring none: such a list is old
// on the day that it is shipped.
func (s *sections) disposable(n *yaml.Node, path string) {
	file, ok := s.text(n, path)
	if !ok || file == "" {
		return
	}
	content, err := s.readFile(file)
	if err != nil {
		s.mistake(n, path, "%s cannot be read: %s", plain(file), cause(err))
		return
	}
	s.config.DisposableFile, s.config.Disposable = file, map[string]bool{}
	lines := bufio.NewScanner(bytes.NewReader(content))
	for line := 1; lines.Scan(); line++ {
		text, _, _ := strings.Cut(lines.Text(), "#")
		if text = strings.TrimSpace(text); text == "" {
			continue
		}
		domain := mailDomain(text)
		if domain == "" {
			s.mistake(n, path, "%s:%d: %s is not a domain", plain(file), line, plain(text))
			return
		}
		s.config.Disposable[domain] = true
	}
	if err := lines.Err(); err != nil {
		s.mistake(n, path, "%s cannot be read: %s", plain(file), cause(err))
	}
}
