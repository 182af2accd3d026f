package explain

import (
	"cmp"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"sendcode/internal/base/texts"
	"sendcode/internal/codes/policy"
	"sendcode/internal/http/console/consoletest"
	"sendcode/internal/kit/golden"
	"sendcode/internal/kit/servertest"
	"sendcode/internal/store"
	"sendcode/internal/verify/verification"
	"sendcode/quota"
)

// situation is one combination of states that a caller may ask about.
type situation struct {
	name  string
	story store.SendDetails
	facts VerdictFacts
}

// told returns a send with its code, as the database would return them. The present time is three
// minutes after the request.
func told(name string, change change) situation {
	v := store.Verification{CreatedAt: consoletest.Start, ExpiresAt: consoletest.Start.Add(10 * time.Minute), MaxAttempts: 5, Sends: 1}
	s := store.SendOrRefusal{Refusal: store.Refusal{Count: 1}, Send: store.Send{
		Number: 1, App: "shop", Purpose: "login", Locale: "zh-CN", Network: "203.0.113.0/24", Attempt: 1, Counts: true,
		LoggedAt:   consoletest.Start,
		DueAt:      consoletest.Start.Add(3*time.Minute + 4*time.Second),
		FinishedAt: consoletest.Start.Add(184 * time.Millisecond),
		Provider:   "mx1.example.net", Took: 184 * time.Millisecond,
	}}
	change(&s, &v)
	return situation{name: name, story: store.SendDetails{Send: s, Verification: &v, Now: consoletest.Start.Add(3 * time.Minute)}}
}

// change makes a send and its code another one.
type change func(*store.SendOrRefusal, *store.Verification)

func (c change) and(more []change) change {
	return func(s *store.SendOrRefusal, v *store.Verification) {
		for _, change := range append([]change{c}, more...) {
			change(s, v)
		}
	}
}

func sentAs(status store.Status, code string, more ...change) change {
	return change(func(s *store.SendOrRefusal, _ *store.Verification) { s.Status, s.ProviderCode = status, code }).and(more)
}

func failedAs(reason, code string, counts bool, more ...change) change {
	return change(func(s *store.SendOrRefusal, _ *store.Verification) {
		s.Status, s.Reason, s.ProviderCode, s.Counts = store.Failed, reason, code, counts
	}).and(more)
}

// waiting is a send without an outcome: queued, or being sent.
func waiting(status store.Status, reason, code string, more ...change) change {
	return change(func(s *store.SendOrRefusal, _ *store.Verification) {
		s.Status, s.FinishedAt, s.Reason, s.ProviderCode = status, time.Time{}, reason, code
	}).and(more)
}

func refusedBy(rule string, wait time.Duration, n int) change {
	return func(s *store.SendOrRefusal, _ *store.Verification) {
		*s = store.SendOrRefusal{Refusal: store.Refusal{BlockedBy: rule, RetryAfter: wait, Count: n}, Send: store.Send{
			App: "shop", Purpose: "login", Status: store.Refused, LoggedAt: consoletest.Start, FinishedAt: consoletest.Start,
		}}
	}
}

// What several situations begin with.
var (
	accepted   = sentAs(store.Sent, "250 2.0.0")
	suppressed = failedAs("suppressed", "", false)
	noAddress  = failedAs("rejected", "550 5.1.1", false)
	byHour     = refusedBy("hour", 20*time.Minute, 1)
	aMinuteIn  = consoletest.Start.Add(time.Minute)
)

// The ends that a code can come to.
func approved(_ *store.SendOrRefusal, v *store.Verification) {
	v.ApprovedAt = consoletest.Start.Add(70 * time.Second)
	checked(v, 2)
}
func callers(_ *store.SendOrRefusal, v *store.Verification) { v.CallerChecks = true }
func canceled(_ *store.SendOrRefusal, v *store.Verification) {
	v.CanceledAt = consoletest.Start.Add(80 * time.Second)
}
func locked(_ *store.SendOrRefusal, v *store.Verification) { checked(v, 5) }

// checked counts n checks of a code, 20 seconds apart.
func checked(v *store.Verification, n int) {
	v.Attempts = n
	for i := range n {
		v.Checks = append(v.Checks, store.Check{
			At:      consoletest.Start.Add(time.Duration(i+1) * 20 * time.Second),
			Network: "198.51.100.0/24",
		})
	}
}

func expired(_ *store.SendOrRefusal, v *store.Verification) {
	v.ExpiresAt = consoletest.Start.Add(3 * time.Minute)
}
func twiceWrong(_ *store.SendOrRefusal, v *store.Verification) { checked(v, 2) }
func doubtful(s *store.SendOrRefusal, _ *store.Verification)   { s.InDoubt, s.Attempt = true, 2 }
func unanswered(s *store.SendOrRefusal, _ *store.Verification) {
	s.Reason, s.ProviderCode = "no_answer", ""
}
func thirdTry(s *store.SendOrRefusal, _ *store.Verification) { s.Attempt = 3 }
func unnamed(s *store.SendOrRefusal, _ *store.Verification)  { s.Provider = "" }
func toTest(s *store.SendOrRefusal, _ *store.Verification)   { s.Provider = "test" }

// resent puts sends before it that these servers took.
func (s situation) resent(servers ...string) situation {
	s.facts.ResendOther, s.story.Send.Number = true, len(servers)+1
	s = s.after(make([]store.Status, len(servers))...)
	for i, server := range servers {
		s.story.Related[i].Status, s.story.Related[i].Provider = store.Sent, server
	}
	return s
}

func (s situation) alone() situation {
	s.story.Verification = nil
	return s
}

// after puts sends before it that ended so.
func (s situation) after(ends ...store.Status) situation {
	for i, end := range ends {
		s.story.Related = append(s.story.Related, store.SendOrRefusal{Refusal: store.Refusal{Count: 1}, Send: store.Send{
			ID: uuid.UUID{9, byte(i)}, Number: i + 1, App: "shop", Purpose: "login", Status: end, Attempt: 1, Counts: true,
			LoggedAt: consoletest.Start.Add(-time.Minute), FinishedAt: consoletest.Start.Add(-time.Minute),
			DueAt: consoletest.Start.Add(time.Minute),
		}})
	}
	s.story.Related = append(s.story.Related, s.story.Send)
	return s
}

// with gives what the recipient's rules say: the minute's wait, and whether the hour blocks.
func (s situation) with(minute, hour time.Duration) situation {
	s.facts.Quota = &quota.Decision{At: consoletest.Start.Add(3 * time.Minute), Rules: []quota.State{
		{Rule: quota.Rule{Name: "minute", Scope: quota.Recipient, Limit: 1}, RetryAfter: minute},
		{Rule: quota.Rule{Name: "hour", Scope: quota.Recipient, Limit: 5}, RetryAfter: hour},
	}}
	return s
}

func situations() []situation {
	return append([]situation{
		told("sent", accepted),
		told("sent, approved", sentAs(store.Sent, "250 2.0.0", approved)),
		told("sent, expired", sentAs(store.Sent, "250", expired)),
		told("sent, too many wrong tries", sentAs(store.Sent, "250 2.0.0", locked)),
		told("sent, canceled", sentAs(store.Sent, "250 2.0.0", canceled)),
		told("sent, in doubt", sentAs(store.Sent, "250 2.0.0", doubtful)),
		told("sent, as its code was entered shows", sentAs(store.Sent, "", unnamed, doubtful, callers, approved,
			func(s *store.SendOrRefusal, _ *store.Verification) { s.Took = 0 })),
		told("sent, server not known", sentAs(store.Sent, "", unnamed)),
		told("sent, no code known", accepted).alone(),
		told("sent, two wrong codes", sentAs(store.Sent, "250 2.0.0", twiceWrong)),
		told("bounced later, two wrong codes", sentAs(store.Sent, "250 2.0.0", twiceWrong)).later(store.ProviderBounced, "5.2.2"),
		told("failed, locked meanwhile", failedAs("ended", "", false, locked)),
		told("sent, locked, and its recipient erased",
			sentAs(store.Sent, "250 2.0.0", locked, func(_ *store.SendOrRefusal, v *store.Verification) { v.Checks = nil })).forgotten(),
		told("unknown", sentAs(store.Unknown, "", unanswered)),
		told("unknown, approved", sentAs(store.Unknown, "", unanswered, approved)),
		told("unknown, expired", sentAs(store.Unknown, "", unanswered, expired)),
		told("unknown, too many wrong tries", sentAs(store.Unknown, "", unanswered, locked)),
		told("unknown, canceled", sentAs(store.Unknown, "", unanswered, canceled)),
		told("unknown, in doubt", sentAs(store.Unknown, "", unanswered, doubtful)),
		told("unknown, in doubt, and its code used",
			sentAs(store.Unknown, "", doubtful, approved, func(s *store.SendOrRefusal, _ *store.Verification) {
				s.Reason, s.Took = store.ReasonEnded, 0
			})),
		told("unknown, no code known", sentAs(store.Unknown, "", unanswered)).alone(),
		told("failed, no such address", noAddress),
		told("failed, mailbox full", failedAs("rejected", "552 5.2.2", false)),
		told("failed, mailbox disabled", failedAs("rejected", "550 5.2.1", false)),
		told("failed, policy", failedAs("rejected", "554 5.7.1", false)),
		told("failed, refused without a reason", failedAs("rejected", "550", false)),
		told("failed, never sayable", failedAs("rejected", "", false)),
		told("failed, after a doubtful attempt", failedAs("rejected", "550 5.1.1", true, doubtful)),
		told("failed, put off until expired", failedAs("expired", "451 4.7.1", false)),
		told("failed, not tried before it expired", failedAs("expired", "", false)),
		told("failed, approved meanwhile", failedAs("ended", "", false, approved)),
		told("failed, canceled meanwhile", failedAs("ended", "", false, canceled)),
		told("failed, key gone", failedAs("unreadable", "", false)),
		told("failed, on the block list", failedAs("blocked", "", true)),
		told("sent, to a test recipient", sentAs(store.Sent, "", toTest)),
		told("failed, template broken", failedAs("template", "", false)),
		told("failed, for a reason of a later version", failedAs("of a later version", "", false)),
		told("failed, suppressed", suppressed).stopped(store.Suppression{Cause: store.CauseHardBounce, Detail: "550 5.1.1"}),
		told("failed, suppressed by hand and lifted",
			suppressed).stopped(store.Suppression{Cause: store.CauseManual, Detail: "asked by telephone", By: "mei", LiftedAt: aMinuteIn}),
		told("failed, suppressed until a moment ago", suppressed).stopped(store.Suppression{Cause: store.CauseComplaint, Until: aMinuteIn}),
		told("failed, suppressed by what is not known any more", suppressed),
		told("failed, no such address, suppressed since", noAddress).bounced(store.Suppression{}),
		told("failed, no such address, suppression lifted", noAddress).bounced(store.Suppression{LiftedAt: aMinuteIn}),
		told("failed, no such address, suppression ended", noAddress).bounced(store.Suppression{Until: aMinuteIn}),
		told("failed, paused", failedAs("paused", "", false)),
		told("sent, delivered as told", accepted).later(store.ProviderDelivered, "250"),
		told("sent, bounced later",
			accepted).bounced(store.Suppression{}).later(store.ProviderDelivered, "").later(store.ProviderBounced, "550 5.1.1"),
		told("sent another way than before", accepted).resent("mx2.example.net", "mx3.example.net"),
		told("sent the same way as before", accepted).resent("mx2.example.net", "mx1.example.net"),
		told("sent, delayed", accepted).later(store.ProviderDelayed, "4.4.1"),
		told("sent, bounced later and expired", sentAs(store.Sent, "250 2.0.0", expired)).later(store.ProviderBounced, "5.2.2"),
		told("sent, bounced later, and approved all the same", sentAs(store.Sent, "250 2.0.0", approved)).later(store.ProviderBounced, ""),
		told("sent, called spam", accepted).later(store.ProviderBounced, "").later(store.ProviderComplained, "abuse"),
		told("sent, opted out", sentAs(store.Sent, "250 2.0.0", approved)).later(store.ProviderOptedOut, ""),
		told("unknown, delivered as told", sentAs(store.Unknown, "", unanswered)).later(store.ProviderDelivered, ""),
		told("failed, paused and still so", failedAs("paused", "", false)).pausedFor("the server moves"),
		told("failed, paused for no reason", failedAs("paused", "", false)).pausedFor(""),
		told("refused, still blocked", refusedBy("minute", 41713*time.Millisecond, 1)).with(17*time.Second+time.Microsecond, 0).alone(),
		told("refused, another rule blocks by now", refusedBy("minute", 42*time.Second, 1)).with(0, 20*time.Minute).alone(),
		told("refused, free again", refusedBy("minute", 42*time.Second, 3)).with(0, 0).alone(),
		told("refused, and a code that works", refusedBy("minute", 42*time.Second, 3)).with(0, 0).after(store.Failed, store.Sent),
		told("refused, and a code that may have arrived", refusedBy("minute", 42*time.Second, 3)).with(0, 0).after(store.Unknown),
		told("refused, and a code that never went out", refusedBy("minute", 42*time.Second, 3)).with(0, 0).after(store.Failed,
			store.Queued),
		told("refused, by a rule of another scope", refusedBy("office", 42*time.Second, 1)).with(0, 0).alone(),
		told("refused, several by a rule of another scope", refusedBy("office", 42*time.Second, 7)).with(0, 0).alone(),
		told("refused, quota not known", refusedBy("minute", 42*time.Second, 1)).alone(),
		told("refused, several, quota not known", refusedBy("day", 3*time.Hour+20*time.Minute, 2)).alone(),
		told("queued, first", waiting(store.Queued, "", "", unnamed)),
		told("queued, put off", waiting(store.Queued, "temporary_rcpt", "421 4.7.0")),
		told("queued, server away", waiting(store.Queued, "temporary_dial", "", thirdTry)),
		told("queued, server set aside", waiting(store.Queued, "temporary_aside", "", unnamed, thirdTry)),
		told("queued, in doubt", waiting(store.Queued, "temporary_dial", "", doubtful)),
		told("queued, and its code expired", waiting(store.Queued, "temporary_dial", "", expired)),
		told("queued, first, and its code expired", waiting(store.Queued, "", "", unnamed, expired)),
		told("queued, and its code approved", waiting(store.Queued, "temporary_dial", "", approved)),
		told("queued, and its code locked", waiting(store.Queued, "temporary_dial", "", locked)),
		told("sending", waiting(store.Sending, "", "")),
		told("sent, a caller's code", sentAs(store.Sent, "250 2.0.0", callers)),
		told("sent, a caller's code, long ago", sentAs(store.Sent, "250 2.0.0", callers, expired)),
		told("failed, a caller's code", failedAs(store.ReasonRejected, "550 5.7.1", false, callers)),
		told("ended, a caller's code canceled", failedAs(store.ReasonEnded, "", false, unnamed, callers, canceled)),
		told("queued, a caller's code", waiting(store.Queued, "temporary_dial", "", callers)),
		told("sending, in doubt", waiting(store.Sending, "", "", doubtful)),
	}, kindsOfSituations()...)
}

// Every combination of states has its verdict, its time line, and a reply in the person's language
// that tells nothing of the service.
func TestStories(t *testing.T) {
	var b strings.Builder
	for _, s := range append(situations(), timelines()...) {
		say := func(texts ...any) {
			line := strings.TrimRight(fmt.Sprintln(texts...), " \n")
			fmt.Fprintln(&b, line)
			if line == "" || strings.ContainsAny(line, "{}") || strings.Contains(line, "0001-") {
				t.Errorf("%s: an empty place in %q", s.name, line)
			}
		}
		fmt.Fprintf(&b, "\n== %s\n", s.name)
		for _, w := range texts.ConsoleLanguages() {
			v := Judge(s.story, s.facts, w)
			say(v.What)
			say(v.Next)
			if v.Newer != nil {
				say(v.Newer.Text, v.Newer.Link)
			}
			last := time.Time{}
			for _, e := range Timeline(s.story, w) {
				when := strings.Repeat(" ", 12)
				if !e.At.IsZero() {
					when = e.At.Hour()
					if e.At.Before(last) {
						t.Errorf("%s: %s stands too late", s.name, e.What)
					}
					last = e.At.Time
				}
				say(when, fmt.Sprintf("%-5s", e.Tone)+map[bool]string{true: " (future)"}[e.Future], e.What, e.Link)
			}
		}
		s.story.Send.To = cmp.Or(s.story.Send.To, "a•••@example.com")
		var meanings []string
		for _, s.story.Send.Locale = range []string{"es-MX", "ar", "zh-CN", "en-GB"} {
			told := Judge(s.story, s.facts, texts.ConsoleTextsFor("")).Reply
			reply := told.Text
			if meanings = append(meanings, told.Meaning); s.story.Send.Locale == "en-GB" {
				servertest.Same(t, s.name+": what the replies mean", fmt.Sprint(meanings), fmt.Sprint([]string{reply, reply, reply, ""}))
			}
			if (reply == "") != (s.story.Send.Recipients > 0 || s.story.Send.Provider == "test") {
				t.Errorf("%s: the reply %q", s.name, reply)
			}
			for _, hidden := range []string{s.story.Send.Provider, s.story.Send.ProviderCode, "rule", "shop", "{", "UTC", "-"} {
				if hidden != "" && strings.Contains(reply, hidden) {
					t.Errorf("%s: %q is in the reply %q", s.name, hidden, reply)
				}
			}
			if s.story.Send.Locale == "en-GB" {
				fmt.Fprintln(&b, strings.TrimSpace("reply: "+reply))
			}
		}
	}
	golden.File(t, "testdata/stories.txt", b.String())
}

// timelines are situations that differ only in their time line.
func timelines() []situation {
	resend := told("three requests, two sends",
		sentAs(store.Sent, "250 2.0.0", approved, func(s *store.SendOrRefusal, v *store.Verification) {
			s.Number, v.Sends = 2, 2
			s.LoggedAt = consoletest.Start.Add(time.Minute + 2*time.Millisecond)
			s.FinishedAt = consoletest.Start.Add(time.Minute + 99*time.Millisecond)
		}))
	first := told("", failedAs("rejected", "550 5.1.1", false, func(s *store.SendOrRefusal, _ *store.Verification) { s.ID[0] = 1 }))
	blocked := told("", refusedBy("minute", 42*time.Second, 3))
	blocked.story.Send.ID[0], blocked.story.Send.LoggedAt = 2, consoletest.Start.Add(18*time.Second)
	resend.story.Related = []store.SendOrRefusal{first.story.Send, blocked.story.Send, resend.story.Send}
	return []situation{resend, told("tried and pending", sentAs(store.Sent, "250", halfTried))}
}

// stopped is the row that a suppression stopped.
func (s situation) stopped(x store.Suppression) situation {
	x.ID, x.Since = uuid.UUID{8}, consoletest.Start.Add(-48*time.Hour)
	if x.Until.IsZero() {
		x.Until = x.Since.Add(30 * 24 * time.Hour)
	}
	s.story.Send.Suppression, s.story.Suppressions = x.ID, []store.Suppression{{ID: uuid.UUID{7}}, x}
	return s
}

// later is what a provider told of the row.
func (s situation) later(kind store.ProviderEventKind, detail string) situation {
	n := time.Duration(len(s.story.Events) + 1)
	s.story.Events = append(s.story.Events, store.ProviderEvent{
		Kind: kind, At: consoletest.Start.Add(n * time.Second),
		HeardAt: consoletest.Start.Add(time.Minute), Provider: "postmark", Detail: detail,
	})
	s.story.Send.WorstEvent = kind
	return s
}

// bounced is the row that a suppression came of.
func (s situation) bounced(x store.Suppression) situation {
	s = s.stopped(x)
	s.story.Send.Suppression, s.story.Suppressions[1].ID = uuid.Nil, store.SuppressionID(s.story.Send.ID, store.CauseHardBounce)
	return s
}

func (s situation) pausedFor(why string) situation {
	s.facts.Pause = &policy.Pause{Reason: why, Since: consoletest.Start.Add(-time.Hour)}
	return s
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
				s := told("", sentAs(status, "", end, func(s *store.SendOrRefusal, _ *store.Verification) { s.Reason = reason }))
				if got := verification.StateOf(*s.story.Verification, s.story.Now); got != state {
					t.Fatalf("%s is %s", state, got)
				}
				for _, w := range texts.ConsoleLanguages() {
					for _, s := range []situation{s, s.alone(), s.with(time.Minute, 0)} {
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

// What stands out on a send's page: nothing where nothing is to do, the lift of a suppression that
// holds.
func TestWhatStandsOut(t *testing.T) {
	held := store.Suppression{Cause: store.CauseManual}
	for _, c := range []struct {
		situation
		settled, suppressed bool
	}{
		{told("sent", accepted), false, false},
		{told("approved", sentAs(store.Sent, "250 2.0.0", approved)), true, false},
		{told("test recipient", sentAs(store.Sent, "", toTest)), true, false},
		{told("ended", failedAs("ended", "", false, approved)), true, false},
		{told("refused", refusedBy("minute", time.Minute, 1)), false, false},
		{told("suppressed", suppressed).stopped(held), false, true},
		{told("lifted", suppressed).stopped(store.Suppression{Cause: store.CauseManual, LiftedAt: aMinuteIn}), false, false},
		{told("bounced", noAddress).bounced(store.Suppression{}), false, true},
	} {
		v := Judge(c.story, c.facts, texts.ConsoleTextsFor(""))
		if v.Settled != c.settled || v.Suppressed != c.suppressed {
			t.Errorf("%s: settled %v, suppressed %v", c.name, v.Settled, v.Suppressed)
		}
	}
}
