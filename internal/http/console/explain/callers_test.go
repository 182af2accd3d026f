package explain

import (
	"strings"
	"testing"

	"sendcode/internal/base/texts"
)

// A verdict says what its caller needs to hear, and no other caller's verdict says that.
func TestJudgeSaysWhatACallerNeeds(t *testing.T) {
	needs := map[string]string{ // words of the verdict on each situation
		"sent":                                      "Ask them to check spam; the code works until",
		"sent, expired":                             "check spam together",
		"sent, approved":                            "entered and approved",
		"sent, too many wrong tries":                "somebody else guessed",
		"sent, canceled":                            "It was canceled",
		"sent, erased":                              "Its recipient was erased",
		"sent, bounced later":                       "It did not arrive: check the address with them",
		"sent, bounced later, mailbox full":         "It did not arrive: they need to make room",
		"sent, called spam, and lifted":             "it was called spam",
		"unknown":                                   "look in the inbox and in spam",
		"text message: sent":                        "the phone may filter it",
		"text message: undelivered":                 "did not come to the phone",
		"text message: delivered":                   "It arrived. If they do not find it",
		"refused, still blocked":                    "until then the rule minute allows no more",
		"refused, another rule blocks by now":       "until then the rule hour allows no more",
		"refused, several, quota not known":         "once that wait is over",
		"refused, and a code that works":            "The code that they have works until",
		"refused, by a rule on app":                 "all requests of the app shop together",
		"refused, by a rule on ip":                  "one network address",
		"refused, by a rule on global":              "the requests of all apps together",
		"refused, too many failures":                "could not be delivered",
		"failed, no such address":                   "Check the spelling with them, letter by letter",
		"failed, policy":                            "SPF, DKIM, DMARC",
		"failed, mailbox full until expired":        "said to the end that the mailbox is full",
		"failed, not tried before it expired":       "between us and",
		"failed, suppressed":                        "lift it at Suppressions",
		"failed, paused and still so":               "The entry is in `stop`",
		"failed, on the block list":                 "on the block list",
		"queued, put off":                           "waits for its next attempt",
		"text message: failed, the carrier's limit": "takes no more for this number",
		"nothing reached us":                        "Have them spell it",
		"a country that is not served":              "sms.countries",
	}
	w := texts.ForConsole("en")
	verdicts := map[string]Verdict{
		"nothing reached us": *JudgeWithoutRows("", nil, w), "a country that is not served": *JudgeWithoutRows("country_not_served", nil, w),
	}
	for _, s := range situations() {
		verdicts[s.name] = Judge(s.story, s.facts, w)
	}
	for caller := range needs {
		text := verdicts[caller].What.String() + " " + verdicts[caller].Next.String()
		for other, words := range needs {
			if strings.Contains(text, words) != (other == caller) {
				t.Errorf("%q is told %q; what %q needs is %q", caller, text, other, words)
			}
		}
	}
}
