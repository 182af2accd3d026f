package page_test

import (
	"strings"
	"testing"
	"time"

	"sendcode/internal/http/page/pagetest"
	"sendcode/internal/kit/servertest"
	vtest "sendcode/internal/verify/verification/verificationtest"
)

// A resend near the end of a code opens another verification. The mail with the first code may come
// after that, and be typed into a tab that shows either, also after a slip.
func TestACodeThatComesAfterTheNext(t *testing.T) {
	for tab, shows := range []string{"the new verification", "the old one"} {
		t.Run(shows, func(t *testing.T) {
			servertest.Bubble(t, func(t *testing.T) {
				r := vtest.NewRig(t, func(*vtest.Settings) {})
				r.Start()
				person := pagetest.NewVisitorOn(r)
				var tabs [2]string
				show := func(n int, card string, err error) {
					t.Helper()
					r.NoError(err)
					r.Sleep(time.Second) // until a mail is out
					tabs[n] = card
				}
				submit := func(n int, act string, fields ...string) {
					t.Helper()
					card, err := person.Submit(tabs[n], act, fields...)
					show(n, card, err)
				}
				for n := range tabs {
					card, err := person.Get("")
					show(n, card, err)
					if n == 0 {
						submit(0, "send", "to", vtest.Ana)
					}
				}
				first := r.LastCode()
				r.Sleep(8*time.Minute + 30*time.Second)
				submit(0, "again")
				if r.LastCode() == first {
					t.Fatal("the resend carries the same code")
				}
				submit(tab, "check", "code", r.WrongCode(first))
				submit(tab, "check", "code", first)
				if !strings.Contains(tabs[tab], `data-kind="approved"`) {
					t.Errorf("the first code is not taken: %s", tabs[tab])
				}
				r.Quit()
			})
		})
	}
}
