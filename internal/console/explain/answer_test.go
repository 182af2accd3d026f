package explain

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"sendcode/internal/console/consoletest"
	"sendcode/internal/store"
	"sendcode/internal/texts"
)

// Every combination of states has its reply, in the person's language, and it holds nothing that is not for them.
func TestAnswers(t *testing.T) {
	var b strings.Builder
	for _, s := range situations() {
		fmt.Fprintf(&b, "== %s\n", s.name)
		for _, locale := range []string{"en-GB", "zh-CN", "es-MX", "ar"} {
			s.story.Send.Locale, s.story.Send.To = locale, "a•••@example.com"
			a := s.judged(texts.ForConsole("")).Answer
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

// A refusal says the same instant to the person as to the administrator.
func TestAnswersTellTheSameWait(t *testing.T) {
	for _, s := range situations() {
		if s.story.Send.Status != store.Refused {
			continue
		}
		instants := func(text texts.Sentence) (all []time.Time) {
			for _, p := range text {
				if v := s.story.Verification; !p.At.IsZero() && (v == nil || !p.At.Equal(v.ExpiresAt)) {
					all = append(all, p.At.Time)
				}
			}
			return all
		}
		v := s.judged(texts.ForConsole(""))
		if told, next := instants(v.Answer.Text), instants(v.Next); !slices.Equal(told, next) {
			t.Errorf("%s: the person is told %v, the administrator %v", s.name, told, next)
		}
	}
}
