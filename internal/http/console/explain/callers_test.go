package explain

import (
	"strings"
	"testing"
	"time"

	"sendcode/internal/base/texts"
	"sendcode/internal/http/console/consoletest"
	"sendcode/internal/store"
	"sendcode/quota"
)

// call is the question of a person where their code is. Phrases, separated by bars, are in the words that
// the person needs to hear: all of what in what happened, all of next in what to do, none of never
// in either.
type call struct {
	name              string
	verdict           Verdict
	what, next, never string
}

// on judges a situation: its facts, and what became of the send.
func on(s situation) Verdict { return Judge(s.story, s.facts, texts.ForConsole("en")) }

// sent, failed and refused are the most frequent ends of a send.
func sent(code string, more ...change) situation { return told("", sentAs(store.Sent, code, more...)) }
func failed(reason, code string) situation       { return told("", failedAs(reason, code, false)) }
func refused(rule string, scope quota.Scope) situation {
	return told("", refusedBy(rule, 42*time.Second, 1)).with(42*time.Second, 20*time.Minute).by(scope)
}

func calls() []call {
	minute := refused("minute", quota.Recipient).after(store.Sent)
	minute.facts.Quota.Rules[1].RetryAfter = 0
	near := told("", sentAs(store.Sent, "250")).story.Send
	near.To = "a•••@gmial.com"
	w := texts.ForConsole("en")
	return []call{
		{"accepted, and nothing in the inbox", on(sent("250 2.0.0")),
			"Accepted by|at 14:02:20 (250", "spam|works until 14:12:20", "asked again"},
		{"ran out without being entered", on(sent("250", expired)),
			"Accepted by|at 14:02:20", "expired at 14:05:20|ask for a new one|spam", "works until"},
		{"entered and approved", on(sent("250", approved)),
			"Accepted by|at 14:02:20", "entered|approved at 14:03:30|nothing to do", "spam|new one"},
		{"typed wrongly until it locked", on(sent("250", locked)),
			"Locked after 5 wrong codes, the last at 14:04:00|Accepted by|at 14:02:20", "older code|guessed|ask for a new one",
			"works until|spam"},
		{"canceled by the app", on(sent("250", canceled)),
			"Accepted by|at 14:02:20", "canceled at 14:03:40|no longer works|ask for a new one", "spam"},
		{"no answer after the whole mail", on(told("", sentAs(store.Unknown, "", unanswered))),
			"whole mail was handed to|not answered|may arrive, or not", "inbox and in spam|same code|until 14:12:20",
			"Accepted|Rejected"},
		{"bounced afterwards", on(sent("250").bounced(store.Suppression{}).later(store.ProviderBounced, "550 5.1.1")),
			"Accepted by|at 14:02:20|bounced later, at 14:02:21|postmark|550 5.1.1",
			"did not arrive|address with them, letter by letter|no mail until 2026-04-01", "spam"},
		{"bounced afterwards, mailbox full", on(sent("250").later(store.ProviderBounced, "552 5.2.2")),
			"Accepted by|at 14:02:20|bounced later, at 14:02:21|mailbox is full",
			"did not arrive|make room|another address", "letter by letter|spam"},
		{"called spam", on(sent("250").unwanted(store.Suppression{}).later(store.ProviderComplained, "abuse")),
			"Accepted by|at 14:02:20|14:02:21|called spam", "spam folder|no mail until 2026-04-01|lift", ""},
		{"text message, taken and not there", on(sent("201").text()),
			"Accepted by|at 14:02:20", "phone|unknown senders|works until 14:12:20", "spam folder|inbox|mail"},
		{"text message, did not come to the phone", on(told("", sentAs(store.Undelivered, "201")).text()),
			"Accepted by|did not come to the phone", "phone on|number theirs|ask again", "mail"},
		{"text message, came to the phone", on(told("", sentAs(store.Delivered, "201")).text()),
			"Accepted by|delivered to the phone", "It arrived|unknown senders|works until 14:12:20", "mail"},
		{"asked again since, and the newer one works", on(sent("250 2.0.0").since(store.Sent)),
			"They asked again at 14:04:20: sent|Accepted by|at 14:02:20", "spam|works until 14:12:20", "ran out"},

		{"asked again too soon", on(minute), "Refused at 14:02:20|minute",
			"ask again at 14:06:03|code that they have works until 14:12:20", "hour"},
		{"enough for this hour", on(refused("hour", quota.Recipient).after(store.Sent)),
			"Refused at 14:02:20|hour", "ask again at 14:25:21|code that they have works until 14:12:20", "day"},
		{"enough for this day", on(told("", refusedBy("day", 5*time.Hour, 1)).alone()),
			"Refused at 14:02:20|day", "ask again from 19:02:20", "works until"},
		{"the app's own limit", on(refused("whole_app", quota.App)),
			"Refused at 14:02:20|whole_app|all requests of the app shop", "not about this person|ask again|14:03:02", ""},
		{"too many from one network", on(refused("office", quota.IP)),
			"Refused at 14:02:20|office|one network", "not about this person|another network|14:03:02", ""},
		{"too many of everybody", on(refused("everybody", quota.Global)),
			"Refused at 14:02:20|everybody|all apps", "not about this person|14:03:02", ""},
		{"their mail server refused too many",
			on(told("", refusedBy("failures", 20*time.Hour, 1)).with(0, 0).failing(20 * time.Hour).by(quota.Failures)),
			"Refused at 14:02:20|failures|could not be delivered", "another address|ask again at 2026-03-05 10:05:21", ""},

		{"no such address", on(failed("rejected", "550 5.1.1").bounced(store.Suppression{})),
			"Rejected by|at 14:02:20|no such mailbox there|550 5.1.1",
			"spelling|letter by letter|did not count|no mail until 2026-04-01", "spam"},
		{"rejected for what we are", on(failed("rejected", "554 5.7.1")),
			"Rejected by|at 14:02:20|policy|554 5.7.1", "about us|SPF, DKIM", "letter by letter"},
		{"mailbox full to the end", on(failed("expired", "452 4.2.2")),
			"did not get out before its code expired at 14:12:20|mailbox is full|452 4.2.2", "make room|another address",
			"between us and"},
		{"put off, and tried again", on(told("", waiting(store.Queued, "temporary_rcpt", "451 4.7.1"))),
			"waits for its next attempt|451 4.7.1", "next try is due at 14:05:24|until 14:12:20|some minutes",
			"spam|ask again"},
		{"our mail server was down", on(failed("expired", "")),
			"did not get out before its code expired at 14:12:20|could not be reached",
			"between us and|ask for a new code", "make room|letter by letter"},
		{"the carrier's own limit for a number",
			on(failed("carrier_limit", "200 9").with(0, 0).held(30 * time.Minute).text()),
			"takes no more|number", "14:35:21|did not count", ""},

		{"suppressed since a bounce",
			on(failed("suppressed", "").stopped(store.Suppression{Cause: store.CauseHardBounce, Detail: "550 5.1.1"})),
			"Nothing was sent|since 2026-03-02 14:02:20|gets no mail|no such mailbox",
			"until 2026-04-01 14:02:20|lift it at Suppressions|ask again|did not count", "spam|Accepted"},
		{"paused", on(failed("paused", "").pausedFor("the templates are wrong")),
			"Nothing was sent|paused", "still is|the templates are wrong|`stop`|did not count", "spam"},
		{"blocked", on(failed("blocked", "")), "not sent|block list", "`stop`|ask again", "spam"},

		{"nothing reached us", *JudgeWithoutRows("", nil, w),
			"No request|reached us", "spell it|reference|ask again", ""},
		{"asked for a misspelled domain", *JudgeWithoutRows("", []store.SendOrRefusal{near}, w),
			"No request|reached us|@gmial.com|14:02:20", "how they spelled|ask again", "spam"},
		{"number of a country that is not served", *JudgeWithoutRows("country_not_served", nil, w),
			"country|not served", "another number|countries", "spam"},
		{"erased", on(sent("250 2.0.0", canceled).forgotten()),
			"Accepted by|at 14:02:20|erased", "ended with it|ask for a new one", "spam"},
	}
}

// lacks returns the first phrase that a call's verdict must have and v has not, or must not have and
// has; "" if v is right.
func (c call) lacks(v Verdict) string {
	short := strings.NewReplacer(consoletest.Start.Format(time.DateOnly+" "), "", " UTC", "")
	what := v.What.String()
	if v.Newer != nil {
		what += v.Newer.Text.String()
	}
	for _, n := range v.Near {
		what += n.Text.String()
	}
	what = short.Replace(what)
	next := short.Replace(v.Next.String())
	for text, phrases := range map[string]string{what: c.what, next: c.next} {
		for p := range strings.SplitSeq(phrases, "|") {
			if !strings.Contains(text, p) {
				return p
			}
		}
	}
	for p := range strings.SplitSeq(c.never, "|") {
		if p != "" && strings.Contains(what+" "+next, p) {
			return p
		}
	}
	return ""
}

// A verdict says what a caller needs to hear, and no other caller would be content with it.
func TestJudgeSaysWhatACallerNeeds(t *testing.T) {
	all := calls()
	for i, c := range all {
		if p := c.lacks(c.verdict); p != "" {
			t.Errorf("%s: %q is missing, or misleads: %s / %s", c.name, p, c.verdict.What, c.verdict.Next)
		}
		for j, other := range all {
			if i != j && other.lacks(c.verdict) == "" {
				t.Errorf("what is right for %q would be so for %q, too: %s / %s", c.name, other.name, c.verdict.What, c.verdict.Next)
			}
		}
	}
}
