package explain

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"sendcode/internal/console/consoletest"
	"sendcode/internal/recipient"
	"sendcode/internal/store"
	"sendcode/internal/texts"
	"sendcode/internal/verification"
)

// Every combination of states has its reply, in the person's language, and it holds nothing that is not for them.
func TestAnswers(t *testing.T) {
	var b strings.Builder
	for _, s := range situations() {
		fmt.Fprintf(&b, "== %s\n", s.name)
		for _, locale := range []string{"en-GB", "zh-CN", "es-MX", "ar"} {
			s.story.Send.Locale, s.story.Send.To = locale, "a•••@example.com"
			a := s.judged(texts.For("")).Answer
			text := a.Text.String()
			fmt.Fprintf(&b, "%s\n", text)
			for _, hidden := range []string{"0001", "{", "}", s.story.Send.Provider, s.story.Send.BlockedBy, s.story.Send.ProviderCode, "shop"} {
				if hidden != "" && hidden != "test" && strings.Contains(text, hidden) {
					t.Errorf("%s: %q is in %s", s.name, hidden, text)
				}
			}
			if a.Times != strings.Contains(text, "UTC") {
				t.Errorf("%s: whose times they are, %v: %s", s.name, a.Times, text)
			}
		}
		b.WriteString("\n")
	}
	consoletest.Golden(t, "answers.txt", b.String())
}

func TestAnswersAreInThePersonsLanguage(t *testing.T) {
	for locale, want := range map[string]string{
		"zh-TW,en;q=0.5": "zh-Hans", "en": "en", "de, zh;q=0.8": "zh-Hans", "zh-Hant": "zh-Hans", "es-419": "es", "ar-EG": "ar", "de": "reader", "": "reader", "??": "reader",
	} {
		for _, reader := range texts.All() {
			expected := want
			if want == "reader" {
				expected = reader.Lang()
			}
			if got := texts.ForReply(locale, reader).Lang(); got != expected {
				t.Errorf("%q, read by %s: %s", locale, reader.Lang(), got)
			}
		}
	}
}

func TestAnswersOfTextMessages(t *testing.T) {
	s := told("sent", sentAs(store.Sent, "", func(s *store.Send, _ *store.Verification) {
		s.Channel, s.To, s.Locale = recipient.SMS, "+86 138•••00", "en"
	}))
	if got := s.judged(texts.For("")).Answer.Text.String(); !strings.Contains(got, "our text message service handed it over") || strings.Contains(got, "spam") {
		t.Error(got)
	}
}

// A refusal says the same instant to the person as to the administrator.
func TestAnswersTellTheSameWait(t *testing.T) {
	for _, s := range situations() {
		if s.story.Send.Status != store.Refused {
			continue
		}
		v := s.judged(texts.For(""))
		var told, next []time.Time
		for _, p := range v.Answer.Text {
			if !p.At.IsZero() && !p.At.Equal(expiryOf(s)) {
				told = append(told, p.At.Time)
			}
		}
		for _, p := range v.Next {
			if !p.At.IsZero() && !p.At.Equal(expiryOf(s)) {
				next = append(next, p.At.Time)
			}
		}
		if fmt.Sprint(told) != fmt.Sprint(next) {
			t.Errorf("%s: the person is told %v, the administrator %v", s.name, told, next)
		}
	}
}

func expiryOf(s situation) time.Time {
	if s.story.Verification == nil {
		return time.Time{}
	}
	return s.story.Verification.ExpiresAt
}

// A send under way has a reply; a test recipient's send has none.
func TestAnswerUnderWay(t *testing.T) {
	if answerOf(matter{Send: store.Send{}, Words: texts.For(""), state: verification.Pending}, texts.For("")).Text == nil {
		t.Error("a send under way has no reply")
	}
}
