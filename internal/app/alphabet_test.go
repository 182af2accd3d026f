package app

import (
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"sendcode/internal/code"
	"sendcode/internal/config"
)

const ofLetters = "purposes: {default: {code: {length: 8, alphabet: unambiguous}}}\n"

// Letters go the whole way on every log, from the file to the mail and back.
func TestCodesOfLetters(t *testing.T) {
	onEach(t, func(s *stack) {
		s.policy(fiveAnHour).write(ofLetters)
		s.start(1)
		a := s.ask(0, ana)
		sent := s.codeIn(s.awaitMail(ana, 1)[0])
		if strings.Trim(sent, code.Unambiguous.Characters()) != "" {
			s.Fatal("the code is not of letters")
		}
		for _, slip := range []string{"12345678", sent[:7] + "a"} {
			if c := s.check(0, a.ID, slip); c.status != http.StatusUnprocessableEntity || !strings.Contains(string(c.raw), `"reason":"not_in_alphabet"`) {
				s.Errorf("%s: %d %s", slip, c.status, c.raw)
			}
		}
		if c := s.check(0, "unknown", "12345678"); c.status != http.StatusNotFound {
			s.Errorf("an unknown ID: %d", c.status)
		}
		if c := s.check(0, a.ID, strings.ToLower(sent[:4])+"-"+sent[4:]); !c.Valid {
			s.Errorf("%s", c.raw)
		}
	})
}

// While codes of two alphabets live, the page goes by the one that its visitor was sent.
func TestThePageGoesByTheCodeThatWasSent(t *testing.T) {
	t.Parallel()
	s := embedded(t).policy(fiveAnHour).watching().start(1)
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	visitor := &http.Client{Jar: jar}
	page := func(form url.Values) string {
		t.Helper()
		answer, err := visitor.PostForm(s.replicas[0].base+"/", form)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		page, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(page)
	}
	field := func(page string) string { return regexp.MustCompile(`<input id="code"[^>]*>`).FindString(page) }
	before := page(url.Values{"act": {"send"}, "to": {ana}})
	if f := field(before); !strings.Contains(f, `inputmode="numeric"`) || !strings.Contains(f, `data-length="6"`) {
		t.Fatalf("%q", f)
	}
	s.write(ofLetters)
	s.hangup(0, "applied")
	again := page(url.Values{"act": {"check"}, "of": {mark(before)}, "code": {"1234"}})
	if f := field(again); !strings.Contains(f, `inputmode="numeric"`) || !strings.Contains(again, "The code has 6 digits.") {
		t.Errorf("the code that was sent is of digits: %q", f)
	}
	next := page(url.Values{"act": {"send"}, "to": {"ben@example.com"}})
	if f := field(next); !strings.Contains(f, `inputmode="text"`) || !strings.Contains(f, `autocapitalize="characters"`) || !strings.Contains(f, `data-length="8"`) {
		t.Errorf("the next one is of letters: %q", f)
	}
}

func mark(page string) string {
	return regexp.MustCompile(`name="of" value="([^"]*)"`).FindStringSubmatch(page)[1]
}

// What config takes for a test recipient's code is what people can enter.
func TestAlphabetsHaveOneName(t *testing.T) {
	for _, a := range []code.Alphabet{code.Digits, code.Unambiguous} {
		if got := config.Characters(string(a)); got == "" || got != a.Characters() {
			t.Errorf("%s: %q in the configuration", a, got)
		}
	}
}
