package explain

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/base/texts"
	"sendcode/internal/codes/policy"
	"sendcode/internal/http/console/consoletest"
	"sendcode/internal/store"
)

// timelineTest is a situation with its time line.
type timelineTest struct {
	situation
	lines []line
}

// line is an entry of a time line: its tone and the key of its text.
type line struct {
	tone Tone
	key  string
}

var (
	admitted = []line{{Neutral, "line.asked"}, {Neutral, "line.admitted"}}
	again    = []line{{Neutral, "line.again"}, {Neutral, "line.admitted"}}
	doubt    = line{Warn, "line.doubt"}
	wrong    = line{Warn, "line.wrong"}
	until    = line{Neutral, "line.until"}
)

// timelineTests returns the tests of Timeline: each outcome of a row, each end of a code, and each
// event that a provider reports.
func timelineTests() (all []timelineTest) {
	row := func(s situation, outcome ...line) {
		all = append(all, timelineTest{s.alone(), append(admitted[:2:2], outcome...)})
	}
	code := func(s situation, outcome line, end ...line) {
		all = append(all, timelineTest{s, append(append(admitted[:2:2], outcome), end...)})
	}
	refusal := func(s situation, key string) {
		all = append(all, timelineTest{s.alone(), []line{{Warn, key}}})
	}
	row(newSituation("queued", waiting(store.Queued, "", "", unnamed)), line{Neutral, "line.queued"})
	row(newSituation("queued, more than may be sent", waiting(store.Queued, "backlog", "", thirdTry)), line{Neutral, "line.queued"})
	row(newSituation("queued, put off", waiting(store.Queued, "temporary_rcpt", "421 4.7.0")), line{Warn, "line.postponed"})
	row(newSituation("queued, put off without a code", waiting(store.Queued, "temporary_dial", "")), line{Warn, "line.postponed"})
	row(newSituation("queued, in doubt", waiting(store.Queued, "temporary_dial", "", doubtful)), doubt, line{Warn, "line.postponed"})
	row(newSituation("sending", waiting(store.Sending, "", "")), line{Neutral, "line.sending"})
	row(newSituation("sent", accepted), line{Good, "line.sent"})
	row(newSituation("sent, in doubt", sentAs(store.Sent, "250 2.0.0", doubtful)), doubt, line{Good, "line.sent"})
	row(newSituation("delivered", sentAs(store.Delivered, "201")), line{Good, "line.sent"})
	row(newSituation("undelivered", sentAs(store.Undelivered, "201")), line{Warn, "line.sent"})
	row(newSituation("unknown", sentAs(store.Unknown, "", unanswered)), line{Warn, "line.unknown"})
	row(newSituation("unknown, not tried again", sentAs(store.Unknown, "", func(s *store.SendOrRefusal, _ *store.Verification) { s.Took = 0 })),
		line{Warn, "line.failed"})
	row(newSituation("failed, not counted", noAddress), line{Bad, "line.failed.free"})
	row(newSituation("failed, counted", failedAs("blocked", "", true)), line{Bad, "line.failed"})
	row(newSituation("failed, suppressed", suppressed), line{Bad, "line.untried"})
	row(newSituation("failed, paused", failedAs("paused", "", false)), line{Bad, "line.untried"})
	refusal(newSituation("refused", byHour), "line.refused.one")
	refusal(newSituation("refused, several", refusedBy("hour", time.Minute, 3)), "line.refused.other")
	refusal(newSituation("not served", refusedBy(policy.ReasonVoIP, 0, 1)), "line.unserved.one")
	refusal(newSituation("not served, several", refusedBy(policy.ReasonVoIP, 0, 7)), "line.unserved.other")

	sent := line{Good, "line.sent"}
	code(newSituation("code works", accepted), sent, until)
	code(newSituation("code works, one try", sentAs(store.Sent, "", halfTried)), sent, wrong, until)
	code(newSituation("code approved", sentAs(store.Sent, "", approved)), sent, wrong, line{Good, "line.approved"})
	code(newSituation("code approved, as the app reports", sentAs(store.Sent, "", approved, callers)), sent, wrong, line{Good, "line.reported"})
	code(newSituation("code approved, so it was sent", sentAs(store.Sent, "", unnamed, doubtful, approved,
		func(s *store.SendOrRefusal, _ *store.Verification) { s.Took = 0 })),
		doubt, line{Good, "line.sent.inferred"}, wrong, line{Good, "line.approved"})
	code(newSituation("code canceled", sentAs(store.Sent, "", canceled)), sent, line{Warn, "line.canceled"})
	code(newSituation("code locked", sentAs(store.Sent, "", locked)), sent, wrong, wrong, wrong, wrong, wrong, line{Bad, "line.locked"})
	code(newSituation("code locked, recipient erased",
		sentAs(store.Sent, "", locked, func(_ *store.SendOrRefusal, v *store.Verification) { v.Checks = nil })),
		sent, line{Bad, "line.locked"})
	code(newSituation("code expired", sentAs(store.Sent, "", expired)), sent, line{Warn, "line.expired"})
	code(newSituation("code of the app", sentAs(store.Sent, "", callers)), sent)
	code(newSituation("somebody else's code", sentAs(store.Sent, "", func(_ *store.SendOrRefusal, v *store.Verification) {
		v.NotMeAt = consoletest.Start.Add(time.Minute)
	})), sent, line{Bad, "line.not_me"}, until)
	code(newSituation("queued, code expired", waiting(store.Queued, "", "", unnamed, expired)), line{Warn, "line.queued.over"}, line{Warn, "line.expired"})
	code(newSituation("queued, put off, code expired", waiting(store.Queued, "temporary_dial", "", expired)),
		line{Warn, "line.postponed.over"}, line{Warn, "line.expired"})

	for _, event := range []struct {
		kind store.ProviderEventKind
		tone Tone
	}{
		{store.ProviderDelivered, Good}, {store.ProviderDelayed, Warn}, {store.ProviderBounced, Bad}, {store.ProviderComplained, Bad},
		{store.ProviderOptedOut, Warn}, {store.ProviderUnmapped, Warn}, {"of a later version", Neutral},
	} {
		row(newSituation("provider event: "+string(event.kind), accepted).withEvent(event.kind, "250"), sent, line{event.tone, "line.told"})
	}
	return append(all, timelineTest{threeRequests(), append(append(append(admitted[:2:2],
		line{Bad, "line.failed.free"}, line{Warn, "line.refused.other"}, wrong), again...), sent, line{Good, "line.approved"})})
}

func TestTimeline(t *testing.T) {
	for _, c := range timelineTests() {
		t.Run(c.name, func(t *testing.T) {
			for _, w := range texts.ConsoleLanguages() {
				got := Timeline(c.story, w)
				if len(got) != len(c.lines) {
					t.Fatalf("%d lines, want %v: %v", len(got), c.lines, got)
				}
				for i, want := range c.lines {
					keys{want.key}.check(t, w, got[i].What)
					if got[i].Tone != want.tone || got[i].Future != (want == until) {
						t.Errorf("%s: %s, future %v; want %s", want.key, got[i].Tone, got[i].Future, want.tone)
					}
				}
			}
		})
	}
}

// threeRequests returns a resend after a failed send and a refusal.
func threeRequests() situation {
	s := newSituation("three requests, two sends",
		sentAs(store.Sent, "250 2.0.0", approved, func(s *store.SendOrRefusal, v *store.Verification) {
			s.Number, v.Sends = 2, 2
			s.LoggedAt = consoletest.Start.Add(time.Minute + 2*time.Millisecond)
			s.FinishedAt = consoletest.Start.Add(time.Minute + 99*time.Millisecond)
		}))
	first := newSituation("", failedAs("rejected", "550 5.1.1", false, func(s *store.SendOrRefusal, _ *store.Verification) { s.ID[0] = 1 }))
	blocked := newSituation("", refusedBy("minute", 42*time.Second, 3))
	blocked.story.Send.ID[0], blocked.story.Send.LoggedAt = 2, consoletest.Start.Add(18*time.Second)
	s.story.Related = []store.SendOrRefusal{first.story.Send, blocked.story.Send, s.story.Send}
	return s
}

// An entry has the time of its event, if that is known. The last entry of another request links to
// that request.
func TestTimelineTimesAndLinks(t *testing.T) {
	first, refusal := SendPageAddress(uuid.UUID{1}), SendPageAddress(uuid.UUID{2})
	for i, want := range []struct{ at, link string }{
		{"14:02:20.118", ""}, {"14:02:20.118", ""}, {"14:02:20.302", first}, {"14:02:38.118", refusal}, {"14:02:40.118", ""},
		{"14:03:20.120", ""}, {"14:03:20.120", ""}, {"14:03:20.217", ""}, {"14:03:30.118", ""},
	} {
		got := Timeline(threeRequests().story, texts.ConsoleTextsFor(""))[i]
		if got.At.TimeOfDay() != want.at || got.Link != want.link {
			t.Errorf("%q at %s, link %q; want %+v", got.What, got.At.TimeOfDay(), got.Link, want)
		}
	}
	s := newSituation("", waiting(store.Queued, "temporary_dial", "", doubtful))
	for i, dated := range []bool{true, true, false, false, true} {
		if got := Timeline(s.story, texts.ConsoleTextsFor(""))[i]; got.At.IsZero() == dated {
			t.Errorf("%q at %s", got.What, got.At.TimeOfDay())
		}
	}
}

// The line of a request leaves out the language and the network if they are not known.
func TestTimelineLeavesOutUnknown(t *testing.T) {
	w := texts.ConsoleTextsFor("")
	for _, c := range []struct{ locale, network, want string }{
		{"zh-CN", "203.0.113.0/24", w.Get("line.locale", "value", "zh-CN") + w.Get("line.from", "value", "203.0.113.0/24")},
		{"*", "203.0.113.0/24", w.Get("line.from", "value", "203.0.113.0/24")},
		{"", "", ""},
	} {
		s := newSituation("", sentAs(store.Sent, "", func(s *store.SendOrRefusal, _ *store.Verification) {
			s.Locale, s.Network = c.locale, c.network
		}))
		_, got, _ := strings.Cut(Timeline(s.story, w)[0].What.String(), "login")
		if got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
}

func TestTimelineIsInOrder(t *testing.T) {
	for _, c := range verdictTests() {
		last := time.Time{}
		for _, e := range Timeline(c.story, texts.ConsoleTextsFor("")) {
			if e.At.IsZero() {
				continue
			}
			if e.At.Before(last) {
				t.Errorf("%s: %q stands too late", c.name, e.What)
			}
			last = e.At.Time
		}
	}
}
