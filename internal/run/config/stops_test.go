package config

import (
	"testing"
	"time"

	"sendcode/internal/base/recipient"
	"sendcode/internal/codes/policy"
)

// A stop with a time ends at that time, and a stop with a date ends when that day is over in UTC.
func TestStops(t *testing.T) {
	c := must(t, `
stop:
  - {to: abuser@example.com, until: "2027-01-31T08:00:00Z"}
  - {to: "+4915123456789"}
  - {to: "*@Bücher.example", reason: traps}
  - {to: "+882*", until: 2027-01-30}
  - {channel: sms, reason: pumping, until: "2027-01-31T08:00:01Z"}
  - {purpose: default, reason: a mistake in the text}
  - {channel: email, purpose: default}
`, "SENDCODE_INDEX_KEY="+goodIndex)
	last := time.Date(2027, 1, 31, 8, 0, 0, 0, time.UTC)
	midnight := time.Date(2027, 1, 31, 0, 0, 0, 0, time.UTC) // the end of the day before
	texts := policy.Pause{Channel: recipient.SMS, Reason: "pumping"}
	for _, x := range []struct {
		at         time.Time
		recipients int
		prefixes   []string
		pauses     int
		first      policy.Pause
		ends       time.Time
	}{
		{time.Time{}, 2, []string{"+882"}, 3, texts, midnight},
		{midnight.Add(-1), 2, []string{"+882"}, 3, texts, midnight},
		{midnight, 2, nil, 3, texts, last},
		{last.Add(-1), 2, nil, 3, texts, last},
		{last, 1, nil, 3, texts, last.Add(time.Second)},
		{last.Add(time.Second), 1, nil, 2, policy.Pause{Purpose: "default", Reason: "a mistake in the text"}, time.Time{}},
	} {
		set := c.PolicySet(x.at)
		wantEqual(t, x.at.String(),
			[]any{len(set.Blocks.Recipients), set.Blocks.Prefixes, len(set.Pauses), set.Pauses[0], c.NextStopEnd(x.at)},
			[]any{x.recipients, x.prefixes, x.pauses, x.first, x.ends})
		wantEqual(t, "domains, which have no end", set.Blocks.Domains, map[string]bool{"xn--bcher-kva.example": true})
	}
	number := c.Stops[1].Recipient
	wantEqual(t, "a number", c.PolicySet(last).Blocks.IsBlocked(number, number.Hash(c.IndexKeyBytes())), true)
}

// A stop of a number or a prefix also applies to the other form of a mobile number, with or without
// Argentina's 9 and Mexico's 1.
func TestStopsApplyToBothFormsOfANumber(t *testing.T) {
	for _, x := range []struct {
		stop, number string
		want         bool
	}{
		{"+541166773399", "+5491166773399", true},
		{"+5491166773399", "+541166773399", true},
		{"+5215512345678", "+525512345678", true},
		{"+5411*", "+5491166773399", true},
		{"+54911*", "+541166773399", true},
		{"+54*", "+541166773399", true},
		{"+5411*", "+5493514567890", false},
		{"+52155*", "+525512345678", true},
		{"+5255*", "+5215512345678", true},
	} {
		c := must(t, "stop:\n  - {to: \""+x.stop+"\"}\n", "SENDCODE_INDEX_KEY="+goodIndex)
		number, err := recipient.Parse(recipient.SMS, x.number)
		wantEqual(t, x.number, err, nil)
		counted := recipient.Folding{}.Hashes(number, c.IndexKeyBytes()).Counted
		wantEqual(t, x.stop+" stops "+x.number, c.PolicySet(time.Time{}).Blocks.IsBlocked(number, counted), x.want)
	}
}
