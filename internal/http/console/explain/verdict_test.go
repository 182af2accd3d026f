package explain

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/base/texts"
	"sendcode/internal/codes/policy"
	"sendcode/internal/http/console/consoletest"
	"sendcode/internal/kit/golden"
	"sendcode/internal/store"
	"sendcode/internal/verify/verification"
	"sendcode/quota"
)

func TestVerdict(t *testing.T) {
	for _, c := range verdictTests() {
		t.Run(c.name, func(t *testing.T) {
			for _, w := range texts.ConsoleLanguages() {
				v := Judge(c.story, c.facts, w)
				if v.Tone != c.tone {
					t.Errorf("tone %s, want %s", v.Tone, c.tone)
				}
				c.what.check(t, w, v.What)
				c.next.check(t, w, v.Next)
			}
		})
	}
}

// The reply is in the person's language. It names no server, rule or app, and no time of day.
func TestReply(t *testing.T) {
	for _, c := range verdictTests() {
		t.Run(c.name, func(t *testing.T) {
			for _, locale := range replyLocales {
				c.story.Send.Locale = locale
				reply := Judge(c.story, c.facts, texts.ConsoleTextsFor("")).Reply
				w := texts.PageTextsFor(locale)
				if !c.reply.pattern(w).MatchString(reply.Text) || reply.Text != "" && reply.Lang != w.Lang() {
					t.Errorf("in %s: %q, want %v in %s", reply.Lang, reply.Text, c.reply, w.Lang())
				}
				if english := reply.Lang == "" || reply.Lang == "en"; english != (reply.Meaning.Text == "") ||
					!english && !c.reply.pattern(texts.PageTextsFor("en")).MatchString(reply.Meaning.Text) {
					t.Errorf("in %s: the meaning %q, want %v in English", reply.Lang, reply.Meaning, c.reply)
				}
				for _, hidden := range []string{c.story.Send.Provider, c.story.Send.ProviderCode, "rule", "shop", "{", "UTC", "-"} {
					if hidden != "" && strings.Contains(reply.Text, hidden) {
						t.Errorf("%q is in the reply %q", hidden, reply.Text)
					}
				}
			}
		})
	}
}

var replyLocales = []string{"en-GB", "ar", "es-MX", "zh-CN"}

// testdata/texts.txt has each text of verdicts, replies and time lines as a reader sees it, with
// the values of the first test that has it. Each text occurs in a test.
func TestTexts(t *testing.T) {
	linesByKey := map[string]string{}
	add := func(of keys, sentence func(texts.Words) texts.Sentence) {
		for i, key := range of {
			if linesByKey[key] != "" {
				continue
			}
			for _, w := range texts.ConsoleLanguages() {
				if parts, err := of.split(w, sentence(w)); err == nil {
					linesByKey[key] += "\t" + parts[i].String() + "\n"
				}
			}
		}
	}
	for _, c := range verdictTests() {
		add(c.what, func(w texts.Words) texts.Sentence { return Judge(c.story, c.facts, w).What })
		add(c.next, func(w texts.Words) texts.Sentence { return Judge(c.story, c.facts, w).Next })
		for i, key := range c.reply {
			if linesByKey["reply "+key] != "" {
				continue
			}
			for _, c.story.Send.Locale = range replyLocales {
				text := Judge(c.story, c.facts, texts.ConsoleTextsFor("")).Reply.Text
				if parts := c.reply.pattern(texts.PageTextsFor(c.story.Send.Locale)).FindStringSubmatch(text); parts != nil {
					linesByKey["reply "+key] += "\t" + parts[i+1] + "\n"
				}
			}
		}
	}
	for _, c := range newerTests() {
		add(c.keys, func(w texts.Words) texts.Sentence { return Judge(c.story, c.facts, w).Newer.Text })
	}
	for _, c := range timelineTests() {
		for i, line := range c.lines {
			add(keys{line.key}, func(w texts.Words) texts.Sentence { return Timeline(c.story, w)[i].What })
		}
	}
	var b strings.Builder
	for _, key := range slices.Sorted(maps.Keys(linesByKey)) {
		b.WriteString(key + "\n" + linesByKey[key])
	}
	golden.File(t, "testdata/texts.txt", b.String())

	english := texts.ConsoleTextsFor("")
	for key := range english.Section("console") {
		kind, _, _ := strings.Cut(key, ".")
		if slices.Contains([]string{"verdict", "next", "later", "doubt", "cost", "wide", "unserved", "bounced", "unwanted"}, kind) && linesByKey[key] == "" {
			t.Errorf("no verdict has %s", key)
		}
	}
	for cause := range english.Section("replies") {
		if cause != "none" && linesByKey["reply "+cause] == "" { // "none" is for a recipient without rows
			t.Errorf("no reply has %s", cause)
		}
	}
}

// keys are keys of texts, in the order in which a sentence or a reply has them.
type keys []string

// check fails the test unless a sentence consists of the texts with these keys.
func (k keys) check(t *testing.T, w texts.Words, sentence texts.Sentence) {
	t.Helper()
	if _, err := k.split(w, sentence); err != nil {
		t.Errorf("in %s: %q\nwant %v: %v", w.Lang(), sentence, k, err)
	}
}

// split returns the part of a sentence that comes from each text. It returns an error if the
// sentence has other texts, or if a placeholder of a text has no value.
func (k keys) split(w texts.Words, sentence texts.Sentence) (parts []texts.Sentence, err error) {
	for _, key := range k {
		text := template(w, key)
		if space := w.Get("sentence.space"); parts != nil && space != "" && len(sentence) > 0 {
			if sentence[0].Text != space {
				return nil, fmt.Errorf("no space before %s", key)
			}
			sentence = sentence[1:]
		}
		if len(text) == 0 || len(text) > len(sentence) {
			return nil, fmt.Errorf("%s is missing", key)
		}
		for i, want := range text {
			switch got := sentence[i]; {
			case !strings.HasPrefix(want.Text, "{"):
				if got.Text != want.Text {
					return nil, fmt.Errorf("%s has %q", key, want.Text)
				}
			case got.Text == "" && got.At.IsZero() && !slices.Contains(optionalPlaceholders, want.Text),
				strings.ContainsAny(got.Text, "{}"):
				return nil, fmt.Errorf("%s in %s has no value", want.Text, key)
			}
		}
		parts, sentence = append(parts, sentence[:len(text)]), sentence[len(text):]
	}
	if len(sentence) > 0 {
		return nil, fmt.Errorf("it goes on with %q", sentence)
	}
	return parts, nil
}

// optionalPlaceholders have a value only if a server answered with a code, or if the caller sent
// the value.
var optionalPlaceholders = []string{"{reply}", "{words}", "{locale}", "{network}"}

var placeholder = regexp.MustCompile(`\{(\w+)\}`)

// template returns the text of a key with its placeholders still in it.
func template(w texts.Words, key string) texts.Sentence {
	var kept []texts.Substitution
	for _, found := range placeholder.FindAllStringSubmatch(w.Get(key), -1) {
		kept = append(kept, texts.Plain(found[1], found[0]))
	}
	return w.Sentence(key, kept...)
}

// pattern matches a reply that consists of the texts; each text is a group.
func (k keys) pattern(w texts.Words) *regexp.Regexp {
	pattern := ""
	for _, key := range k {
		pattern += "(" + quotedPlace.ReplaceAllString(regexp.QuoteMeta(w.Section("replies")[key]), ".+") + ")"
	}
	return regexp.MustCompile("^" + pattern + "$")
}

var quotedPlace = regexp.MustCompile(`\\\{\w+\\\}`)

// Of several rules, the verdict names the rule with the longest wait, and the time of its end,
// rounded up to seconds.
func TestVerdictNamesNextAdmission(t *testing.T) {
	byMinute := refusedBy("minute", 41713*time.Millisecond, 1)
	for _, c := range []struct {
		situation
		rule, at string
	}{
		{newSituation("the rule still blocks", byMinute).withWaits(17*time.Second+time.Microsecond, 0), "minute", "14:05:38"},
		{newSituation("another rule blocks", byMinute).withWaits(0, 20*time.Minute), "hour", "14:25:21"},
		{newSituation("two rules block", byMinute).withWaits(time.Minute, 20*time.Minute), "hour", "14:25:21"},
		{newSituation("quota not known", byMinute), "", "14:03:01"},
		{newSituation("another scope", refusedBy("office", time.Minute, 1)).withWaits(0, 0).withRuleScope(quota.Network), "", "14:03:20"},
		{newSituation("unknown browsers", byHour).withWaits(0, 20*time.Minute).withRuleScope(quota.Recipient).reserved(), "hour", "14:25:21"},
		{newSituation("the carrier", refusedBy(policy.CarrierName, time.Hour, 1)).withWaits(0, 0).withRule(policy.CarrierName, "", 30*time.Minute),
			policy.CarrierName, "14:35:21"},
	} {
		next := Judge(c.story, c.facts, texts.ConsoleTextsFor("")).Next
		var rule, at string
		for _, p := range next {
			switch {
			case p.Strong:
				rule = p.Text
			case !p.At.IsZero():
				at = p.At.TimeOfDay()
			}
		}
		if rule != c.rule || at != c.at {
			t.Errorf("%s: rule %q at %s, want %q at %s: %q", c.name, rule, at, c.rule, c.at, next)
		}
	}
}

func TestVerdictNamesProvider(t *testing.T) {
	unknown := newSituation("", sentAs(store.Sent, "", unnamed))
	for _, w := range texts.ConsoleLanguages() {
		for _, c := range []struct {
			situation
			name string
		}{
			{newSituation("known", accepted), "mx1.example.net"},
			{unknown, w.Get("through.unknown")},
			{unknown.text(), w.Get("through.unknown.sms")},
		} {
			if got := Judge(c.story, c.facts, w).What.String(); c.name == "" || !strings.Contains(got, c.name) {
				t.Errorf("%s in %s: %q is not in %q", c.situation.name, w.Lang(), c.name, got)
			}
		}
	}
}

// A reply names the time for which a code works: in whole minutes, rounded down, or in seconds if
// it is less than a minute.
func TestReplyNamesTimeLeft(t *testing.T) {
	for left, want := range map[time.Duration]string{
		7*time.Minute + 59*time.Second: "7 min", time.Minute + time.Second: "1 min", 59 * time.Second: "59 s",
	} {
		s := newSituation("", sentAs(store.Sent, "", func(_ *store.SendOrRefusal, v *store.Verification) {
			v.ExpiresAt = consoletest.Start.Add(3*time.Minute + left)
		})).withEarlierSends()
		s.story.Send.Locale = "en"
		if got := Judge(s.story, s.facts, texts.ConsoleTextsFor("")).Reply.Text; !strings.Contains(got, " "+want) {
			t.Errorf("%v: %q, want %s", left, got, want)
		}
	}
}

// newerTest is a situation with a newer request, and the texts about that request.
type newerTest struct {
	situation
	keys
}

func newerTests() []newerTest {
	newer := func(name string, became store.Status) situation {
		return newSituation(name, accepted).withLaterRequest(became)
	}
	unserved, otherApp := newer("not served", store.Refused).withWaits(0, 0), newer("refused, another app's", store.Refused).withWaits(0, 0)
	unserved.facts.Newer.BlockedBy = policy.ReasonVoIP
	otherApp.facts.Newer.App = "desk"
	return []newerTest{
		{newer("sent", store.Sent), keys{"newer.asked"}},
		{newer("refused, quota not known", store.Refused), keys{"newer.refused"}},
		{newer("refused, admitted by now", store.Refused).withWaits(0, 0), keys{"newer.refused", "next.refused.free"}},
		{otherApp, keys{"newer.refused"}},
		{unserved, keys{"newer.refused"}},
	}
}

func TestNewerRequest(t *testing.T) {
	for _, c := range newerTests() {
		t.Run(c.name, func(t *testing.T) {
			for _, w := range texts.ConsoleLanguages() {
				got := Judge(c.story, c.facts, w).Newer
				if got == nil || got.Link != SendPageAddress(uuid.UUID{5}) {
					t.Fatalf("newer request: %+v", got)
				}
				c.check(t, w, got.Text)
			}
		})
	}
	if s := newSituation("", accepted); Judge(s.story, s.facts, texts.ConsoleTextsFor("")).Newer != nil {
		t.Error("a newer request without one")
	}
}

var statuses = []store.Status{
	store.Queued, store.Sending, store.Sent, store.Delivered, store.Undelivered, store.Failed,
	store.Unknown, store.Refused,
}

// Every pair of a status and a state of the code has a verdict in both languages, even pairs that
// should not occur.
func TestEveryCombinationHasAVerdict(t *testing.T) {
	ends := map[verification.State]change{
		verification.Pending: func(*store.SendOrRefusal, *store.Verification) {}, verification.Approved: approved,
		verification.Canceled: canceled, verification.Expired: expired, verification.MaxAttemptsReached: locked,
	}
	for _, status := range statuses {
		for state, end := range ends {
			for _, reason := range []string{
				"", "rejected", "expired", "ended", "unreadable", "template", "no_answer",
				"temporary_rcpt", "suppressed", "paused", "new",
			} {
				s := newSituation("", sentAs(status, "", end, func(s *store.SendOrRefusal, _ *store.Verification) { s.Reason = reason }))
				if got := verification.StateOf(*s.story.Verification, s.story.Now); got != state {
					t.Fatalf("%s is %s", state, got)
				}
				for _, w := range texts.ConsoleLanguages() {
					for _, s := range []situation{s, s.alone(), s.withWaits(time.Minute, 0)} {
						v := Judge(s.story, s.facts, w)
						if v.What.String() == "" || v.Next.String() == "" || v.Tone == "" {
							t.Errorf("%s, %s, %q in %s: %q %q", status, state, reason, w.Lang(), v.What, v.Next)
						}
					}
				}
			}
		}
	}
}

// A send's page highlights only something that can be done, such as lifting a suppression that
// holds.
func TestJudgeHighlightsWhatCanBeDone(t *testing.T) {
	held := store.Suppression{Cause: store.CauseManual}
	for _, c := range []struct {
		situation
		settled, suppressed bool
	}{
		{newSituation("sent", accepted), false, false},
		{newSituation("approved", sentAs(store.Sent, "250 2.0.0", approved)), true, false},
		{newSituation("test recipient", sentAs(store.Sent, "", toTest)), true, false},
		{newSituation("ended", failedAs("ended", "", false, approved)), true, false},
		{newSituation("refused", refusedBy("minute", time.Minute, 1)), false, false},
		{newSituation("suppressed", suppressed).stopped(held), false, true},
		{newSituation("lifted", suppressed).stopped(store.Suppression{Cause: store.CauseManual, LiftedAt: aMinuteIn}), false, false},
		{newSituation("bounced", noAddress).bounced(store.Suppression{}), false, true},
	} {
		v := Judge(c.story, c.facts, texts.ConsoleTextsFor(""))
		if v.Settled != c.settled || v.Suppressed != c.suppressed {
			t.Errorf("%s: settled %v, suppressed %v", c.name, v.Settled, v.Suppressed)
		}
	}
}
