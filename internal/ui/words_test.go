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
		"enough-network":      {"enough", []string{"Too many codes for your network", "This limit is not about a•••@example.com."}},
		"failed":              {"failed", []string{"Could not be delivered", "did not reach a•••@example.com", "did not count: you can ask again at once", "Change the address", "Reference for support: S-"}},
		"failed-did-you-mean": {"failed", []string{"a•••@exmaple.com", "Did you mean example.com?", "Use example.com instead"}},
		"too-many-tries":      {"ended", []string{"Too many wrong codes", "A new one goes to a•••@example.com", "Send a new code in 0:40", "Reference for support: S-"}},
		"expired":             {"ended", []string{"This code has expired", "A code works for 10 min.", "Send a new code"}},
		"away":                {"away", []string{"We can't do this right now", "not about you or how often you asked", "Your address is kept: ana@example.com", "Try again"}},
		"away-reading":        {"away", []string{"We can't do this right now", "Try again"}},
		"offline":             {"code", []string{"Check your mail"}},
		"approved":            {"approved", []string{"is yours"}},
		"no-script":           {"code", []string{"See what's new"}},
		"locked-out":          {"ask", []string{"Too many wrong codes were entered. Try again later."}},
		"locked-out-code":     {"code", []string{"Too many wrong codes were entered. Try again later."}},
		"too-many-requests":   {"away", []string{"Too many requests from your network", "Nothing was done, and no code was used up."}},
		"code-long":           {"code", []string{"as soon as all 8 digits are in"}},
		"code-long-approved":  {"approved", []string{"is yours"}},

		"phone-ask":              {"ask", []string{"We'll send you a 6-digit code.", "Email", "Text message", "United States (+1)", "As in (201) 555-0123, or with +"}},
		"phone-ask-choice":       {"ask", []string{"Email address", "Phone number"}},
		"phone-ask-one-country":  {"ask", []string{"A number in Germany (+49), as in 01512 3456789."}},
		"phone-ask-bad":          {"ask", []string{"Enter the number alone"}},
		"phone-ask-denied":       {"ask", []string{"We do not send codes to phone numbers of this country. You can have the code sent by email."}},
		"phone-ask-landline":     {"ask", []string{"This looks like a landline, which gets no text messages. If this one does, send it once more."}},
		"phone-ask-change":       {"ask", []string{"Back to the code"}},
		"phone-sending":          {"code", []string{"On its way", "Sending a code to +49 151•••789"}},
		"phone-code":             {"code", []string{"Check your phone", "Code sent to +49 151•••789", "Send again in 0:56"}},
		"phone-code-nothing-yet": {"code", []string{"The mobile network accepted it 18 s ago.", "A new text message brings the same code.", "Check that your phone has signal, and look among blocked messages"}},
		"phone-code-ready":       {"code", []string{"Send again this minute", "Send by email instead"}},
		"phone-code-unknown":     {"code", []string{"It may still arrive", "We lost the mobile network's answer", "Send by email instead"}},
		"phone-code-arrived":     {"code", []string{"Check your phone", "The mobile network says that it is on your phone."}},
		"phone-code-undelivered": {"code", []string{"It did not arrive", "could not hand the last text message over to your phone", "Send by email instead"}},
		"phone-code-wrong":       {"code", []string{"That is not the code. 4 tries left."}},
		"phone-enough-hour":      {"enough", []string{"That's enough for this hour", "5 codes were sent to +49 151•••789", "Send by email instead", "The last code still works"}},
		"phone-failed":           {"failed", []string{"Could not be delivered", "did not reach +49 151•••789", "Change the number", "Send by email instead", "did not count: you can ask again at once"}},
		"phone-carrier-limit":    {"enough", []string{"Your mobile network lets no more codes through for now", "+49 151•••789 has had them", "Next code in 23 h", "mobile network 1 of 1 used", "Send by email instead"}},
		"phone-expired":          {"ended", []string{"This code has expired", "A new one goes to +49 151•••789", "Send by email instead"}},
		"phone-away":             {"away", []string{"Your number is kept: +49 1512 3456789"}},
		"phone-approved":         {"approved", []string{"+49 151•••789 is yours", "Use another number"}},
		"phone-after-mail":       {"code", []string{"Check your phone", "Send by email instead a•••@example.com", "Enter the code from the email"}},
		"phone-mail-ready":       {"code", []string{"Check your mail", "Send a text message instead"}},
		"phone-mail-other-waits": {"code", []string{"Check your mail", "Send a text message instead +49 151•••789 · next code in 0:35", "Enter the code from the text message"}},
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
			left := regexp.MustCompile(`S-[0-9A-Z]{4}-[0-9A-Z]{4}|Shop|2345 ana|no-reply@shop\.example|ana@\w+\.com|a•••@\w+\.com|ana\.example\.com|ex\w+\.com`).ReplaceAllString(text(page), "")
			if english := regexp.MustCompile(`[A-Za-z]{2,}`).FindString(left); english != "" {
				t.Errorf("in Chinese the page says %q: %s", english, text(page))
			}
		})
	}
}
