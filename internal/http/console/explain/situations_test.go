package explain

import (
	"time"

	"github.com/google/uuid"

	"sendcode/internal/base/recipient"
	"sendcode/internal/codes/policy"
	"sendcode/internal/http/console/consoletest"
	"sendcode/internal/store"
	"sendcode/quota"
)

// situation is one combination of states that support may be asked about.
type situation struct {
	name  string
	story store.SendDetails
	facts VerdictFacts
}

// newSituation returns a send with its code, as the database would return them. The present time is
// three minutes after the request.
func newSituation(name string, change change) situation {
	v := store.Verification{CreatedAt: consoletest.Start, ExpiresAt: consoletest.Start.Add(10 * time.Minute), MaxAttempts: 5, Sends: 1}
	s := store.SendOrRefusal{Refusal: store.Refusal{Count: 1}, Send: store.Send{
		Number: 1, App: "shop", Purpose: "login", To: "a•••@example.com", Locale: "zh-CN", Network: "203.0.113.0/24", Attempt: 1, Counts: true,
		LoggedAt:   consoletest.Start,
		DueAt:      consoletest.Start.Add(3*time.Minute + 4*time.Second),
		FinishedAt: consoletest.Start.Add(184 * time.Millisecond),
		Provider:   "mx1.example.net", Took: 184 * time.Millisecond,
	}}
	change(&s, &v)
	return situation{name: name, story: store.SendDetails{Send: s, Verification: &v, Now: consoletest.Start.Add(3 * time.Minute)}}
}

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

// waiting returns a change to a send without an outcome, which is queued or being sent.
func waiting(status store.Status, reason, code string, more ...change) change {
	return change(func(s *store.SendOrRefusal, _ *store.Verification) {
		s.Status, s.FinishedAt, s.Reason, s.ProviderCode = status, time.Time{}, reason, code
	}).and(more)
}

func refusedBy(rule string, wait time.Duration, n int, more ...change) change {
	return change(func(s *store.SendOrRefusal, _ *store.Verification) {
		*s = store.SendOrRefusal{Refusal: store.Refusal{BlockedBy: rule, RetryAfter: wait, Count: n}, Send: store.Send{
			App: "shop", Purpose: "login", To: "a•••@example.com", Status: store.Refused, LoggedAt: consoletest.Start, FinishedAt: consoletest.Start,
		}}
	}).and(more)
}

// Several situations use these changes and times.
var (
	accepted   = sentAs(store.Sent, "250 2.0.0")
	suppressed = failedAs("suppressed", "", false)
	noAddress  = failedAs("rejected", "550 5.1.1", false)
	byHour     = refusedBy("hour", 20*time.Minute, 1)
	aMinuteIn  = consoletest.Start.Add(time.Minute)
	anHourOn   = consoletest.Start.Add(time.Hour)
)

// These functions change the state of a code or of its send.
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
func counting(recipients int) change {
	return func(s *store.SendOrRefusal, _ *store.Verification) { s.Recipients = recipients }
}
func thirdTry(s *store.SendOrRefusal, _ *store.Verification) { s.Attempt = 3 }
func unnamed(s *store.SendOrRefusal, _ *store.Verification)  { s.Provider = "" }
func toTest(s *store.SendOrRefusal, _ *store.Verification)   { s.Provider = "test" }

// resent adds earlier sends of the same code, which these servers accepted.
func (s situation) resent(servers ...string) situation {
	s.facts.ResendOther, s.story.Send.Number = true, len(servers)+1
	s = s.withEarlierSends(make([]store.Status, len(servers))...)
	for i, server := range servers {
		s.story.Related[i].Status, s.story.Related[i].Provider = store.Sent, server
	}
	return s
}

// stoppedSince adds a suppression that came after the send.
func (s situation) stoppedSince(cause store.SuppressionCause) situation {
	since := consoletest.Start.Add(30 * time.Second)
	s.facts.Suppression = &store.Suppression{Cause: cause, Since: since, Until: since.Add(30 * 24 * time.Hour)}
	return s
}

func (s situation) alone() situation {
	s.story.Verification = nil
	return s
}

// withEarlierSends adds earlier sends with these outcomes.
func (s situation) withEarlierSends(ends ...store.Status) situation {
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

// withWaits sets the decision of the recipient's rules: the waits of the rules minute and hour.
func (s situation) withWaits(minute, hour time.Duration) situation {
	s.facts.Quota = &quota.Decision{At: consoletest.Start.Add(3 * time.Minute), Rules: []quota.State{
		{Rule: quota.Rule{Name: "minute", Scope: quota.Recipient, Limit: 1}, RetryAfter: minute},
		{Rule: quota.Rule{Name: "hour", Scope: quota.Recipient, Limit: 5}, RetryAfter: hour},
	}}
	return s
}

// stopped adds the suppression that stopped the send.
func (s situation) stopped(x store.Suppression) situation {
	x.ID, x.Since = uuid.UUID{8}, consoletest.Start.Add(-48*time.Hour)
	if x.Until.IsZero() {
		x.Until = x.Since.Add(30 * 24 * time.Hour)
	}
	s.story.Send.Suppression, s.story.Suppressions = x.ID, []store.Suppression{{ID: uuid.UUID{7}}, x}
	return s
}

// withEvent adds an event that a provider reported for the send.
func (s situation) withEvent(kind store.ProviderEventKind, detail string) situation {
	n := time.Duration(len(s.story.Events) + 1)
	s.story.Events = append(s.story.Events, store.ProviderEvent{
		Kind: kind, At: consoletest.Start.Add(n * time.Second),
		HeardAt: consoletest.Start.Add(time.Minute), Provider: "postmark", Detail: detail,
	})
	s.story.Send.WorstEvent = kind
	return s
}

// bounced adds the suppression that the send caused.
func (s situation) bounced(x store.Suppression) situation {
	s = s.stopped(x)
	s.story.Send.Suppression, s.story.Suppressions[1].ID = uuid.Nil, store.SuppressionID(s.story.Send.ID, store.CauseHardBounce)
	return s
}

// prefixPaused adds the pause of a prefix that stopped the send.
func (s situation) prefixPaused(lifted, until time.Time) situation {
	s.story.Pause = &store.PrefixPause{
		Prefix: "+49151", Class: store.StrangerClass, Since: consoletest.Start.Add(-time.Hour), Until: until, LiftedAt: lifted,
		Sends: 40, Approved: 1, UsualPercent: 60,
	}
	return s
}

func (s situation) pausedFor(why string) situation {
	s.facts.Pause = &policy.Pause{Reason: why, Since: consoletest.Start.Add(-time.Hour)}
	return s
}

// withRuleScope sets the scope of the rule that refused the row.
func (s situation) withRuleScope(scope quota.Scope) situation {
	s.facts.RuleScope = scope
	return s
}

// text turns the send into a text message.
func (s situation) text() situation {
	s.name = "text message: " + s.name
	s.story.Send.Channel = recipient.SMS
	return s
}

// withLaterRequest adds a later request of the same recipient, with this status.
func (s situation) withLaterRequest(became store.Status) situation {
	s.facts.Newer = &store.SendOrRefusal{Send: store.Send{
		ID: uuid.UUID{5}, Status: became, LoggedAt: consoletest.Start.Add(2 * time.Minute),
		App: s.story.Send.App, Purpose: s.story.Send.Purpose,
	}}
	if became == store.Refused {
		s.facts.Newer.BlockedBy = "minute"
	}
	return s
}

// withEarlierCode adds a code of the recipient that the refusal does not name.
func (s situation) withEarlierCode(end change) situation {
	s.facts.CodeBefore = newSituation("", end).story.Verification
	return s
}

// unwanted adds the suppression that the recipient's complaint caused.
func (s situation) unwanted(x store.Suppression) situation {
	x.Cause = store.CauseComplaint
	s = s.bounced(x)
	s.story.Suppressions[1].ID = store.SuppressionID(s.story.Send.ID, store.CauseComplaint)
	return s
}

// lockedOut locks out the codes of these classes of callers.
func (s situation) lockedOut(all ...store.Lockout) situation {
	s.facts.Locks = all
	return s
}

// reserved makes the rules refuse only strangers.
func (s situation) reserved() situation {
	s.facts.Strangers = s.facts.Quota
	return s.withWaits(0, 0)
}

// withStrangersScope sets the scope of the rules that make strangers wait.
func (s situation) withStrangersScope(scope quota.Scope) situation {
	for i := range s.facts.Strangers.Rules {
		s.facts.Strangers.Rules[i].Scope = scope
	}
	return s
}

func (s situation) erased() situation {
	s.story.Send.To, s.story.Send.Locale, s.story.Send.Network = store.ErasedMask, "", ""
	return s
}

func halfTried(_ *store.SendOrRefusal, v *store.Verification) { checked(v, 1) }

// withRule adds a rule with this wait.
func (s situation) withRule(rule string, scope quota.Scope, wait time.Duration) situation {
	s.facts.Quota.Rules = append(s.facts.Quota.Rules, quota.State{Rule: quota.Rule{Name: rule, Scope: scope, Limit: 20}, RetryAfter: wait})
	return s
}
