package page_test

import (
	"testing"

	"sendcode/internal/http/page/pagetest"
)

// The configuration changes between a code and its check: the page goes by the code that was sent,
// and then by the new ones. Slips in a code of letters are explained too, and cost no try.
func TestACodeFromBeforeAChange(t *testing.T) {
	w := mailed(t)
	w.SendLetters()
	page := get(t, w, "")
	shows(t, page, "code", "all 6 digits")
	contains(t, page, `inputmode="numeric"`)
	shows(t, post(t, w, "", "check", "code", "4829"), "code", "The code has 6 digits.")
	shows(t, post(t, w, "", "check", "code", pagetest.Code), "approved")
	shows(t, get(t, w, "?view=new"), "ask", "a code of 8 characters")
	shows(t, post(t, w, "?view=new", "send", "to", "ben@example.com"), "code", "all 8 characters")
	for typed, words := range map[string]string{
		"": "Enter the code from the mail.", "bkvxrtnzb": "The code has 8 characters.",
		"bkvxrtna": "Codes have no digits and no vowels",
	} {
		shows(t, post(t, w, "", "check", "code", typed), "code", words)
	}
	is(t, w.Codes.Checks(), 1)
	shows(t, post(t, w, "", "check", "code", "ｂｋｖｘ rtnz"), "approved")
}
