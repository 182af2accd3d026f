package config

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

// Neither a recipient nor its code is printed.
func TestTestRecipientsAndBlocks(t *testing.T) {
	c := must(t, `
test_recipients:
  - {to: Reviewer@Example.com, code: "424242", expires: 2027-01-31}
  - {to: "+4915123456789", code: BCDFGHJK, expires: "2027-01-31T08:00:00+02:00"}
stop: [{to: abuser@example.com, reason: chargebacks}]
`)
	a, b := c.TestRecipients[0], c.TestRecipients[1]
	wantEqual(t, "recipients", []string{a.To.Address(), a.Code, b.To.Address(), b.Code, c.Stops[0].Recipient.Address()},
		[]string{"Reviewer@example.com", "424242", "+4915123456789", "BCDFGHJK", "abuser@example.com"})
	wantEqual(t, "the end of a day", a.Expires, time.Date(2027, 2, 1, 0, 0, 0, 0, time.UTC))
	wantEqual(t, "a time", b.Expires, time.Date(2027, 1, 31, 6, 0, 0, 0, time.UTC))
	shown := c.YAML()
	for _, hidden := range []string{"eviewer", "abuser@", "424242", "491512", "BCDFGHJK"} {
		if strings.Contains(shown, hidden) {
			t.Errorf("%q is shown: %s", hidden, shown)
		}
	}
	wantEqual(t, "counted", strings.Count(shown, "1 more, not shown")+2*strings.Count(shown, "2 more, not shown"), 3)
}

func TestDisposableDomains(t *testing.T) {
	wantEqual(t, "domains", must(t, "disposable_domains: /list").Disposable,
		map[string]bool{"mailinator.com": true, "xn--bcher-kva.example": true})
	odd := must(t, "disposable_domains: /odd")
	wantEqual(t, "domains of a list with odd lines", slices.Sorted(maps.Keys(odd.Disposable)), []string{
		"five.example", "four.example", "one.example", "seven.example", "six.example", "three.example", "two.example",
	})
	const warning = "disposable_domains: 4 of 12 lines are skipped; the first is /odd:10: xn--bei.cf is not a domain."
	wantEqual(t, "a warning", slices.Contains(odd.Warnings, warning), true)
}
