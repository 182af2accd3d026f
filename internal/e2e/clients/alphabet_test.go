package clients

import (
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"sendcode/internal/app/apptest"
	"sendcode/internal/code"
)

const ofLetters = "purposes: {default: {code: {length: 8, alphabet: unambiguous}}}\n"

// Letters go the whole way on every log, from the file to the mail and back.
func TestCodesOfLetters(t *testing.T) {
	apptest.OnEach(t, func(s *apptest.Stack) {
		s.Policy(apptest.FiveAnHour).Write(ofLetters)
		s.Start(1)
		a := s.Ask(0, apptest.Ana)
		sent := s.CodeIn(s.AwaitMail(apptest.Ana, 1)[0])
		if strings.Trim(sent, code.Unambiguous.Characters()) != "" {
			s.Fatal("the code is not of letters")
		}
		for _, slip := range []string{"12345678", sent[:7] + "a"} {
			if c := s.Check(0, a.ID, slip); c.StatusCode != http.StatusUnprocessableEntity || !strings.Contains(string(c.Raw), `"reason":"not_in_alphabet"`) {
				s.Errorf("%s: %d %s", slip, c.StatusCode, c.Raw)
			}
		}
		if c := s.Check(0, "unknown", "12345678"); c.StatusCode != http.StatusNotFound {
			s.Errorf("an unknown ID: %d", c.StatusCode)
		}
		if c := s.Check(0, a.ID, strings.ToLower(sent[:4])+"-"+sent[4:]); !c.Valid {
			s.Errorf("%s", c.Raw)
		}
	})
}

// While codes of two alphabets live, the page goes by the one that its visitor was sent.
func TestThePageGoesByTheCodeThatWasSent(t *testing.T) {
	t.Parallel()
	s := apptest.Embedded(t).Policy(apptest.FiveAnHour).Watching().Start(1)
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	visitor := &http.Client{Jar: jar}
	page := func(form url.Values) string {
		t.Helper()
		answer, err := visitor.PostForm(s.Replicas[0].Base+"/", form)
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
	before := page(url.Values{"act": {"send"}, "to": {apptest.Ana}})
	if f := field(before); !strings.Contains(f, `inputmode="numeric"`) || !strings.Contains(f, `data-length="6"`) {
		t.Fatalf("%q", f)
	}
	s.Write(ofLetters)
	s.Hangup(0, "applied")
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
