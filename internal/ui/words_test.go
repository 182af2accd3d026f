package ui_test

import (
	"regexp"
	"strings"
	"testing"

	"sendcode/internal/ui/uitest"
)

// Each state says the words that it has to say, in its own card.
func TestEachStateHasItsOwnWords(t *testing.T) {
	want := map[string]struct {
		kind  string
		words []string
	}{
		"ask":                 {"ask", []string{"Email address"}},
		"ask-bad-address":     {"ask", []string{"An address has an @"}},
		"ask-did-you-mean":    {"ask", []string{"Did you mean example.com?", "If exmaple.com is right, send it once more.", "Use example.com instead"}},
		"ask-change":          {"ask", []string{"Back to the code"}},
		"sending":             {"code", []string{"On its way"}},
		"sending-slow":        {"code", []string{"On its way", "Nothing yet?", "has not accepted it yet; we keep trying"}},
		"code-counting":       {"code", []string{"Check your mail", "Send again in 0:56", "free in 0:56", "Nothing yet?", "Reference for support: S-"}},
		"code-nothing-yet":    {"code", []string{"accepted it 18 s ago", "“ Your code for Shop ” from no-reply@shop.example", "Is a•••@example.com right?"}},
		"code-ready":          {"code", []string{"Send again this minute"}},
		"code-sent-again":     {"code", []string{"Code sent again to a•••@example.com", "3 left", "8 left"}},
		"code-wrong":          {"code", []string{"That is not the code. 3 tries left."}},
		"code-slip":           {"code", []string{"The code has 6 digits."}},
		"ask-letters":         {"ask", []string{"a code of 8 characters"}},
		"code-letters":        {"code", []string{"as soon as all 8 characters are in"}},
		"code-letters-slip":   {"code", []string{"The code has 8 characters."}},
		"code-unknown":        {"code", []string{"It may still arrive", "A code may have reached", "We lost the mail server's answer"}},
		"code-resend-failed":  {"code", []string{"could not be delivered, and does not count", "its code still works", "Send again this minute"}},
		"code-hour-spent":     {"code", []string{"Next code in 54 min", "free in 54 min"}},
		"code-other-rules":    {"code", []string{"in 30 s", "in 6 h", "in 7 days", "37 left", "3 of 40 used"}},
		"enough-minute":       {"enough", []string{"A code was just sent", "1 code was sent to a•••@example.com in the last 12 s", "Send code in 0:48"}},
		"enough-hour":         {"enough", []string{"That's enough for this hour", "5 codes were sent to a•••@example.com in the last 31 min", "Next code in 29 min", "The last code still works for 7 min. Enter it", "5 left"}},
		"enough-day":          {"enough", []string{"That's enough for today", "10 codes were sent", "h 40 min"}},
		"enough-network":      {"enough", []string{"Too many codes for your network", "a•••@example.com itself is not the reason"}},
		"failed":              {"failed", []string{"Could not be delivered", "did not reach a•••@example.com", "did not count: you can ask again at once", "Change the address", "Reference for support: S-"}},
		"failed-did-you-mean": {"failed", []string{"a•••@exmaple.com", "Did you mean example.com?", "Use example.com instead"}},
		"too-many-tries":      {"ended", []string{"Too many wrong codes", "A new one goes to a•••@example.com", "Send a new code in 0:40", "Reference for support: S-"}},
		"expired":             {"ended", []string{"This code has expired", "A code works for 10 min.", "Send a new code this minute"}},
		"away":                {"away", []string{"We can't do this right now", "not about you or how often you asked", "Your address is kept: ana@example.com", "Try again"}},
		"away-reading":        {"away", []string{"We can't do this right now", "Try again"}},
		"offline":             {"code", []string{"Check your mail"}},
		"approved":            {"approved", []string{"is yours"}},
		"no-script":           {"code", []string{"See what's new"}},
	}
	for _, s := range uitest.States() {
		t.Run(s.Name, func(t *testing.T) {
			c, ok := want[s.Name]
			if !ok {
				t.Fatal("this state has no words to say")
			}
			w, err := s.New("en")
			if err != nil {
				t.Fatal(err)
			}
			defer w.Close()
			shows(t, get(t, w, s.Query), c.kind, c.words...)
			w.Lang = "zh-TW,zh;q=0.9,en;q=0.5"
			page := get(t, w, s.Query)
			if kind(page) != c.kind || !strings.Contains(page, `<html lang="zh-Hans"`) {
				t.Errorf("in Chinese the card is %q", kind(page))
			}
			left := regexp.MustCompile(`S-[0-9A-Z]{4}-[0-9A-Z]{4}|Shop|no-reply@shop\.example|ana@\w+\.com|a•••@\w+\.com|ana\.example\.com|ex\w+\.com`).ReplaceAllString(text(page), "")
			if english := regexp.MustCompile(`[A-Za-z]{2,}`).FindString(left); english != "" {
				t.Errorf("in Chinese the page says %q: %s", english, text(page))
			}
		})
	}
}
