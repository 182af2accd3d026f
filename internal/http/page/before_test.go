package page_test

import (
	"testing"
	"time"

	"sendcode/internal/http/page/pagetest"
	"sendcode/internal/kit/servertest"
	vtest "sendcode/internal/verify/verification/verificationtest"
)

// A resend near the end of a code opens another verification. The mail with the first code may come
// after that, and be typed into a tab that shows either, also after a slip.
func TestACodeThatComesAfterTheNext(t *testing.T) {
	for tab, shown := range []string{"the new verification", "the old one"} {
		t.Run(shown, func(t *testing.T) {
			servertest.Bubble(t, func(t *testing.T) {
				r := vtest.NewRig(t, func(*vtest.Settings) {})
				r.Start()
				person := pagetest.NewVisitorOn(r)
				card := func(page string, err error) string {
					t.Helper()
					r.NoError(err)
					r.Sleep(time.Second) // until a mail is out
					return page
				}
				old := card(person.Post("", "send", "to", vtest.Ana))
				first := r.LastCode()
				r.Sleep(8*time.Minute + 30*time.Second)
				tabs := []string{card(person.Submit(old, "again")), old}
				if r.LastCode() == first {
					t.Fatal("the resend carries the same code")
				}
				page := card(person.Submit(tabs[tab], "check", "code", r.WrongCode(first)))
				shows(t, card(person.Submit(page, "check", "code", first)), "approved")
				r.Quit()
			})
		})
	}
}
