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

// Situations of text messages, of rules that count more than one recipient, and of what was asked
// for again or erased.

// by sets the scope of the rule that refused the row.
func (s situation) by(scope quota.Scope) situation {
	s.facts.RuleScope = scope
	return s
}

// text makes it one about a text message.
func (s situation) text() situation {
	s.name = "text message: " + s.name
	s.story.Send.Channel = recipient.SMS
	return s
}

// since has the same been asked for again.
func (s situation) since(became store.Status) situation {
	s.facts.Newer = &store.SendOrRefusal{Send: store.Send{
		ID: uuid.UUID{5}, Status: became, LoggedAt: consoletest.Start.Add(2 * time.Minute),
		App: s.story.Send.App, Purpose: s.story.Send.Purpose,
	}}
	if became == store.Refused {
		s.facts.Newer.BlockedBy = "minute"
	}
	return s
}

// holding gives the recipient a code that the refusal does not name.
func (s situation) holding(end change) situation {
	s.facts.CodeBefore = told("", end).story.Verification
	return s
}

// stoppedSince has a suppression that came after the send.
func (s situation) stoppedSince(cause store.SuppressionCause) situation {
	since := consoletest.Start.Add(30 * time.Second)
	s.facts.Suppression = &store.Suppression{Cause: cause, Since: since, Until: since.Add(30 * 24 * time.Hour)}
	return s
}

// unwanted is the row of which a complaint came.
func (s situation) unwanted(x store.Suppression) situation {
	x.Cause = store.CauseComplaint
	s = s.bounced(x)
	s.story.Suppressions[1].ID = store.SuppressionID(s.story.Send.ID, store.CauseComplaint)
	return s
}

// lockedOut has the codes of some classes of callers locked out now.
func (s situation) lockedOut(all ...store.Lockout) situation {
	s.facts.Locks = all
	return s
}

// reserved has the rules refuse unknown browsers alone.
func (s situation) reserved() situation {
	s.facts.Strangers = s.facts.Quota
	return s.with(0, 0)
}

// of makes the rules whose wait is shown rules of a scope.
func (s situation) of(scope quota.Scope) situation {
	for i := range s.facts.Strangers.Rules {
		s.facts.Strangers.Rules[i].Scope = scope
	}
	return s
}

func (s situation) forgotten() situation {
	s.story.Send.To, s.story.Send.Locale, s.story.Send.Network = store.ErasedMask, "", ""
	return s
}

func kindsOfSituations() []situation {
	all := []situation{
		told("sent, asked again and refused", accepted).since(store.Refused),
		told("sent, expired, asked again", sentAs(store.Sent, "250 2.0.0", expired)).since(store.Sent),
		told("sent, erased", sentAs(store.Sent, "250 2.0.0", canceled)).forgotten(),
		told("failed, erased while it waited", failedAs(store.ReasonErased, "", true)).forgotten(),
		told("failed, mailbox full until expired", failedAs("expired", "452 4.2.2", false)),
		told("failed, its mailbox until expired", failedAs("expired", "451 4.2.1", false)),
		told("sent, bounced later, mailbox full", accepted).later(store.ProviderBounced, "552 5.2.2"),
		told("sent, bounced later, policy", accepted).later(store.ProviderBounced, "5.7.1"),
		told("sent, called spam, and suppressed for it", accepted).unwanted(store.Suppression{}).later(store.ProviderComplained, "abuse"),
		told("sent, called spam, and lifted", accepted).unwanted(store.Suppression{LiftedAt: aMinuteIn}).later(store.ProviderComplained,
			"abuse"),
		told("sent, suppressed since then", accepted).stoppedSince(store.CauseManual),
		told("failed, then suppressed", failedAs("expired", "452 4.2.2", false)).stoppedSince(store.CauseComplaint),
		told("failed, suppressed by hand", suppressed).stopped(store.Suppression{Cause: store.CauseManual}),
		told("queued, mailbox full", waiting(store.Queued, "temporary_rcpt", "452 4.2.2")),
		told("refused, and a code that it does not name", byHour).with(0, 20*time.Minute).by(quota.Recipient).holding(halfTried).alone(),
		told("refused, and a spent code that it does not name", byHour).with(0, 20*time.Minute).by(quota.Recipient).holding(locked).alone(),
		told("refused, the reserve is left", byHour).with(0, 20*time.Minute).by(quota.Recipient).reserved().alone(),
		told("refused, the reserve is left longer", byHour).with(0, 20*time.Minute).by(quota.Recipient).reserved().with(time.Minute, 0).alone(),
		told("refused, the reserve of an app is left", byHour).with(0, 20*time.Minute).by(quota.App).reserved().of(quota.App).alone(),
		told("refused, unknown browsers back off", byHour).with(0, 20*time.Minute).by(quota.Recipient).reserved().of(quota.Backoff).alone(),
		told("refused, and locked out since", byHour).with(0, 0).by(quota.Recipient).lockedOut(store.Lockout{Wait: time.Hour, Failures: 20}).alone(),
		told("refused, the lockout is over, another rule waits", refusedBy(policy.LockoutName, 700*time.Hour, 1)).with(0, time.Minute).alone(),
		told("sent, and locked out since", accepted).lockedOut(store.Lockout{Wait: time.Hour, Failures: 20}),
		told("failed, locked meanwhile, as all codes are", failedAs(store.ReasonEnded, "", false, unnamed, locked)).lockedOut(store.Lockout{Wait: time.Hour, Failures: 20}),
		told("queued, more than may be sent", waiting(store.Queued, "backlog", "", unnamed, thirdTry)),
		told("queued, more than may be sent, and its code expired", waiting(store.Queued, "backlog", "", unnamed, thirdTry, expired)),
		told("refused, too many failures", refusedBy("failures", 20*time.Hour, 1)).with(0, 0).
			also("failures", quota.Failures, 20*time.Hour).by(quota.Failures).alone(),
		told("refused, unknown browsers' codes are locked out", refusedBy(policy.LockoutName, 20*time.Hour, 1)).with(0, 0).
			lockedOut(store.Lockout{Class: store.UnknownBrowser, Wait: 19 * time.Hour, Failures: 20}).alone(),
		told("refused, all codes are locked out", refusedBy(policy.LockoutName, 700*time.Hour, 3)).with(0, 0).lockedOut(
			store.Lockout{Wait: 600 * time.Hour, Failures: 100},
			store.Lockout{Class: store.KnownBrowser, Wait: 600 * time.Hour, Failures: 100},
			store.Lockout{Class: store.UnknownBrowser, Wait: 601 * time.Hour, Failures: 100}).alone(),
		told("refused, codes were locked out", refusedBy(policy.LockoutName, 20*time.Hour, 1)).with(0, 0).holding(halfTried).alone(),
		told("refused, by the breaker", refusedBy(policy.BreakerName, 42*time.Second, 1)).with(0, 0).alone(),
		told("refused, without an address", refusedBy(policy.UnnamedRule.Name, 42*time.Second, 1)).with(0, 0).alone(),
		told("refused, by backing off", refusedBy(policy.BackoffName, 50*time.Minute, 1)).with(0, 0).alone(),
		told("turned away, disposable", refusedBy(policy.ReasonDisposable, 0, 1)).with(0, 0).alone(),
		told("turned away, several, voip", refusedBy(policy.ReasonVoIP, 0, 7)).with(0, 0).alone().text(),
		told("turned away, country not served", refusedBy(policy.ReasonCountryNotServed, 0, 1)).with(0, 0).alone().text(),
		told("refused, several by a network's rule", refusedBy("office", 42*time.Second, 7)).with(0, 0).by(quota.Network).alone(),
	}
	for _, scope := range []quota.Scope{quota.App, quota.Purpose, quota.IP, quota.Network, quota.Country, quota.Prefix, quota.Global} {
		all = append(all, told("refused, by a rule on "+string(scope), refusedBy("wide", 42*time.Second, 1)).with(0, 0).by(scope).alone())
	}
	for _, s := range []situation{
		told("sent", sentAs(store.Sent, "201")),
		told("sent, expired", sentAs(store.Sent, "201", expired)),
		told("sent, no code known", sentAs(store.Sent, "201")).alone(),
		told("delivered", sentAs(store.Delivered, "201")),
		told("delivered, approved", sentAs(store.Delivered, "201", approved)),
		told("delivered, expired", sentAs(store.Delivered, "201", expired)),
		told("delivered, too many wrong tries", sentAs(store.Delivered, "201", locked)),
		told("delivered, no code known", sentAs(store.Delivered, "201")).alone(),
		told("undelivered", sentAs(store.Undelivered, "201")),
		told("undelivered, approved", sentAs(store.Undelivered, "201", approved)),
		told("undelivered, expired", sentAs(store.Undelivered, "201", expired)),
		told("undelivered, no code known", sentAs(store.Undelivered, "201")).alone(),
		told("unknown", sentAs(store.Unknown, "", unanswered)),
		told("unknown, in doubt", sentAs(store.Unknown, "", unanswered, doubtful)),
		told("unknown, no code known", sentAs(store.Unknown, "", unanswered)).alone(),
		told("failed, refused", failedAs("rejected", "400 21211", false)),
		told("failed, refused without a word", failedAs("rejected", "", false)),
		told("failed, put off until expired", failedAs("expired", "429", false)),
		told("failed, unreachable until expired", failedAs("expired", "", false)),
		told("failed, not tried before it expired", failedAs("expired", "", false, unnamed)),
		told("failed, the carrier's limit", failedAs("carrier_limit", "200 9", false)).with(0, 0).also(policy.CarrierName, "", 30*time.Minute),
		told("failed, the carrier's limit is over", failedAs("carrier_limit", "200 9", false)).with(0, 0),
		told("failed, the carrier's limit, quota not known", failedAs("carrier_limit", "200 9", false)),
		told("failed, spend cap", failedAs("spend_cap", "", false)),
		told("failed, opted out", failedAs("opted_out", "400 21610", false)),
		told("failed, country not served any more", failedAs("country_not_served", "", false)),
		told("failed, no carrier any more", failedAs("not_configured", "", false)),
		told("failed, suppressed since they told the carrier to stop", suppressed).stopped(store.Suppression{Cause: store.CauseOptOut}),
		told("failed, suppressed since they told the carrier to stop, and lifted",
			suppressed).stopped(store.Suppression{Cause: store.CauseOptOut, LiftedAt: aMinuteIn}),
		told("failed, suppressed by hand", suppressed).stopped(store.Suppression{Cause: store.CauseManual}),
		told("queued, put off", waiting(store.Queued, "temporary_answer", "429")),
		told("queued, server not known", waiting(store.Queued, "temporary_request", "", unnamed)),
		told("sending", waiting(store.Sending, "", "")),
		told("refused, the carrier's limit", refusedBy(policy.CarrierName, 30*time.Minute, 1)).with(0, 0).
			also(policy.CarrierName, "", 30*time.Minute).alone(),
	} {
		all = append(all, s.text())
	}
	return all
}

func halfTried(_ *store.SendOrRefusal, v *store.Verification) { checked(v, 1) }

// also adds a rule that is only shown while it blocks.
func (s situation) also(rule string, scope quota.Scope, wait time.Duration) situation {
	s.facts.Quota.Rules = append(s.facts.Quota.Rules, quota.State{Rule: quota.Rule{Name: rule, Scope: scope, Limit: 20}, RetryAfter: wait})
	return s
}
